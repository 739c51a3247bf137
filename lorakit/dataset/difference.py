"""The difference between two captions in lines that fit a screen."""

from __future__ import annotations

import textwrap
from itertools import zip_longest


def lines(old: str, new: str, width: int) -> list[str]:
    """`- ` and the old text, `+ ` and the new one; each line of a caption file by itself.

    Lines that stay are left out. Nothing is cut: what is longer than `width` characters goes on
    below.
    """
    found: list[str] = []
    for before, after in zip_longest(old.splitlines(), new.splitlines(), fillvalue=""):
        if before != after:
            found += [*_marked("-", before, width), *_marked("+", after, width)]
    if not found and old != new:
        return ["  only line ends differ"]
    return found


def _marked(sign: str, text: str, width: int) -> list[str]:
    shown = "".join(c if c.isprintable() else " " for c in text).rstrip()
    return textwrap.wrap(
        shown,
        max(width, 24),
        initial_indent=f"  {sign} ",
        subsequent_indent="    ",
        drop_whitespace=False,
    )
