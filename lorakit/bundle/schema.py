"""What a bundle may say: every key with its type, default, range and documentation.

Generated from the models, so that the wizard's help, the reference table, the JSON schema and the
words of a problem cannot differ from what is checked.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lorakit.bundle import docstrings
from lorakit.bundle.models import Bundle

Kind = Literal[
    "whole number",
    "number",
    "text",
    "text or whole number",
    "true or false",
    "list of texts",
    "table",
    "tables",
]

_KINDS: dict[Any, Kind] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDoc:
    """One key of a bundle."""

    key: str
    """Dotted, with `[]` for any entry of a list: `dataset.sources[].path`."""
    kind: Kind
    """Its type, in words."""
    required: bool
    """It has no default."""
    default: Any = None
    """What a missing key means; None where it is required."""
    choices: tuple[str, ...] = ()
    """The allowed texts, where only some are."""
    minimum: float | None = None
    above: float | None = None
    """Like `minimum`, but not the value itself."""
    maximum: float | None = None
    below: float | None = None
    """Like `maximum`, but not the value itself."""
    step: int | None = None
    """It must be a multiple of this."""
    doc: str
    """What it does, one or two sentences."""
    keys: tuple[str, ...] = field(default=(), repr=False)
    """Of a table: the names of its keys."""

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition(".")[2].removesuffix("[]")

    @property
    def allowed(self) -> str:
        """The allowed values in words, such as `above 0, at most 10`; empty: anything goes."""
        if self.kind == "text or whole number":
            return ", ".join((*self.choices, f"or {self._range}"))
        if self.choices:
            return ", ".join(filter(None, self.choices))
        return self._range

    @property
    def _range(self) -> str:
        if self.kind not in ("number", "whole number", "text or whole number"):
            return ""
        low = _edge("above ", self.above) or _edge("", self.minimum)
        high = _edge("below ", self.below) or _edge("", self.maximum)
        if self.minimum is not None and high:
            words = f"{low} to {high}"
        elif low and high:
            words = f"{low}, at most {high}" if self.below is None else f"{low}, {high}"
        else:
            words = low if low.startswith("above") else f"{low} or more" if low else high
        return f"{words}, a multiple of {self.step}" if self.step else words


def fields() -> list[FieldDoc]:
    """Every key that holds a value, in the order a written bundle has them."""
    return [doc for doc in documents().values() if doc.kind not in ("table", "tables")]


def find(key: str, model: type[BaseModel] = Bundle) -> FieldDoc | None:
    """The documentation of a key; `dataset.sources[3].path` finds `dataset.sources[].path`."""
    return documents(model).get(re.sub(r"\[\d+\]", "[]", key))


@functools.cache
def documents(model: type[BaseModel] = Bundle) -> dict[str, FieldDoc]:
    """Keys and tables, by generic key; the file itself has the empty one."""
    return {"": _table("", model), **{doc.key: doc for doc in _walk(model, "")}}


def json_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) of the bundle, for editors that complete and check TOML."""
    schema = Bundle.model_json_schema(by_alias=True)
    schema["required"] = ["schema", *schema["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_tidy(schema),
        "title": "lorakit bundle",
    }


def _walk(model: type[BaseModel], prefix: str) -> Iterator[FieldDoc]:
    tables: list[tuple[str, type[BaseModel]]] = []
    docs = docstrings.under_fields(model)
    for name, info in model.model_fields.items():
        key = prefix + (info.alias or name)
        doc, inner = _document(key, info, docs.get(name, ""))
        yield doc
        if inner is not None:
            tables.append((f"{key}[]." if doc.kind == "tables" else f"{key}.", inner))
            if doc.kind == "tables":
                yield _table(f"{key}[]", inner)
    for below, inner in tables:
        yield from _walk(inner, below)


def _document(key: str, info: FieldInfo, under: str) -> tuple[FieldDoc, type[BaseModel] | None]:
    kind, choices, inner = _type(info.annotation)
    limited = info
    if kind == "text or whole number":
        limited = next(map(FieldInfo.from_annotation, _limited(info.annotation)), info)
    limits = {name: _limit(limited, name) for name in ("ge", "gt", "le", "lt", "multiple_of")}
    if kind == "whole number" and limits["lt"] is not None:
        limits["le"], limits["lt"] = limits["lt"] - 1, None
    doc = FieldDoc(
        key=key,
        kind=kind,
        required=info.is_required() or key == "schema",
        default=None if info.is_required() else info.default,
        choices=choices,
        minimum=limits["ge"],
        above=limits["gt"],
        maximum=limits["le"],
        below=limits["lt"],
        step=limits["multiple_of"],
        doc=_sentences(under or (inner.__doc__ if inner else "")),
        keys=_names(inner) if inner and kind == "table" else (),
    )
    return doc, inner


def _type(annotation: Any) -> tuple[Kind, tuple[str, ...], type[BaseModel] | None]:
    """The kind of a type, its choices, and the model of the table or tables it is."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin in (UnionType, Union):
        named = [choice for a in inside if get_origin(a) is Literal for choice in get_args(a)]
        if named:
            return "text or whole number", tuple(named), None
        # The lock, absent until a run writes it: its keys are nobody's to look up.
        return "table", (), None
    if origin is Literal:
        texts = all(isinstance(choice, str) for choice in inside)
        return ("text", inside, None) if texts else ("whole number", (), None)
    if origin is tuple:
        if _is_model(inside[0]):
            return "tables", (), inside[0]
        choices = get_args(inside[0]) if get_origin(inside[0]) is Literal else ()
        return "list of texts", choices, None
    return ("table", (), annotation) if _is_model(annotation) else (_KINDS[annotation], (), None)


def _limited(annotation: Any) -> list[Any]:
    """The members of a union that have limits."""
    return [member for member in get_args(annotation) if get_origin(member) is Annotated]


def _is_model(annotation: Any) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, BaseModel)


def _table(key: str, model: type[BaseModel]) -> FieldDoc:
    return FieldDoc(
        key=key,
        kind="table",
        required=True,
        doc=_sentences(model.__doc__),
        keys=_names(model),
    )


def _names(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(info.alias or name for name, info in model.model_fields.items())


def _limit(info: FieldInfo, name: str) -> Any:
    return next((getattr(m, name) for m in info.metadata if hasattr(m, name)), None)


def _edge(word: str, limit: float | None) -> str:
    if limit is None:
        return ""
    return f"{word}{limit:,}" if abs(limit) >= 10_000 else f"{word}{limit:g}"


def _sentences(doc: str | None) -> str:
    return " ".join((doc or "").split())


def _tidy(node: Any) -> Any:
    """Descriptions on one line, no titles made up from names, and no null, which TOML lacks."""
    if isinstance(node, list):
        return [_tidy(n) for n in node]
    if not isinstance(node, dict):
        return node
    if {"type": "null"} in node.get("anyOf", ()):
        [given] = (kind for kind in node["anyOf"] if kind != {"type": "null"})
        node = {k: v for k, v in node.items() if k not in ("anyOf", "default")} | given
    tidy = {k: _tidy(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
    if isinstance(tidy.get("description"), str):
        tidy["description"] = _sentences(tidy["description"])
    return tidy
