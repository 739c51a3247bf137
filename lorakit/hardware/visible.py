"""Which cards a process may use, by CUDA_VISIBLE_DEVICES and its likes for AMD."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

CPU = "LORAKIT_CPU"
"""Set to anything but 0, this variable hides every card: the CPU trains, on purpose."""

_INDEX = re.compile(r"[+-]?\d+")


def cpu_wanted(environ: Mapping[str, str]) -> bool:
    """Whether a person said to train on the CPU."""
    return environ.get(CPU, "").strip() not in ("", "0")


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


def hip_visible(uuids: Sequence[str], environ: Mapping[str, str]) -> list[int]:
    """Positions of the AMD cards that HIP shows.

    ROCR_VISIBLE_DEVICES comes first, and HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES where that
    is not set, counts what it has left.
    """
    left = visible(uuids, environ.get("ROCR_VISIBLE_DEVICES"))
    hip = environ.get("HIP_VISIBLE_DEVICES", environ.get("CUDA_VISIBLE_DEVICES"))
    return [left[n] for n in visible([uuids[m] for m in left], hip)]


def _position(uuids: Sequence[str], entry: str) -> int | None:
    if _INDEX.fullmatch(entry):
        return int(entry) if 0 <= int(entry) < len(uuids) else None
    if not entry:
        return None
    fitting = [n for n, uuid in enumerate(uuids) if uuid.lower().startswith(entry.lower())]
    return fitting[0] if len(fitting) == 1 else None
