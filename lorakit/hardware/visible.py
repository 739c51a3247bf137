"""Which cards a process may use, by CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES."""

from __future__ import annotations

import re
from collections.abc import Sequence

_INDEX = re.compile(r"[+-]?\d+")


def visible(uuids: Sequence[str], setting: str | None) -> list[int]:
    """Positions of the visible cards, in the order they are given; all where nothing is set.

    An entry is a position or the unambiguous start of a UUID. The first entry that names no card
    hides itself and all behind it, and a card named twice hides every one, as in CUDA.
    """
    if setting is None:
        return list(range(len(uuids)))
    found: list[int] = []
    for entry in setting.split(","):
        position = _position(uuids, entry.strip())
        if position is None:
            break
        found.append(position)
    return found if len(set(found)) == len(found) else []


def _position(uuids: Sequence[str], entry: str) -> int | None:
    if _INDEX.fullmatch(entry):
        return int(entry) if 0 <= int(entry) < len(uuids) else None
    if not entry:
        return None
    fitting = [n for n, uuid in enumerate(uuids) if uuid.lower().startswith(entry.lower())]
    return fitting[0] if len(fitting) == 1 else None
