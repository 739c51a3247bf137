"""`lorakit train`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lorakit.cli import streams
from lorakit.cli.examined import examine
from lorakit.cli.given import given
from lorakit.cli.machine import believed, say_judged
from lorakit.errors import LorakitError
from lorakit.planner.estimate import Estimate
from lorakit.runs.directory import Run, create, every, runs_root
from lorakit.runs.launch import START_SECONDS, await_started, launch, refuse_running
from lorakit.runs.words import clean


def train(
    path: Path,
    settings: list[str],
    runs: Path | None,
    detach: bool,
    machine: Path | None = None,
) -> int:
    """Check a bundle, by a machine file if one is given, and train it in a process of its own."""
    hardware = believed(machine)
    examined = examine(path, settings, runs, hardware=hardware)
    streams.problems(examined.problems, str(path))
    if examined.bundle is None or examined.exit_code:
        return examined.exit_code
    say_judged(hardware, machine)
    run = create(examined.bundle, runs_root(runs), path.resolve().parent)
    return (start_detached if detach else start)(run, examined.estimate)


def resume(
    what: Path,
    settings: list[str],
    runs: Path | None,
    detach: bool,
    machine: Path | None = None,
) -> int:
    """Go on with a run, or with the newest run of a bundle, from its newest complete checkpoint."""
    from lorakit.bundle.paths import absolute
    from lorakit.live.ending import ending
    from lorakit.runs import checkpoints
    from lorakit.runs.resume import adopt

    run, path = _meant(what, runs)
    refuse_running(run)
    hardware = believed(machine)
    examined = examine(path, settings, runs, run.path, hardware)
    streams.problems(examined.problems, str(path))
    if examined.bundle is None or examined.exit_code:
        return examined.exit_code
    bundle, state = absolute(examined.bundle, path.resolve().parent), run.state()
    if run.status(state) == "done" and bundle.train.steps <= state.step:
        streams.err(
            f"{run.name} is already complete: step {state.step} of {bundle.train.steps}."
            " Ask for more with --set train.steps=N."
        )
        streams.out(*ending(run, state))
        return 0
    found = checkpoints.start(run.path, bundle.train.steps)
    after = found.newest.step if found.newest else 0
    said = [f"skipped {line}" for line in found.skipped] + adopt(run, bundle, settings, after)
    if after:
        said.append(f"{run.name} goes on after step {after}")
    else:
        said.append(f"{run.name} has no checkpoint yet: it begins at its first step again")
    say_judged(hardware, machine)
    streams.err(*map(clean, said))
    estimate = examined.estimate
    if after and estimate is not None:
        estimate = replace(estimate, total_seconds=None)  # which is that of a whole run
    return (start_detached if detach else start)(run, estimate)


def _meant(what: Path, runs: Path | None) -> tuple[Run, Path]:
    """(the run, the bundle that says how it goes on)."""
    root = runs_root(runs)
    source = given(str(what), root)
    if source.run:
        return source.run, source.path
    name = source.bundle.name
    same = next((run for run in every(root) if run.title == name), None)
    if same is None:
        raise LorakitError(
            f"The bundle {source.path} has no run in {root}.", "Begin one without --resume."
        )
    return same, source.path


def start_detached(run: Run, estimate: Estimate | None = None) -> int:
    """Start a run, wait until it is up, and print its directory."""
    up = await_started(run, launch(run, estimate))
    streams.out(str(run.path))
    if up:
        streams.err(f"{run.name} is training. Look at it: lorakit watch   Stop it: lorakit stop")
    else:
        streams.err(
            f"{run.name} is still starting after {START_SECONDS} s, and goes on. Look at it: "
            f"lorakit watch   All it printed: {run.log}"
        )
    return 0


def start(run: Run, estimate: Estimate | None = None) -> int:
    """Start a run and follow it to its end, or until the viewer leaves."""
    from lorakit.live.ending import conclude
    from lorakit.live.follow import follow

    streams.err(f"run {run.path}")
    seen = follow(run, lambda: launch(run, estimate))
    lines, code = conclude(run, seen)
    streams.out(*lines)
    if seen.left == "viewer left":
        streams.err(f"{run.name} goes on. Look at it: lorakit watch   Stop it: lorakit stop")
    return code
