"""Choices in a caption: `{a|b|c}` is one of these, nested as deep as one likes.

`\\{`, `\\|` and `\\}` stand for the characters themselves. Braces without a bar between them, and
braces without their other half, are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Choose = Callable[[Sequence[str]], str]

_MARKS = re.compile(r"\\[{|}]|[{|}]|[^\\{|}]+|\\")


def expand(text: str, choose: Choose) -> str:
    """The text with each group replaced by what `choose` takes of its options, inner ones first."""
    return _read(text, choose)[0]


def has_choice(text: str) -> bool:
    """Whether there is a group in the text that has several options."""
    found = False

    def first(options: Sequence[str]) -> str:
        nonlocal found
        found = True
        return options[0]

    expand(text, first)
    return found


def unbalanced(text: str) -> bool:
    """Whether a brace has no other half, so that it is left as it is."""
    return _read(text, lambda options: options[0])[1]


def _read(text: str, choose: Choose) -> tuple[str, bool]:
    """The text, and whether a brace in it has no other half."""
    lone = False
    groups: list[list[list[str]]] = [[[]]]  # open groups, outermost first: options of pieces
    for mark in _MARKS.findall(text):
        if mark == "{":
            groups.append([[]])
        elif mark == "|" and len(groups) > 1:
            groups[-1].append([])
        elif mark == "}" and len(groups) > 1:
            options = ["".join(pieces) for pieces in groups.pop()]
            chosen = choose(options) if len(options) > 1 else "{" + options[0] + "}"
            groups[-1][-1].append(chosen)
        else:
            lone = lone or mark == "}"
            groups[-1][-1].append(mark[1] if len(mark) == 2 and mark[0] == "\\" else mark)
    while len(groups) > 1:
        lone = True
        left = "{" + "|".join("".join(pieces) for pieces in groups.pop())
        groups[-1][-1].append(left)
    return "".join(groups[0][0]), lone
