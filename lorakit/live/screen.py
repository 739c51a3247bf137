"""Draws a renderable on the whole terminal and sends only the cells that have changed.

Over a slow line what counts is bytes: a panel whose clock moved costs a dozen of them and not two
thousand. The second screen of the terminal is used, so that what was there before comes back.
"""

from __future__ import annotations

import os
from typing import NamedTuple, TextIO

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""Second screen, cursor and wrapping: as they were."""

MIN_GAP = 8
"""Cells that did not change are sent again where jumping over them would cost more."""


class Cell(NamedTuple):
    """A character and how it looks. The second cell of a wide character holds an empty text."""

    text: str
    style: Style


BLANK = Cell(" ", Style.null())


class Screen:
    """The terminal behind a stream, from `enter` to `leave`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(file=stream, markup=False, emoji=False, highlight=False)
        self._rows: list[list[Cell]] = []
        self._inside = False
        coloured = self._console.color_system is not None and not self._console.no_color
        self._colours = coloured
        self._styles = self._console.color_system is not None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height now, in cells."""
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def enter(self) -> None:
        """Take the terminal over."""
        self._inside = True
        self._rows = []
        self._send(ENTER)

    def leave(self) -> None:
        """Give it back as it was. May be called twice, and with a terminal that is gone."""
        if self._inside:
            self._inside = False
            self._send(LEAVE)

    def redraw(self) -> None:
        """Forget what is on the terminal: it was resized, or something else wrote on it."""
        self._rows = []
        self._send("\x1b[2J")

    def draw(self, renderable: RenderableType) -> None:
        """Bring the terminal to show this. Raises OSError if it is gone."""
        width, height = self.size
        options = self._console.options.update(width=width, height=None, no_wrap=True)
        lines = self._console.render_lines(renderable, options, pad=False)[:height]
        rows = [_cells(line, width) for line in lines]
        rows += [[BLANK] * width] * (height - len(rows))
        old = self._rows
        if len(old) != height or (old and len(old[0]) != width):
            old = [[BLANK] * width] * height
        changes = [self._change(y, a, b) for y, (a, b) in enumerate(zip(old, rows, strict=True))]
        self._rows = rows
        if any(changes):
            self._send("".join(changes))

    def _change(self, y: int, old: list[Cell], new: list[Cell]) -> str:
        """The escape codes and texts that turn one row into another."""
        spans: list[list[int]] = []
        for x, (a, b) in enumerate(zip(old, new, strict=True)):
            if a == b:
                continue
            if spans and x - spans[-1][1] < MIN_GAP:
                spans[-1][1] = x + 1
            else:
                spans.append([x, x + 1])
        return "".join(self._span(y, *_whole(new, old, start, end), new) for start, end in spans)

    def _span(self, y: int, start: int, end: int, row: list[Cell]) -> str:
        parts = [f"\x1b[{y + 1};{start + 1}H"]
        x = start
        while x < end:
            style = row[x].style
            run = x
            while run < end and row[run].style == style:
                run += 1
            parts.append(self._styled("".join(cell.text for cell in row[x:run]), style))
            x = run
        return "".join(parts)

    def _styled(self, text: str, style: Style) -> str:
        if not self._styles or not style:
            return text
        shown = style if self._colours else style.without_color
        return shown.render(text, color_system=ColorSystem.STANDARD)

    def _send(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _cells(line: list[Segment], width: int) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, control in line:
        if control:
            continue
        for character in text:
            takes = cell_len(character)
            if takes == 0:
                if cells:
                    cells[-1] = Cell(cells[-1].text + character, cells[-1].style)
                continue
            cells.append(Cell(character, style or Style.null()))
            cells += [Cell("", style or Style.null())] * (takes - 1)
    if len(cells) > width and cells[width].text == "":
        cells[width - 1] = BLANK  # half of a wide character has no room
    cells = cells[:width]
    return cells + [BLANK] * (width - len(cells))


def _whole(new: list[Cell], old: list[Cell], start: int, end: int) -> tuple[int, int]:
    """A span that begins and ends at whole characters, in the old row and in the new."""
    while start > 0 and (new[start].text == "" or old[start].text == ""):
        start -= 1
    while end < len(new) and (new[end].text == "" or old[end].text == ""):
        end += 1
    return start, end
