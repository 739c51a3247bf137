"""A benchmark as tables in the terminal."""

from __future__ import annotations

import io
import statistics
import sys
from collections.abc import Iterator
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lorakit.cli import streams
from lorakit.runs.bench_file import Bench, Case, differences, ratio
from lorakit.runs.words import UNKNOWN, clean, number

WORK = ("family", "resolution", "batch size", "precision", "targets", "optimizer")
"""Settings that decide what a step has to do."""


def show(bench: Bench) -> None:
    """Print a benchmark: what was measured on what, a row a case, and what failed."""
    streams.out(*(clean(line) for line in heading(bench)), "")
    memory = unit(bench)
    reserved = any(case.reserved_gib for case in bench.cases)
    table = _table(
        "rank",
        "attention",
        "it/s",
        "it/s\npredicted",
        "ms a\nstep",
        f"peak\n{memory.name}",
        "peak\npredicted",
        *([f"reserved\n{memory.name}"] if reserved else []),
    )
    for case in bench.cases:
        row = _row(case, memory)
        table.add_row(*map(_cell, row if reserved else row[:-1]))
    _print(table)
    notes = list(_notes(bench))
    if notes:
        streams.out("", *(clean(note) for note in notes))


class Unit(NamedTuple):
    """A unit of memory that suits all numbers of a table or picture."""

    name: str
    in_gib: float
    form: str

    def text(self, gib: float | None) -> str:
        """A number without the unit."""
        return number(None if gib is None else gib / self.in_gib, self.form)


def unit(*benches: Bench) -> Unit:
    """MiB where all of it is small, as it is with pico."""
    most = max((case.peak_gib or 0 for bench in benches for case in bench.cases), default=0)
    return Unit("MiB", 1 / 1024, ".1f") if 0 < most < 0.5 else Unit("GiB", 1.0, ".2f")


def heading(bench: Bench) -> list[str]:
    """What was measured on what, two lines."""
    wanted, machine = bench.settings, bench.machine
    weights = ", random weights" if wanted.weights == "random" else ""
    return [
        f"{wanted.base}{weights}, {wanted.resolution} x {wanted.resolution},"
        f" batch {wanted.batch_size}, {wanted.precision}, {wanted.targets} layers,"
        f" {wanted.optimizer}",
        f"{machine.device}, torch {machine.versions.get('torch', UNKNOWN)}",
    ]


def _row(case: Case, memory: Unit) -> list[str]:
    narrow = "+" if case.checkpointing == "full" and not case.failure else ""
    unsure = "~" if case.level is False else ""
    return [
        str(case.rank),
        case.attention + narrow,
        unsure + _rate(case.rate),
        _rate(case.predicted_rate),
        number(case.step_seconds and 1000 * case.step_seconds),
        memory.text(case.peak_gib),
        memory.text(case.predicted_peak_gib),
        memory.text(case.reserved_gib),
    ]


def _rate(value: float | None) -> str:
    return number(value, ".2f" if (value or 0) < 100 else ".0f")


def _notes(bench: Bench) -> Iterator[str]:
    if any(case.level is False for case in bench.cases):
        yield "~  the speed was not level yet when the time was up"
    if any(case.checkpointing == "full" and not case.failure for case in bench.cases):
        yield "+  with checkpointing, for without it the memory was full"
    for case in bench.cases:
        if case.failure:
            yield f"rank {case.rank}, {case.attention}: {case.failure}"
    if bench.time:
        yield f"time: {bench.time}"
    if bench.memory and any(case.peak_gib for case in bench.cases):
        yield f"peak: {bench.memory}"


def show_both(a: Bench, b: Bench, names: tuple[str, str]) -> None:
    """Print what differs between two benchmarks and each case of either, with ratios."""
    streams.out(*(clean(f"{letter}  {name}") for letter, name in zip("AB", names, strict=True)), "")
    unlike = list(differences(a, b))
    if unlike:
        table = _table()
        for name in ("what differs", "A", "B"):
            table.add_column(name, overflow="fold")
        for line in unlike:
            table.add_row(*(_cell(text or UNKNOWN) for text in line))
        _print(table)
    else:
        streams.out("same machine, versions and settings")
    streams.out("")
    memory = unit(a, b)
    table = _table(
        "rank", "attention", "it/s\nA", "it/s\nB", "it/s\nB / A",
        f"{memory.name}\nA", f"{memory.name}\nB", "peak\nB / A",
    )  # fmt: skip
    keys = sorted({case.key for case in (*a.cases, *b.cases)}, key=lambda k: (k[1], k[0]))
    speeds: list[float] = []
    for key in keys:
        one, other = a.case(key), b.case(key)
        rates = [case.rate if case else None for case in (one, other)]
        peaks = [case.peak_gib if case else None for case in (one, other)]
        faster = ratio(*rates)
        speeds += [faster] if faster else []
        table.add_row(
            str(key[0]),
            _cell(key[1]),
            *map(_rate, rates),
            number(faster, ".2f"),
            *map(memory.text, peaks),
            number(ratio(*peaks), ".2f"),
        )
    _print(table)
    if speeds:
        middle = statistics.median(speeds)
        streams.out("", f"B does {middle:.2f} times the steps of A a second, in the median.")
    if work := [line.name for line in unlike if line.name in WORK]:
        streams.out(f"But a step is not the same work in both: they differ in {', '.join(work)}.")


def _table(*columns: str) -> Table:
    """An empty table with columns of numbers; attention kernels are words."""
    frame = box.ASCII2 if _ascii() else box.SIMPLE_HEAD
    table = Table(box=frame, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name == "attention" else "right")
    return table


def _ascii() -> bool:
    from lorakit.live.bars import can_draw

    return not can_draw(sys.stdout.encoding or "ascii")


def _cell(text: str) -> Text:
    return Text(clean(text))


def _print(table: Table) -> None:
    """As text of at most 80 columns where nobody says how wide the screen is."""
    console = Console(file=io.StringIO(), width=_width(), markup=False, highlight=False)
    with console.capture() as caught:
        console.print(table)
    streams.out(*(line.rstrip() for line in caught.get().rstrip("\n").split("\n")))


def _width() -> int:
    import shutil

    return max(80, min(120, shutil.get_terminal_size((80, 24)).columns))
