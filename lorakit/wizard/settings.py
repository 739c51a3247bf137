"""The settings as rows: what a value is, why, what else it may be, and how one is changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lorakit.bundle import read, schema
from lorakit.bundle.schema import FieldDoc
from lorakit.bundle.values import number
from lorakit.errors import LorakitError
from lorakit.wizard.answers import OF_BASE, SECTIONS, Answers
from lorakit.wizard.proposal import Proposal, suitable
from lorakit.wizard.state import State

NAME, PRESET, PROMPTS = "name", "preset", "sample.prompts"

FIRST = (
    "dataset.resolution",
    "adapter.rank",
    "adapter.targets",
    "train.steps",
    "train.batch_size",
    "train.learning_rate",
    "train.precision",
    "memory.checkpointing",
    "sample.every",
    PROMPTS,
    "save.every",
)
"""Settings that most people look at; the others are one key away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting."""

    key: str
    """Dotted; one prompt is `sample.prompts[0]`."""
    section: str
    """Title of its table."""
    label: str
    value: str
    """As it is typed."""
    why: str
    """Reason for a recommended value, or what a changed one was recommended to be."""
    changed: bool
    doc: str
    allowed: str
    """In words; empty: anything."""
    recommended: str
    choices: tuple[str, ...] = ()
    """Where only some values are allowed: all of them."""


def rows(state: State, *, every: bool = False) -> list[Row]:
    """Name and preset, then the settings by section: those most people look at, or every one."""
    shown = [
        row
        for doc in schema.fields()
        if _is_setting(doc) and (every or doc.key in FIRST)
        for row in _of(doc, state.proposal)
    ]
    return [_name(state), _preset(state), *shown]


def count() -> int:
    """How many settings there are in all."""
    return sum(map(_is_setting, schema.fields()))


def _is_setting(doc: FieldDoc) -> bool:
    table = doc.key.partition(".")[0]
    return doc.key in OF_BASE or (table in SECTIONS and "[]" not in doc.key)


def enter(state: State, key: str, text: str) -> State:
    """The state with a value that was typed. Raises LorakitError that says what is allowed."""
    answers, text = state.answers, text.strip()
    if key == NAME:
        if text:  # else the run is named after its folder again
            _validate(state, NAME, text)
        return state.answering(dataclasses.replace(answers, name=text))
    if key == PRESET:
        if text not in _preset(state).choices:
            raise LorakitError(f"There is no preset {text}.", _preset(state).allowed)
        return state.answering(dataclasses.replace(answers, preset=text))
    if key.startswith(PROMPTS):
        return state.answering(_with_prompt(answers, state.proposal, key, text))
    doc = schema.find(key)
    if doc is None:
        raise LorakitError(f"There is no setting {key}.")
    value = parse(doc, text)
    _validate(state, key, value)
    if value == state.proposal.recommends(key):
        return state.answering(answers.without_change(key))
    return state.answering(answers.with_change(key, value))


def reset(state: State, key: str) -> State:
    """The state with the recommended value of one setting."""
    answers = state.answers
    if key == NAME:
        return state.answering(dataclasses.replace(answers, name=""))
    if key == PRESET:
        return state.answering(dataclasses.replace(answers, preset=""))
    return state.answering(answers.without_change(key.partition("[")[0]))


def parse(doc: FieldDoc, text: str) -> Any:
    """A typed text as a value of that kind; what is none stays a text, which is then refused."""
    if doc.kind == "true or false":
        words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
        return words.get(text.lower(), text)
    plain = text.replace(",", "").replace("_", "")
    try:
        if "whole number" in doc.kind:
            return int(plain)
        if doc.kind == "number":
            return float(plain)
    except ValueError:
        pass
    return text


def shown(value: Any) -> str:
    """A value as it is typed: without quotes, `1e-4` rather than `0.0001`."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return number(value)
        case list() | tuple():
            return f"{len(value)} texts" if len(value) != 1 else "1 text"
    return "" if value is None else str(value)


def _validate(state: State, key: str, value: Any) -> None:
    """Ask the bundle's own models."""
    tables = {**state.proposal.values, "dataset": dict(state.proposal.values["dataset"])}
    tables["dataset"]["sources"] = [{"path": "."}]
    *above, last = key.split(".")
    inner = tables
    for part in above:
        inner[part] = dict(inner[part])
        inner = inner[part]
    inner[last] = value
    _, problems = read.check(tables)
    for problem in problems:
        if problem.where == key or problem.where.startswith(f"{key}["):
            allowed = _allowed(state, key)
            known = not allowed or allowed in problem.what
            raise LorakitError(problem.what, "" if known else f"You can choose: {allowed}.")


def _allowed(state: State, key: str) -> str:
    doc = schema.find(key)
    return _name(state).allowed if key == NAME else doc.allowed if doc else ""


def _with_prompt(answers: Answers, proposal: Proposal, key: str, text: str) -> Answers:
    """One prompt changed; an empty one is taken out, one behind the last is added."""
    prompts = list(proposal.value(PROMPTS) or ())
    index = int(key.removeprefix(PROMPTS)[1:-1])
    prompts[index : index + 1] = [text] if text else []
    if prompts == list(proposal.recommends(PROMPTS) or ()):
        return answers.without_change(PROMPTS)
    return answers.with_change(PROMPTS, prompts)


def _of(doc: FieldDoc, proposal: Proposal) -> Iterator[Row]:
    if doc.key == PROMPTS:
        yield from _prompts(doc, proposal)
        return
    table, *_, name = ("", *doc.key.split("."))[1:]
    changed, recommended = proposal.is_changed(doc.key), shown(proposal.recommends(doc.key))
    choices = ("true", "false") if doc.kind == "true or false" else doc.choices
    yield Row(
        key=doc.key,
        section="Optimizer" if ".optimizer_options." in doc.key else table.capitalize(),
        label=name.replace("_", " "),
        value=shown(proposal.value(doc.key)),
        why=_why(doc.key, proposal, recommended),
        changed=changed,
        doc=" ".join([*_rejected(doc.key, proposal), doc.doc]),
        allowed=doc.allowed or ", ".join(choices),
        recommended=recommended,
        choices=choices,
    )


def _why(key: str, proposal: Proposal, recommended: str) -> str:
    words = proposal.reasons.get(key, "")
    if proposal.is_changed(key):
        words = f"yours; recommended: {recommended or 'none'}"
    if key == "adapter.alpha":
        scale = proposal.value(key) / proposal.value("adapter.rank")
        words = f"scale {scale:.2f}{'; ' if words else ''}{words}"
    return words


def _rejected(key: str, proposal: Proposal) -> Iterator[str]:
    """Why a faster value is not the recommended one."""
    for other, value, why in proposal.rejected:
        if other == key:
            yield f"Why not {shown(value)}: {why}"


def _prompts(doc: FieldDoc, proposal: Proposal) -> Iterator[Row]:
    prompts: Sequence[str] = proposal.value(PROMPTS) or ()
    recommended: Sequence[str] = proposal.recommends(PROMPTS) or ()
    for index in range(len(prompts) + 1):
        added = index == len(prompts)
        yield Row(
            key=f"{PROMPTS}[{index}]",
            section="Sample",
            label="add a prompt" if added else f"prompt {index + 1}",
            value="" if added else prompts[index],
            why="" if prompts else proposal.reasons.get(PROMPTS, ""),
            changed=not added and proposal.is_changed(PROMPTS),
            doc=doc.doc,
            allowed="any text; an empty one takes the prompt out",
            recommended=recommended[index] if index < len(recommended) else "",
        )


def _name(state: State) -> Row:
    doc = schema.find(NAME)
    default = dataclasses.replace(state.answers, name="").run_name
    changed = state.answers.run_name != default
    return Row(
        key=NAME,
        section="Run",
        label="name",
        value=state.answers.run_name,
        why=f"yours; recommended: {default}" if changed else "that of the first folder",
        changed=changed,
        doc=doc.doc if doc else "",
        allowed="letters, digits, spaces and . - _, the first a letter or digit",
        recommended=default,
    )


def _preset(state: State) -> Row:
    chosen = state.proposal.preset
    best = state.answering(dataclasses.replace(state.answers, preset="")).proposal.preset.name
    changed = chosen.name != best
    names = tuple(preset.name for preset in suitable(state.answers, state.known, state.presets))
    return Row(
        key=PRESET,
        section="Run",
        label="preset",
        value=chosen.name,
        why=f"yours; recommended: {best}" if changed else chosen.title,
        changed=changed,
        doc=chosen.description or chosen.title,
        allowed=", ".join(names),
        recommended=best,
        choices=names,
    )
