"""`lorakit watch`."""

from __future__ import annotations

from pathlib import Path

from lorakit.cli import streams
from lorakit.live.ending import conclude
from lorakit.live.follow import follow
from lorakit.runs.directory import find, runs_root


def watch(name: str | None, runs: Path | None) -> int:
    """Follow a run that anybody started. Its exit code, where it ends meanwhile or has ended."""
    run = find(name, runs_root(runs))
    seen = follow(run)
    lines, code = conclude(run, seen)
    streams.out(*lines)
    if seen.left == "viewer left":
        streams.err(f"{run.name} goes on.")
    return code
