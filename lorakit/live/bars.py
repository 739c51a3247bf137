"""Bars and sparklines out of characters, blocks where the terminal has them and ASCII where not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
PARTS = " ▏▎▍▌▋▊▉█"
ASCII_LEVELS = ".:-=+*%#"

RULE = "─"


def can_draw(encoding: str) -> bool:
    """Whether an encoding has the block characters."""
    try:
        (BLOCKS + PARTS + RULE).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def bar(percent: float | None, width: int, ascii_only: bool = False) -> str:
    """A bar of exactly `width` cells, empty for an unknown share."""
    share = min(1.0, max(0.0, (percent or 0.0) / 100))
    if ascii_only:
        return ("#" * int(share * width)).ljust(width, ".")
    whole, part = divmod(int(share * width * 8), 8)
    return ("█" * whole + (PARTS[part] if part else "")).ljust(width)[:width]


def sparkline(values: Sequence[float | None], width: int, ascii_only: bool = False) -> str:
    """The course of values in at most `width` cells, from the lowest to the highest of them.

    A space stands for what is not known. Where there are more values than cells, each cell shows
    the mean of its share.
    """
    cells = _squeeze(values, width)
    numbers = [v for v in cells if v is not None]
    if not numbers:
        return ""
    levels = ASCII_LEVELS if ascii_only else BLOCKS
    low, high = min(numbers), max(numbers)
    top = len(levels) - 1
    scale = top / (high - low) if high > low and math.isfinite(high - low) else 0.0
    return "".join(" " if v is None else levels[min(top, int((v - low) * scale))] for v in cells)


def _squeeze(values: Sequence[float | None], width: int) -> list[float | None]:
    finite = [v if v is not None and math.isfinite(v) else None for v in values]
    if len(finite) <= width or width <= 0:
        return finite[: max(0, width)]
    edges = [len(finite) * i // width for i in range(width + 1)]
    return [_mean(finite[a:b]) for a, b in itertools.pairwise(edges)]


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [v for v in values if v is not None]
    return sum(v / len(numbers) for v in numbers) if numbers else None
