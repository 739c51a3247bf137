"""Going on with a run: from which step, and with which of its settings changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lorakit.errors import ExitCode, LorakitError
from lorakit.runs.checkpoints import Found, find
from lorakit.runs.directory import Run
from lorakit.runs.words import clean

if TYPE_CHECKING:
    from lorakit.bundle.models import Bundle

MAY_CHANGE = re.compile(
    r"train\.steps|sample\..*|save\..*|memory\..*|dataset\.sources\[\d+\]\.path|base\.model"
)
"""What a run that goes on may have changed: its length, what is drawn and kept, what is traded for
memory, and where its pictures and its base lie now."""


def start(run: Run) -> Found:
    """What the run would go on from. Raises LorakitError where its checkpoints are all broken."""
    found = find(run.path)
    if found.lost:
        lines = "\n".join(f"  {clean(line)}" for line in found.skipped)
        raise LorakitError(
            f"No checkpoint of {run.name} is complete.",
            f"{lines}\nBegin anew with: lorakit train {run.bundle}",
            ExitCode.DATA,
        )
    return found


def adopt(run: Run, wanted: Bundle) -> list[str]:
    """Put the settings of `wanted` that may change into the run's bundle; returns what changed.

    Raises LorakitError where others differ, and then nothing has been changed.
    """
    from lorakit.bundle import syntax
    from lorakit.bundle.edit import edit
    from lorakit.bundle.read import parse, read
    from lorakit.bundle.values import shown
    from lorakit.bundle.write import replace, tables

    then, now = _flat(tables(read(run.bundle))), _flat(tables(wanted))
    changed = {key: now.get(key) for key in [*then, *now] if then.get(key) != now.get(key)}
    for key in ("name", *(k for k in changed if k.startswith("lock."))):
        changed.pop(key, None)  # neither has a say in what is trained
    fixed = [key for key in changed if not MAY_CHANGE.fullmatch(key) or key not in then]
    if fixed:
        told = [f"{k} was {shown(then.get(k))} and is {shown(now.get(k))}" for k in fixed]
        raise LorakitError(
            f"{run.name} was begun with other settings: {'; '.join(told)}.",
            "A run that goes on keeps them. Put them back, or begin anew without --resume.",
        )
    text = syntax.read_text(run.bundle)
    for key, value in changed.items():
        text = edit(text, key, value)
    if changed:
        replace(run.bundle, text, lambda again: parse(again) is not None)
    return [f"{key}: {shown(then[key])} -> {shown(now[key])}" for key in changed]


def _flat(data: Any, key: str = "") -> dict[str, Any]:
    return dict(_leaves(data, key))


def _leaves(data: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _leaves(value, f"{key}.{name}" if key else name)
    elif isinstance(data, list | tuple) and data and isinstance(data[0], Mapping):
        for number, value in enumerate(data):
            yield from _leaves(value, f"{key}[{number}]")
    else:
        yield key, data
