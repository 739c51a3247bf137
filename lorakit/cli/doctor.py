"""`lorakit doctor`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lorakit.bundle.problems import Problem
from lorakit.cli import streams
from lorakit.cli.examined import examine
from lorakit.cli.hardware import probed
from lorakit.cli.machine import believed
from lorakit.doctor import machine as of_machine
from lorakit.doctor import surroundings
from lorakit.doctor.checks import Check, bad, doubtful, exit_code, good
from lorakit.hardware.facts import Hardware
from lorakit.runs.words import clean, plural

MARKS = {"good": "✓", "doubtful": "!", "bad": "✗"}
ASCII_MARKS = {"good": "ok", "doubtful": "! ", "bad": "X "}


def doctor(
    bundle: Path | None,
    settings: list[str],
    runs: Path | None,
    machine: Path | None,
    probe: bool,
    as_json: bool,
) -> int:
    """Look at everything a training needs, and print how each thing stands and what cures it."""
    hardware = believed(machine)
    if hardware is not None:
        checks = of_machine.checks(hardware, {})
    else:
        hardware, checks = here(runs, os.environ, probe)
    problems: Sequence[Problem] = ()
    if bundle is not None:
        problems = examine(bundle, settings, runs, hardware=hardware).problems
    code = exit_code(checks, problems)
    if bundle is not None:
        checks += _of_bundle(bundle, problems, hardware)
    if as_json:
        told = [dataclasses.asdict(check) for check in checks]
        streams.out_json({"trains_on": hardware.device, "exit_code": code, "checks": told})
    else:
        streams.out(*_lines(checks, hardware))
    return code


def here(
    runs: Path | None, environ: Mapping[str, str], probe: bool
) -> tuple[Hardware, list[Check]]:
    """This machine and all that is to be said of it."""
    from lorakit.doctor.gather import gather
    from lorakit.hardware.detect import detect
    from lorakit.runs.directory import runs_root

    hardware = detect()
    if probe and hardware.torch is not None:
        hardware = probed(hardware)
    found = gather(runs_root(runs), environ)
    return hardware, [
        *surroundings.before(found),
        *of_machine.checks(hardware, environ),
        surroundings.threads(found, hardware.cpu_threads),
        *surroundings.after(found),
    ]


def _of_bundle(path: Path, problems: Sequence[Problem], hardware: Hardware) -> Iterator[Check]:
    """What `lorakit check` says, without what has been said of the machine."""
    found = [p for p in problems if p not in hardware.findings]
    for problem in found:
        where = f"{problem.where}: " if problem.where else ""
        make = bad if problem.severity == "error" else doubtful
        yield make("bundle", f"{where}{problem.what}", problem.fix)
    if not any(p.severity == "error" for p in found):
        yield good("bundle", f"{path} can be trained on the {hardware.device}")


def _lines(checks: Sequence[Check], hardware: Hardware) -> Iterator[str]:
    """A line for each check, with its cure below; broken to the width of a terminal."""
    marks = MARKS if _can_draw(sys.stdout.encoding) else ASCII_MARKS
    wide = max(len(check.name) for check in checks)
    for check in checks:
        start = f"{marks[check.verdict]} {check.name:<{wide}}  "
        below = " " * len(start)
        yield from streams.folded(clean(check.what), start, below, whole=False)
        if check.cure:
            yield from streams.folded(clean(check.cure), below, below)
    doubts, errors = (sum(c.verdict == v for c in checks) for v in ("doubtful", "bad"))
    runs = "does not run" if errors else "runs"
    counts = ", ".join(
        plural(n, noun)
        for n, noun in ((len(checks), "check"), (doubts, "warning"), (errors, "error"))
    )
    yield f"Training {runs} on {clean(hardware.device)}: {counts}."


def _can_draw(encoding: str) -> bool:
    try:
        "".join(MARKS.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
