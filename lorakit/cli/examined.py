"""Reads and checks a bundle the same way for every command that is given one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lorakit.bundle.problems import BundleError, Problem
from lorakit.cli import streams
from lorakit.errors import ExitCode

if TYPE_CHECKING:
    from lorakit.bundle.models import Bundle
    from lorakit.hardware.facts import Hardware
    from lorakit.planner.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Examined:
    """A bundle and all that is to be said of it. Without one, it could not even be read."""

    bundle: Bundle | None
    problems: tuple[Problem, ...]
    estimate: Estimate | None = None

    @property
    def exit_code(self) -> int:
        """OK, or the code of the first error."""
        return next((p.code for p in self.problems if p.severity == "error"), ExitCode.OK)


def examine(
    path: Path,
    settings: Sequence[str],
    runs: Path | None = None,
    run: Path | None = None,
    hardware: Hardware | None = None,
) -> Examined:
    """Read a bundle, survey the machine and the pictures, and check. Nothing is loaded.

    `run` is the directory of a run that goes on; `hardware` stands in for this machine.
    """
    from lorakit.bundle import read, syntax

    try:
        text = syntax.read_text(path)
        bundle, problems = read.check(syntax.load(text, str(path)), settings, text)
    except BundleError as error:
        return Examined(None, tuple(error.problems))
    if bundle is None:
        return Examined(None, tuple(problems))
    judged = judge(bundle, path, settings, runs, run, hardware)
    return replace(judged, problems=(*problems, *judged.problems))


def judge(
    bundle: Bundle,
    path: Path,
    settings: Sequence[str] = (),
    runs: Path | None = None,
    run: Path | None = None,
    hardware: Hardware | None = None,
) -> Examined:
    """What is wrong or doubtful about a bundle on this machine, and what it is predicted to take;
    `path` is the file it is from."""
    from lorakit.planner.check import check
    from lorakit.runs.words import clean
    from lorakit.survey import survey

    facts = survey(
        bundle,
        path.resolve().parent,
        hardware=hardware,
        runs=runs,
        run=run,
        dry_run=lambda words: streams.err(clean(words)),
    )
    problems = placed(check(bundle, facts), path, settings)
    # What another machine would take is no measure for what this one does.
    return Examined(bundle, tuple(problems), None if hardware else facts.estimate)


def placed(found: list[Problem], path: Path, settings: Sequence[str]) -> list[Problem]:
    """The problems with the line of each in the bundle's file, where it has one that no setting
    overrides."""
    if not found:
        return []
    from lorakit.bundle import keys, layout, syntax

    lines = {keys.join(k): p.line for k, p in layout.places(syntax.read_text(path)).items()}
    for setting in settings:
        lines.pop(setting.partition("=")[0].strip(), None)
    return [p if p.line else replace(p, line=lines.get(p.where)) for p in found]
