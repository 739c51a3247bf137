"""What PyTorch says when a card's memory is not enough, in numbers that tell what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

GIB = 1024**3

_UNITS = {"bytes": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_SIZE = r"(\d+(?:\.\d+)?) (bytes|[KMG]iB)"
_OTHER = re.compile(rf"Process (\d+) has {_SIZE} memory in use")

FRAGMENTED = 0.1
"""Share of the card that, reserved and in no use, speaks for gaps rather than need."""

SMALLER = 'Lower train.batch_size or dataset.resolution, or set memory.checkpointing = "full".'


def is_one(error: BaseException) -> bool:
    """Whether an error says that memory is not enough, on a card or on the machine."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(word in text for word in words)


def explain(text: str, named: Callable[[int], str] | None = None) -> tuple[str, str] | None:
    """(what happened, the way out) from the message of PyTorch's allocator; None for others.

    The sizes are those of the moment it failed. `named` gives the name of a process.
    """
    wanted, total = _size("Tried to allocate", text), _size("total capacity of", text)
    if total is None:
        total = _size("total capacty of", text)  # as PyTorch once wrote it
    if wanted is None or total is None:
        return None
    free = _size("of which", text)
    allocated = _before("is allocated by PyTorch", text)
    gaps = _before("is reserved by PyTorch but unallocated", text)
    others = _others(text, total, (allocated or 0.0) + (gaps or 0.0))
    told = [f"{_gib(allocated)} allocated", f"{_gib(gaps)} reserved and not in use"]
    told += [f"{_gib(free)} free of {_gib(total)}"]
    what = f"{_gib(wanted)} more did not fit on the card: {', '.join(told)}"
    hints = []
    if others:
        who = [_who(pid, held, named or _name) for pid, held in others]
        what += f"; others hold {_gib(sum(held for _, held in others))}: {', '.join(who)}"
        if sum(held for _, held in others) >= wanted:
            hints.append("End the other processes on the card, or wait for them.")
    if gaps is not None and gaps >= max(wanted, FRAGMENTED * total):
        hints.append(
            "Much is reserved and not in use: PYTORCH_ALLOC_CONF=expandable_segments:True, where "
            "it is not set, leaves fewer gaps."
        )
    return f"{what}.", " ".join([*hints, SMALLER])


def _others(text: str, total: float, own: float) -> list[tuple[int, float]]:
    """(process, bytes that it holds) of the others on the card.

    In Windows the driver knows no sizes, and PyTorch prints the largest number there is for each.
    In a container the driver may count processes as the host does, and PyTorch does not know its
    own number: it is the one that holds what this process holds, or little more.
    """
    told = [(int(pid), float(value) * _UNITS[unit]) for pid, value, unit in _OTHER.findall(text)]
    others = [(pid, held) for pid, held in told if pid != os.getpid() and held <= total]
    if "this process has" not in text and len(others) == len(told):
        ours = min((o for o in others if o[1] >= own), key=lambda o: o[1], default=None)
        others = [o for o in others if o != ours]
    return others


def _size(words: str, text: str) -> float | None:
    """Bytes that stand behind these words."""
    found = re.search(rf"{re.escape(words)} {_SIZE}", text)
    return float(found[1]) * _UNITS[found[2]] if found else None


def _before(words: str, text: str) -> float | None:
    found = re.search(rf"{_SIZE} {re.escape(words)}", text)
    return float(found[1]) * _UNITS[found[2]] if found else None


def _gib(count: float | None) -> str:
    return "-- GiB" if count is None else f"{count / GIB:.2f} GiB"


def _who(pid: int, held: float, named: Callable[[int], str]) -> str:
    name = named(pid)
    return f"{name + ', ' if name else ''}process {pid}, {_gib(held)}"


def _name(pid: int) -> str:
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except (psutil.Error, ValueError, OSError):
        return ""
