"""`lorakit stop`."""

from __future__ import annotations

from pathlib import Path

from lorakit.cli import streams
from lorakit.errors import LorakitError
from lorakit.runs import control
from lorakit.runs.directory import find, runs_root
from lorakit.runs.status import is_running


def stop(name: str | None, runs: Path | None) -> int:
    """Ask a run to stop after its step and to save."""
    run = find(name, runs_root(runs))
    status = run.status()
    if not is_running(status):
        raise LorakitError(
            f"{run.name} is not running: it is {status}.", "lorakit runs lists those that are."
        )
    control.request(run, "stop")
    streams.err(f"{run.name} stops after its step and saves.")
    return 0
