"""Turns what pydantic refuses into problems: the value, the allowed range and the way out."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lorakit.bundle import keys, schema
from lorakit.bundle.models import SCHEMA, Bundle, control_character
from lorakit.bundle.problems import Problem
from lorakit.bundle.schema import FieldDoc
from lorakit.bundle.syntax import BACKSLASH, SWITCHES, literal_hint
from lorakit.bundle.values import shown

ELSEWHERE = {
    "lr": "train.learning_rate",
    "unet_lr": "train.learning_rate",
    "lr_scheduler": "train.schedule",
    "lr_warmup_steps": "train.warmup_steps",
    "max_train_steps": "train.steps",
    "train_batch_size": "train.batch_size",
    "gradient_accumulation_steps": "train.accumulation",
    "max_grad_norm": "train.clip_norm",
    "mixed_precision": "train.precision",
    "optimizer_type": "train.optimizer",
    "network_dim": "adapter.rank",
    "dim": "adapter.rank",
    "network_alpha": "adapter.alpha",
    "lora_alpha": "adapter.alpha",
    "target_modules": "adapter.targets",
    "min_snr_gamma": "loss.snr_gamma",
    "gradient_checkpointing": "memory.checkpointing",
    "pretrained_model_name_or_path": "base.model",
    "train_data_dir": "dataset.sources[0].path",
    "num_repeats": "dataset.sources[0].repeats",
    "enable_bucket": "dataset.buckets",
    "save_every_n_steps": "save.every",
    "sample_every_n_steps": "sample.every",
}
"""What other trainers call things."""

_SIMILAR = 0.6


def is_newer(data: Mapping[str, Any]) -> bool:
    """Whether a file is of a format that this lorakit does not know yet."""
    return type(data.get("schema")) is int and data["schema"] > SCHEMA


def check_schema(data: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the version of a file's format, if anything is."""
    if "schema" not in data:
        what, fix = "The file does not say its schema.", f"Put schema = {SCHEMA} in its first line."
    elif type(data["schema"]) is not int:
        what = f"schema is {shown(data['schema'])}; it takes a whole number."
        fix = f"Write schema = {SCHEMA}."
    elif is_newer(data):
        what = f"Made by a newer lorakit: schema {data['schema']}, this one knows {SCHEMA}."
        fix = "Update lorakit."
    elif data["schema"] < SCHEMA:
        what = f"schema is {data['schema']}, and the first one is 1."
        fix = f"Write schema = {SCHEMA}."
    else:
        return []
    return [Problem(where="schema", what=what, fix=fix)]


def explain(
    error: ValidationError,
    model: type[BaseModel] = Bundle,
    typed: Mapping[keys.Path, str] = {},
) -> list[Problem]:
    """One problem for each thing refused, in the order of the model's fields.

    `typed` holds values as given to `--set`.
    """
    found = _once(error.errors(include_url=False), model)
    problems: list[Problem] = []
    meant: set[str] = set()
    if "lock" in model.model_fields:
        damaged = [e for e in found if e["loc"][0] == "lock"]
        problems += [_damaged_lock(keys.join(e["loc"]), e["type"]) for e in damaged[:1]]
        found = [e for e in found if e not in damaged]
    for e in (e for e in found if e["type"] == "extra_forbidden"):
        problem, other = _unknown(model, e["loc"], e["input"])
        problems.append(problem)
        meant.add(other)
    for e in (e for e in found if e["type"] != "extra_forbidden"):
        key = keys.join(e["loc"])
        if e["type"] == "missing" and key in meant:
            continue  # it is there under a wrong name, which is reported already
        if e["type"] == "too_short" and e["input"]:
            continue  # pydantic counts the entries that are left
        problems.append(_refused(model, e["type"], key, e["input"], typed.get(tuple(e["loc"]), "")))
    return problems


def _once(found: list[ErrorDetails], model: type[BaseModel]) -> list[ErrorDetails]:
    """One error for each value: where one of two types would do, pydantic has one for each type."""
    by_place: dict[keys.Path, ErrorDetails] = {}
    for e in found:
        doc = schema.find(keys.join(e["loc"][:-1]), model)
        place = e["loc"][:-1] if doc and doc.kind == "text or whole number" else e["loc"]
        by_place.setdefault(place, {**e, "loc": place})
    return list(by_place.values())


def _damaged_lock(key: str, kind: str) -> Problem:
    how = {"missing": "is missing", "extra_forbidden": "is no key of a lock"}
    return Problem(
        where=key,
        what=f"{key} {how.get(kind, 'is not what lorakit wrote there')}: the lock is damaged.",
        fix="Take the [lock] tables out of the file; they only say what a past run used.",
    )


def _refused(model: type[BaseModel], kind: str, key: str, given: Any, typed: str) -> Problem:
    doc = schema.find(key, model)
    name = key.rpartition(".")[2]
    if doc is None:  # an entry of a list of texts
        listed = schema.find(key.rpartition("[")[0], model)
        choices = listed.choices if listed else ()
        doc = FieldDoc(key=key, kind="text", required=True, choices=choices, doc="")
        name = key
    if kind == "missing":
        written = f"The table [{key}]" if doc.kind == "table" else key
        return Problem(where=key, what=f"{written} is missing.", fix=_example(doc, key))
    if kind == "control_character":
        what = f"{key} holds the character {shown(control_character(given))}: {shown(given)}."
        return Problem(where=key, what=what, fix=BACKSLASH)
    if kind == "string_unicode":
        what = f"{key} is not UTF-8: {shown(given)}."
        return Problem(where=key, what=what, fix="Rename what it names.")
    if not _fits(doc, given):
        what = f"{key} is {_described(given)}; it takes {_wanted(doc)}."
        return Problem(where=key, what=what, fix=_convert(doc, key, given, typed))
    return _out_of_range(doc, key, name, given)


def _out_of_range(doc: FieldDoc, key: str, name: str, given: Any) -> Problem:
    what, fix = f"{key} is {shown(given)}; allowed: {doc.allowed}.", ""
    if doc.choices and isinstance(given, str):
        near = difflib.get_close_matches(given.lower(), doc.choices, n=1, cutoff=_SIMILAR)
        start = "" if name.endswith("]") else f"{name} = "
        fix = f"Did you mean {start}{shown(near[0])}?" if near else "Write one of these."
    elif doc.kind == "text" and not given:
        what, fix = f"{key} is empty.", _example(doc, key)
    elif doc.key == "name":
        what = f"name is {shown(given)}, and a run and a file are named after it."
        fix = "Use up to 80 letters, digits, spaces, dots, - and _, with a letter or digit first."
    elif doc.kind == "tables":
        what, fix = f"{key} is empty.", _example(doc, key)
    elif doc.step and (doc.minimum or 0) < given < (doc.maximum or given + 1):
        low = given // doc.step * doc.step
        fix = f"Write {low} or {low + doc.step}."
    elif doc.default is not None:
        fix = f"The default is {shown(doc.default)}."
    return Problem(where=key, what=what, fix=fix)


def _fits(doc: FieldDoc, given: Any) -> bool:
    """The value is of the right type, so that it is its size that was refused."""
    match doc.kind:
        case "whole number":
            return type(given) is int
        case "number":
            return type(given) in (int, float)
        case "text":
            return isinstance(given, str)
        case "text or whole number":
            return type(given) is int or (isinstance(given, str) and not _unquoted(doc, given))
        case "tables":
            return isinstance(given, list | tuple)
    return False


def _wanted(doc: FieldDoc) -> str:
    match doc.kind:
        case "table":
            return "a table"
        case "tables":
            return "tables, each with its own [[header]]"
        case "true or false":
            return "true or false"
        case "text or whole number":
            return doc.allowed
    if doc.choices:
        return f"{'some' if doc.kind == 'list of texts' else 'one'} of {doc.allowed}"
    return f"a {doc.kind}{', ' if doc.allowed else ''}{doc.allowed}"


def _described(given: Any) -> str:
    if isinstance(given, dict):
        return "a table"
    if isinstance(given, str):
        return f"{shown(given)}, a text"
    return shown(given)


def _convert(doc: FieldDoc, key: str, given: Any, typed: str) -> str:
    """How to write a value of the wrong type, where that can be guessed."""
    name = key.rpartition(".")[2]
    if isinstance(given, str) and (hint := _unquoted(doc, given.strip())):
        # A bare word behind --set has no quotes to remove.
        return hint if typed == given else f"Remove the quotes: {hint[0].lower()}{hint[1:]}"
    if "whole number" in doc.kind and isinstance(given, float) and abs(given) < 2**53:
        whole = math.floor(given)
        return f"Write {whole}." if whole == given else f"Write {whole} or {whole + 1}."
    if doc.kind == "true or false" and given in (0, 1):
        return f"Write {shown(bool(given))}."
    if doc.key == "memory.checkpointing" and isinstance(given, bool):
        return f'Write {name} = "{"full" if given else "none"}".'
    if doc.kind == "list of texts" and isinstance(given, str):
        return f"Put it in brackets: {name} = [{shown(given)}]."
    if doc.kind == "text" and not doc.choices and type(given) in (int, float):
        return f'Put it in quotes: {name} = "{shown(given)}".'
    return _example(doc, key)


def _unquoted(doc: FieldDoc, word: str) -> str:
    """How to write a text as the number, or true or false, that the key takes; or nothing."""
    if doc.kind == "true or false":
        return literal_hint(word) if word.lower() in SWITCHES else ""
    if "whole number" in doc.kind:
        return literal_hint(word) if re.fullmatch(r"[+-]?\d+", word) else ""
    return literal_hint(word) if doc.kind == "number" and word.lower() not in SWITCHES else ""


def _example(doc: FieldDoc, key: str) -> str:
    if doc.key in ("dataset", "dataset.sources", "dataset.sources[]", "dataset.sources[].path"):
        return 'Write [[dataset.sources]] and below it path = "photos".'
    if key == "name":
        return 'Write name = "my-dog" above the first table.'
    if doc.kind == "table":
        return f"Write [{key}] and its values below it."
    return f"Write {doc.name} = {shown(doc.default)}." if doc.default is not None else ""


def _unknown(model: type[BaseModel], path: Iterable[str | int], given: Any) -> tuple[Problem, str]:
    """The problem of a key that no such file has, and the key that was probably meant."""
    *above, last = path
    key, table = keys.join([*above, last]), keys.join(above)
    parent = schema.find(table, model)
    noun = getattr(model, "noun", "file")
    known = parent.keys if parent else ()
    word = str(last).lower().replace("-", "_").replace(" ", "_")
    what = f"{_header(model, key) if isinstance(given, dict) else key} is no key of a {noun}."

    def here(name: str) -> str:
        return f"{table}.{name}" if table else name

    if word in known:
        return _meant(model, what, key, here(word))
    if elsewhere := _with_name(model, word):
        homes = [k.rpartition(".")[0] for k in elsewhere]
        places = " or ".join(_header(model, k) if k else "the top of the file" for k in homes)
        what = f"{key} is in the wrong table: it belongs in {places}."
        fix = f"Write it as {' or '.join(elsewhere)}."
        return Problem(where=key, what=what, fix=fix), elsewhere[0]
    if near := difflib.get_close_matches(word, known, n=1, cutoff=_SIMILAR):
        return _meant(model, what, key, here(near[0]))
    if schema.find(ELSEWHERE.get(word, "-"), model):
        return _meant(model, what, key, ELSEWHERE[word])
    names = {doc.name: doc.key for doc in schema.documents(model).values() if doc.key}
    if near := difflib.get_close_matches(word, names, n=1, cutoff=_SIMILAR):
        return _meant(model, what, key, names[near[0]])
    of = _header(model, table) if table else f"A {noun}"
    return Problem(where=key, what=what, fix=f"{of} takes {', '.join(known)}."), ""


def _meant(model: type[BaseModel], what: str, key: str, other: str) -> tuple[Problem, str]:
    doc = schema.find(other, model)
    other = other.replace("[]", "[0]")
    written = _header(model, other) if doc and doc.kind in ("table", "tables") else other
    return Problem(where=key, what=what, fix=f"Did you mean {written}?"), other


def _header(model: type[BaseModel], key: str) -> str:
    """A table as its header in the file: `[train]`, or `[[dataset.sources]]` for one of several."""
    table = re.sub(r"\[\d*\]", "", key)
    doc = schema.find(table, model)
    return f"[[{table}]]" if doc and doc.kind == "tables" else f"[{table}]"


def _with_name(model: type[BaseModel], name: str) -> list[str]:
    """Every place of the file where a key that holds a value has this name."""
    return [
        doc.key.replace("[]", "[0]")
        for doc in schema.documents(model).values()
        if doc.name == name and doc.kind not in ("table", "tables")
    ]
