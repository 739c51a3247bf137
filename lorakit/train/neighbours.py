"""Other programs on the cores of a training.

PyTorch's threads wait for each other several times in a layer, so one that has lost its core to
another program holds up all: two programs on the same cores can take ten times as long.
"""

from __future__ import annotations

import os
import time

import psutil

SHORTEST_SECONDS = 1.0
"""Over less than this the system's clocks of cores say nothing."""

FREE_CORES = 0.5
"""Others together may take this much without a word: a desktop, an SSH session, a viewer."""


class Neighbours:
    """Looks at what others take of the cores from its making on."""

    def __init__(self) -> None:
        self._since, self._busy, self._own = time.monotonic(), busy_seconds(), time.process_time()

    def warning(self, threads: int) -> str:
        """One sentence where others need cores that `threads` of a training need too, else
        nothing."""
        seconds = time.monotonic() - self._since
        if seconds < SHORTEST_SECONDS:
            return ""
        own = time.process_time() - self._own
        others = max(0.0, busy_seconds() - self._busy - own) / seconds
        return crowded(others, len(allowed()), threads)


def crowded(others: float, cores: int, threads: int) -> str:
    """The sentence; `others` is the number of cores that other programs keep busy."""
    if threads == 1 or others + threads <= cores + FREE_CORES:
        return ""
    fewer = max(1, int(cores - others + FREE_CORES))
    return (
        f"other programs keep {others:.1f} of {cores} cores busy, and this training has"
        f" {threads} threads: together they can take ten times as long. Stop the others, or start"
        f" it with OMP_NUM_THREADS={fewer}"
    )


def allowed() -> set[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def busy_seconds() -> float:
    """Seconds of work that these cores have done since the system started."""
    mine = allowed()
    return sum(
        sum(t) - t.idle - getattr(t, "iowait", 0.0) - getattr(t, "guest", 0.0)
        - getattr(t, "guest_nice", 0.0)
        for number, t in enumerate(psutil.cpu_times(percpu=True))
        if number in mine
    )  # fmt: skip
