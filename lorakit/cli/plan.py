"""`lorakit plan`: what a bundle takes, and what else would fit, before anything is loaded."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from lorakit.bundle import read, syntax
from lorakit.bundle.models import Bundle
from lorakit.bundle.problems import BundleError
from lorakit.cli import streams
from lorakit.cli.examined import placed
from lorakit.cli.machine import believed
from lorakit.errors import ExitCode
from lorakit.live.bars import bar, can_draw
from lorakit.planner.budget import Budget, budget
from lorakit.planner.check import check
from lorakit.planner.estimate import Estimate, Phase, Span, estimate
from lorakit.planner.facts import Facts
from lorakit.planner.grid import Cell, grid
from lorakit.planner.time import unknown
from lorakit.runs.words import UNKNOWN, clean, duration, number, size
from lorakit.survey import survey

WIDTH = 80
"""Of the screen, in characters."""


def plan(path: Path, settings: Sequence[str], machine: Path | None, as_json: bool) -> int:
    """Print the plan. The exit code is that of out of memory where it does not fit."""
    text = syntax.read_text(path)
    bundle, problems = read.check(syntax.load(text, str(path)), settings, text)
    if bundle is None:
        raise BundleError(problems, str(path))
    facts = survey(
        bundle,
        path.resolve().parent,
        hardware=believed(machine),
        dry_run=lambda words: streams.err(clean(words)),
    )
    if machine:  # whose disk nobody knows
        facts = dataclasses.replace(facts, disk_free_bytes=None)
    found = facts.estimate or estimate(bundle, facts.base, facts.report, facts.hardware)
    room, cells = budget(facts.hardware), grid(bundle, facts.base, facts.hardware)
    if as_json:
        streams.out_json(_plain(bundle, facts, found, room, cells))
    else:
        streams.out(*(clean(line) for line in _draw(bundle, facts, found, room, cells)))
    streams.problems([*problems, *placed(check(bundle, facts), path, settings)], str(path))
    return ExitCode.OUT_OF_MEMORY if room.verdict(found.peak_gib) == "no" else ExitCode.OK


def _plain(
    bundle: Bundle, facts: Facts, found: Estimate, room: Budget, cells: Sequence[Cell]
) -> dict[str, Any]:
    return {
        "bundle": bundle.name,
        "device": facts.hardware.device,
        "verdict": room.verdict(found.peak_gib),
        "peak_gib": found.peak_gib,
        "budget_gib": room.gib,
        "free_gib": room.free_gib,
        "reserve": [dataclasses.asdict(part) for part in room.reserve],
        "phases": [{**dataclasses.asdict(phase), "gib": phase.gib} for phase in found.phases],
        "source": found.source,
        "step_seconds": found.step_seconds and dataclasses.asdict(found.step_seconds),
        "total_seconds": found.total_seconds and dataclasses.asdict(found.total_seconds),
        "disk_bytes": found.disk_bytes,
        "disk_free_bytes": facts.disk_free_bytes,
        "grid": [dataclasses.asdict(cell) for cell in cells],
    }


def _draw(
    bundle: Bundle, facts: Facts, found: Estimate, room: Budget, cells: Sequence[Cell]
) -> Iterator[str]:
    ascii_only = not can_draw(sys.stdout.encoding or "ascii")
    yield f"{bundle.name} on {facts.hardware.device}"
    yield from textwrap.wrap(room.words, WIDTH)
    yield ""
    yield from _parts(found, room, ascii_only)
    yield ""
    for label, words in _lines(bundle, facts, found, room):
        yield f"{label:<8}{words}"
    yield ""
    yield from _what_if(cells)


def _parts(found: Estimate, room: Budget, ascii_only: bool) -> Iterator[str]:
    """Each phase with its parts, and a bar that is full where the budget is. What is next to
    nothing is left out."""
    if not found.phases:
        return
    share_of = f", and its share of the {room.gib:.1f} that may be used" if room.gib else ""
    yield f"Most memory at once in each phase{share_of}:"
    whole = max(room.gib or found.peak_gib or 0.0, 0.01)
    rows = [
        (name, gib)
        for phase in found.phases
        for name, gib in [(phase.name, phase.gib), *_named(phase)]
    ]
    width = max((len(name) for name, _ in rows), default=0)
    for name, gib in rows:
        share = 100 * gib / whole
        drawn = bar(share, WIDTH - width - 21, ascii_only)
        yield f"{name:<{width}}  {gib:6.2f} GiB {share:4.0f} %  {drawn}".rstrip()


def _named(phase: Phase) -> Iterator[tuple[str, float]]:
    return ((f"  {part.name}", part.gib) for part in phase.parts if part.gib >= 0.005)


def _lines(
    bundle: Bundle, facts: Facts, found: Estimate, room: Budget
) -> Iterator[tuple[str, str]]:
    yield "memory", _verdict(found.peak, room)
    yield "time", _time(bundle, facts, found)
    free = "" if facts.disk_free_bytes is None else f", {size(facts.disk_free_bytes)} free"
    yield "disk", f"up to {size(found.disk_bytes)}{free}"


def _time(bundle: Bundle, facts: Facts, found: Estimate) -> str:
    """From start to end, and of a step; why it is not known, where it is not."""
    why = unknown(bundle, facts.base, facts.report, facts.hardware)
    if found.step_seconds is None:
        return f"not known: {why}"
    step = f"{_span(found.step_seconds)} a step"
    if why:
        return f"{step}; in all not known: {why}"
    return f"{_span(found.total_seconds)} in all, {step}"


def _verdict(peak: Phase | None, room: Budget) -> str:
    if peak is None:
        return "not known: nobody has counted a base of this shape at this size"
    if room.gib is None:
        return f"{peak.gib:.1f} GiB at its peak ({peak.name}); how much is free is not known"
    share = number(100 * peak.gib / room.gib if room.gib else None, ".0f", "%")
    words = {"fits": "fits", "tight": "tight", "no": "does not fit"}
    verdict = words[room.verdict(peak.gib) or "fits"]
    return f"{verdict}: {peak.gib:.1f} of {room.gib:.1f} GiB at its peak ({peak.name}), {share}"


def _span(span: Span | None) -> str:
    if span is None:
        return UNKNOWN
    if span.high < 10:
        return f"{span.low:.2g} to {span.high:.2g} s"
    return f"{duration(span.low)} to {duration(span.high)}"


def _what_if(cells: Sequence[Cell]) -> Iterator[str]:
    """Ranks downwards; across, batches below each kind of checkpointing. Nothing where no cell is
    known."""
    if all(cell.verdict is None for cell in cells):
        return
    rows = [list(row) for _, row in groupby(cells, key=lambda cell: cell.rank)]
    yield "What another rank (down), checkpointing or batch (across) would do; * is yours"
    kinds = [(kind, len(list(same))) for kind, same in groupby(rows[0], lambda c: c.checkpointing)]
    yield _row("", [f"{_kind(kind)}, batch of".ljust(6 * count - 1) for kind, count in kinds])
    yield _row("rank", [str(cell.batch).ljust(5) for cell in rows[0]])
    for row in rows:
        yield _row(str(row[0].rank), [_word(cell).ljust(5) for cell in row])


def _row(head: str, cells: list[str]) -> str:
    return " ".join([head.rjust(5), *cells]).rstrip()


def _kind(checkpointing: str | int) -> str:
    return f"{checkpointing} blocks" if isinstance(checkpointing, int) else f"{checkpointing}"


def _word(cell: Cell) -> str:
    return f"{cell.verdict or UNKNOWN}{'*' if cell.own else ''}"
