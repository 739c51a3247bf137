"""Gathers what checking and recommending need to know: the one place with effects before them."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lorakit.bundle.models import Bundle
from lorakit.bundle.problems import Problem
from lorakit.dataset import captions
from lorakit.dataset.scan import scan
from lorakit.errors import LorakitError
from lorakit.families import hub_cache
from lorakit.families.base_model import inspect, is_small, usual
from lorakit.families.locate import missing
from lorakit.hardware.detect import detect
from lorakit.hardware.facts import Hardware
from lorakit.hardware.speed import recalled
from lorakit.planner.disk import NOTHING, Written
from lorakit.planner.estimate import Estimate, estimate
from lorakit.planner.facts import Facts
from lorakit.runs import checkpoints
from lorakit.runs.directory import runs_root

OPTIONAL = ("xformers",)
"""Python modules that a bundle may ask for and an installation may lack."""


def survey(
    bundle: Bundle,
    root: Path,
    hardware: Hardware | None = None,
    runs: Path | None = None,
    run: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    dry_run: Callable[[str], None] | None = None,
) -> Facts:
    """Look at the machine, the base, the pictures and the disk that a bundle is about.

    Relative paths count from `root`. `hardware` stands in for this machine, `runs` for the folder
    of runs; `run` is one that goes on; `progress` is called with pictures read and in all. Memory
    of a large base that the planner's table lacks is counted by a dry run, which takes some
    seconds: `dry_run` is told before it; without it the memory stays unknown. What goes wrong in
    one part is among the problems, so that the others are looked at all the same.
    """
    problems: list[Problem] = []
    base = report = None
    try:
        base = inspect(bundle.base, root)
    except LorakitError as error:
        problems.append(_problem("base.model", error))
    try:
        # Without a base the pictures are looked at as they fit any base of its family.
        there = base or usual(bundle.base.family)
        report = scan(bundle.dataset, root, there, progress, roughly=True)
    except LorakitError as error:
        if base is None:  # else the rule about the resolution says it, with the values that do
            problems.append(_problem("dataset.resolution", error))
    counter = captions.counter(base.folder, base.token_limit, roughly=True) if base else None
    folder, machine = run or runs_root(runs), hardware or recalled(detect())
    predicted = estimate(bundle, base, report, machine)
    large = base is not None and base.folder is not None and not is_small(bundle, base)
    if dry_run and large and not predicted.phases:
        try:
            predicted = _counted(bundle, root, machine, predicted, dry_run)
        except LorakitError as error:
            unknown = f"{error.message} So nobody knows what memory it takes."
            problems.append(
                replace(_problem("base.model", error), what=unknown, severity="warning")
            )
    return Facts(
        hardware=machine,
        report=report,
        base=base,
        disk_free_bytes=free_bytes(folder),
        runs_folder=str(folder),
        written=_written(run) if run else NOTHING,
        modules=_modules(hardware),
        offline=hub_cache.is_offline(),
        missing=missing(bundle.base) if base and base.folder is None else (),
        prompt_tokens=tuple(
            counter.measure(prompt).tokens if counter else None for prompt in bundle.sample.prompts
        ),
        estimate=predicted,
        problems=tuple(problems),
    )


def _counted(
    bundle: Bundle, root: Path, machine: Hardware, estimate: Estimate, say: Callable[[str], None]
) -> Estimate:
    """The estimate with what a dry run counts."""
    from lorakit.runs.dryrun import dry_run

    say(f"counting what {bundle.base.model} takes, on no device, which takes some seconds ...")
    phases = dry_run(bundle, root, machine)
    return replace(estimate, phases=phases, source="dry run")


def _written(run: Path) -> Written:
    """What lies in a run's directory. Its last checkpoint is the one that it goes on from, or that
    one is damaged and the run needs more than is said."""
    steps = checkpoints.complete(run)
    return Written(step=max(steps, default=0), checkpoints=len(steps))


def free_bytes(folder: Path) -> int | None:
    """Free space where this folder is, or will be; None where the system does not say."""
    there = next((p for p in (folder, *folder.parents) if p.is_dir()), None)
    try:
        return shutil.disk_usage(there).free if there else None
    except OSError:
        return None


def _modules(hardware: Hardware | None) -> frozenset[str]:
    """Optional modules: those that worked on the machine that stands in, else those found here."""
    if hardware and hardware.probe:
        tried = [device.modules for device in hardware.probe.devices]
        return frozenset(m for m in OPTIONAL if any(seen.get(m) == "" for seen in tried))
    return frozenset(m for m in OPTIONAL if importlib.util.find_spec(m))


def _problem(where: str, error: LorakitError) -> Problem:
    return Problem(where=where, what=error.message, fix=error.hint, code=error.code)
