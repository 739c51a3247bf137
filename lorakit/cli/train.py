"""`lorakit train`."""

from __future__ import annotations

from pathlib import Path

from lorakit.cli import streams
from lorakit.cli.examined import examine
from lorakit.runs.directory import Run, create, runs_root
from lorakit.runs.launch import START_SECONDS, await_started, launch


def train(path: Path, settings: list[str], runs: Path | None, detach: bool) -> int:
    """Check a bundle, and train it in a process of its own."""
    examined = examine(path, settings, runs)
    streams.problems(examined.problems, str(path))
    if examined.bundle is None or examined.exit_code:
        return examined.exit_code
    run = create(examined.bundle, runs_root(runs), path.resolve().parent)
    return start_detached(run) if detach else start(run)


def start_detached(run: Run) -> int:
    """Start a run, wait until it is up, and print its directory."""
    up = await_started(run, launch(run))
    streams.out(str(run.path))
    if up:
        streams.err(f"{run.name} is training. Look at it: lorakit watch   Stop it: lorakit stop")
    else:
        streams.err(
            f"{run.name} is still starting after {START_SECONDS} s, and goes on. Look at it: "
            f"lorakit watch   All it printed: {run.log}"
        )
    return 0


def start(run: Run) -> int:
    """Start a run and follow it to its end, or until the viewer leaves."""
    from lorakit.live.ending import conclude
    from lorakit.live.follow import follow

    streams.err(f"run {run.path}")
    seen = follow(run, lambda: launch(run))
    lines, code = conclude(run, seen)
    streams.out(*lines)
    if seen.left == "viewer left":
        streams.err(f"{run.name} goes on. Look at it: lorakit watch   Stop it: lorakit stop")
    return code
