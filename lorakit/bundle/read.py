"""Reads bundles: a good one fast, a bad one with everything that is wrong in it at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lorakit.bundle import keys, layout, syntax
from lorakit.bundle.explain import check_schema, explain, is_newer
from lorakit.bundle.migrations import MIGRATIONS, Migration, migrate
from lorakit.bundle.models import SCHEMA, Bundle
from lorakit.bundle.overrides import apply
from lorakit.bundle.problems import BundleError, Problem

File = TypeVar("File", bound=BaseModel)


def read(path: Path, overrides: Sequence[str] = ()) -> Bundle:
    """The bundle in a file. Raises BundleError with every problem and its line."""
    return parse(syntax.read_text(path), overrides, str(path))


def parse(text: str, overrides: Sequence[str] = (), where: str = "") -> Bundle:
    """The bundle in a text; `where` names the text in an error.

    `overrides` such as `train.steps=300` apply before anything is checked. Raises BundleError with
    every problem and its line.
    """
    return build(syntax.load(text, where), overrides, text, where)


def build(
    data: Mapping[str, Any],
    overrides: Sequence[str] = (),
    text: str = "",
    where: str = "",
) -> Bundle:
    """The bundle of plain tables and values, which `text`, if given, was read from.

    Raises BundleError with every problem, in the text's order.
    """
    bundle, problems = check(data, overrides, text)
    if bundle is None:
        raise BundleError(problems, where)
    return bundle


def check(
    data: Mapping[str, Any],
    overrides: Sequence[str] = (),
    text: str = "",
    migrations: Mapping[int, Migration] = MIGRATIONS,
) -> tuple[Bundle | None, list[Problem]]:
    """Like `build`, with the problems returned; the bundle is None where one is an error.

    A bundle of an older schema is migrated first, and a warning says so.
    """
    return validate(Bundle, data, overrides, text, migrations)


def validate(
    model: type[File],
    data: Mapping[str, Any],
    overrides: Sequence[str] = (),
    text: str = "",
    migrations: Mapping[int, Migration] = MappingProxyType({}),
) -> tuple[File | None, list[Problem]]:
    """Like `check`, for any kind of file that has a `schema`, such as a preset."""
    tables, found = migrate(copy.deepcopy(dict(data)), migrations)
    typed, mistyped = apply(tables, overrides)
    unknown = check_schema(tables)
    if unknown and is_newer(tables):
        return None, _placed(unknown, text, typed)  # its other keys mean nothing here
    tables["schema"] = SCHEMA
    made = None
    found += unknown
    try:
        made = model.model_validate(tables)
    except ValidationError as error:
        found += explain(error, model, typed)
    problems = mistyped + _placed(found, text, typed)
    return (None if any(p.severity == "error" for p in problems) else made), problems


def _placed(problems: list[Problem], text: str, typed: Mapping[keys.Path, str]) -> list[Problem]:
    """With line numbers, and in the order of the lines."""
    lines = {keys.join(path): place.line for path, place in layout.places(text).items()}
    set_by_hand = tuple(keys.join(path) for path in typed)

    def line(key: str) -> int | None:
        if key.startswith(set_by_hand):
            return None
        while key and key not in lines:
            key = key[: key.rfind("[")] if key.endswith("]") else key.rpartition(".")[0]
        return lines.get(key)

    placed = [replace(p, line=line(p.where)) for p in problems]
    return sorted(placed, key=lambda p: p.line or 0)
