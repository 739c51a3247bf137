"""Text for widgets: whatever it holds, it is never markup and never steers the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from lorakit.bundle.problems import Problem
from lorakit.runs.words import clean

LABEL = 11
"""Width of the column of labels, in cells."""


def plain(text: str) -> Text:
    """A text as it is; only line ends keep their meaning."""
    return Text("\n".join(clean(line) for line in text.split("\n")), overflow="fold")


def lines(found: Iterable[tuple[str, str]]) -> Table:
    """Labels, and texts that wrap beside them."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=LABEL, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for label, text in found:
        table.add_row(plain(label), plain(text))
    return table


def problems(found: Iterable[Problem]) -> Iterable[tuple[str, str]]:
    """Problems as lines: errors first, each with its way out below it."""
    for problem in sorted(found, key=lambda p: p.severity != "error"):
        yield problem.severity, problem.what
        if problem.fix:
            yield "", problem.fix


def cells(text: str, width: int) -> str:
    """A text cut or filled to a width on screen; two dots stand for what is cut off."""
    text = clean(text)
    if cell_len(text) > width:
        return f"{set_cell_size(text, max(width - 2, 0))}.."[:width]
    return set_cell_size(text, width)


class Throttle:
    """Lets the first through, and then one in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = 0.0

    def lets_through(self) -> bool:
        """Whether it is time again."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True
