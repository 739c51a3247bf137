"""Which process a run is in, so that a reused pid is never taken for it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A process, told apart from every other that ever ran."""

    pid: int
    process_start: float
    """On Linux in clock ticks since boot, which no change of the clock moves; else unix seconds."""
    boot_id: str
    host: str
    pid_namespace: str
    """A container counts its pids on its own. Empty where the system has none."""


def identify(pid: int) -> Identity | None:
    """The process that has this pid here and now, or None where there is none or it has ended."""
    start = _start(pid)
    if start is None:
        return None
    return Identity(
        pid=pid,
        process_start=start,
        boot_id=_boot_id(),
        host=socket.gethostname(),
        pid_namespace=_namespace(),
    )


def alive(process: Identity) -> bool | None:
    """Whether it still runs. None: it is on another host or in another container, so unknown."""
    if process.host != socket.gethostname():
        return None
    if process.boot_id != _boot_id():
        return False
    if process.pid_namespace != _namespace():
        return None
    return _start(process.pid) == process.process_start


def _start(pid: int) -> float | None:
    if not (_PROC / "self" / "stat").exists():
        return _start_elsewhere(pid)
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may hold spaces; field 3 is the state, field 22 the start.
    state, *numbers = stat.rpartition(b")")[2].split()
    return None if state in (b"Z", b"X") else float(numbers[18])


def _start_elsewhere(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return round(process.create_time(), 2)
    except psutil.Error:
        return None


@cache
def _boot_id() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@cache
def _namespace() -> str:
    try:
        return os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return ""
