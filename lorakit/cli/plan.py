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
from lorakit.cli.machine import believed
from lorakit.errors import ExitCode
from lorakit.live.bars import bar, can_draw
from lorakit.planner.budget import Budget, budget
from lorakit.planner.estimate import Estimate, Phase, Span, estimate
from lorakit.planner.facts import Facts
from lorakit.planner.grid import Cell, grid
from lorakit.planner.room import problem
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
    wrong = problem(bundle, facts.base, facts.report, facts.hardware, found)
    streams.problems([*problems, *facts.problems, *([wrong] if wrong else [])], str(path))
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
    for label, words in _lines(facts, found, room):
        yield f"{label:<8}{words}"
    yield ""
    yield from _what_if(cells)


def _parts(found: Estimate, room: Budget, ascii_only: bool) -> Iterator[str]:
    """Each phase with its parts, and a bar that is full where the budget is."""
    if not found.phases:
        yield f"memory  {UNKNOWN}: the table does not hold this base"
    whole = max(room.gib or found.peak_gib or 0.0, 0.01)
    rows = [
        (name, gib)
        for phase in found.phases
        for name, gib in [(phase.name, phase.gib), *((f"  {p.name}", p.gib) for p in phase.parts)]
    ]
    width = max((len(name) for name, _ in rows), default=0)
    for name, gib in rows:
        share = 100 * gib / whole
        drawn = bar(share, WIDTH - width - 21, ascii_only)
        yield f"{name:<{width}}  {gib:6.2f} GiB {share:4.0f} %  {drawn}".rstrip()


def _lines(facts: Facts, found: Estimate, room: Budget) -> Iterator[tuple[str, str]]:
    yield "memory", _verdict(found.peak, room)
    step, total = _span(found.step_seconds), _span(found.total_seconds)
    yield "time", f"{total} in all, {step} a step"
    yield "disk", f"up to {size(found.disk_bytes)}, {size(facts.disk_free_bytes)} free"


def _verdict(peak: Phase | None, room: Budget) -> str:
    if peak is None or room.gib is None:
        return UNKNOWN
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
    """Ranks downwards; across, batches below each kind of checkpointing."""
    rows = [list(row) for _, row in groupby(cells, key=lambda cell: cell.rank)]
    yield "What if: checkpointing and batch across, rank down; * is this bundle"
    kinds = [(kind, len(list(same))) for kind, same in groupby(rows[0], lambda c: c.checkpointing)]
    yield _row("", [_kind(kind).ljust(6 * count - 1) for kind, count in kinds])
    yield _row("rank", [f"b {cell.batch}".ljust(5) for cell in rows[0]])
    for row in rows:
        yield _row(str(row[0].rank), [_word(cell).ljust(5) for cell in row])


def _row(head: str, cells: list[str]) -> str:
    return " ".join([head.rjust(5), *cells]).rstrip()


def _kind(checkpointing: str | int) -> str:
    return f"{checkpointing} blocks" if isinstance(checkpointing, int) else f"{checkpointing}"


def _word(cell: Cell) -> str:
    return f"{cell.verdict or UNKNOWN}{'*' if cell.own else ''}"
