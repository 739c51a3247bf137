"""Dotted keys such as `dataset.sources[0].path`: how people write the place of a value."""

from __future__ import annotations

import re
from collections.abc import Iterable

Path = tuple[str | int, ...]
"""A place in a document: names of tables and keys, and indexes of lists."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PART = re.compile(r"([A-Za-z0-9_-]+)((?:\[\d{1,6}\])*)")


def name(key: str) -> str:
    """A key as TOML takes it: bare where it can be, else in quotes."""
    from lorakit.bundle.values import text

    return key if _BARE.fullmatch(key) else text(key)


def join(path: Iterable[str | int]) -> str:
    """The dotted key of a place: `("dataset", "sources", 0)` is `dataset.sources[0]`."""
    key = ""
    for part in path:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            key += f".{name(part)}" if key else name(part)
    return key


def split(key: str) -> Path:
    """The place that a dotted key names. Raises ValueError where it names none."""
    path: list[str | int] = []
    for part in key.split("."):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise ValueError(key)
        path.append(found[1])
        path += [int(index) for index in re.findall(r"\d+", found[2])]
    return tuple(path)
