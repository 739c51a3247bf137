"""The docstrings under the fields of a model, read from its source when somebody asks for them.

Few commands do, and pydantic would read and parse the source of every model at every start.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from itertools import pairwise


@functools.cache
def under_fields(model: type) -> dict[str, str]:
    """What stands under each field of a model and of those it is made from, by name. Empty where
    there is no source to read."""
    found: dict[str, str] = {}
    for made_from in reversed(model.__mro__):
        found |= _in_module(made_from.__module__).get(made_from.__name__, {})
    return found


@functools.cache
def _in_module(name: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (KeyError, OSError, TypeError):
        return {}
    return {node.name: _of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, below in pairwise(node.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found
