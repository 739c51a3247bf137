"""What a run is doing now: told by its process, and by its events only where those are final."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorakit.runs.events import Failed, Finished
from lorakit.runs.identity import Identity, alive
from lorakit.runs.state import RunState
from lorakit.runs.words import clean

Status = str
"""One word: a phase of a run whose process lives, else one of `OVER`. A newer version may have
phases that this one does not know."""

OVER = frozenset(("done", "stopped", "failed", "lost"))
"""Statuses of a run that no process trains any more."""

SILENT_SECONDS = 60
"""A trainer that nobody can look at from here is lost after this long without an event."""


def is_running(status: Status) -> bool:
    """Whether a process trains a run of this status."""
    return status not in OVER


def lives(process: Mapping[str, Any], state: RunState, now: float) -> bool:
    """Whether the process of `run.json` runs; where nobody here can know, whether it has spoken
    within the last minute. `now` is in unix seconds."""
    identity = _identity(process)
    known = alive(identity) if identity else None
    if known is not None:
        return known
    since = state.last_time if state.last_time is not None else process.get("time")
    return isinstance(since, int | float) and now - since <= SILENT_SECONDS


def status_of(state: RunState, lives: bool, asked_to_stop: bool = False) -> Status:
    """The status in one word. `asked_to_stop`: there is a request that the trainer has not met."""
    match state.ended:
        case Finished():
            return "stopped" if state.ended.outcome == "stopped" else "done"
        case Failed():
            return "failed"
    if not lives:
        return "lost"
    if state.stopping or asked_to_stop:
        return "stopping"
    phase = clean(state.doing.phase) if state.doing else ""
    return "starting" if not phase or phase in OVER else phase


def _identity(process: Mapping[str, Any]) -> Identity | None:
    try:
        return Identity(
            pid=int(process["pid"]),
            process_start=float(process["process_start"]),
            boot_id=str(process["boot_id"]),
            host=str(process["host"]),
            pid_namespace=str(process.get("pid_namespace", "")),
        )
    except (KeyError, TypeError, ValueError):
        return None
