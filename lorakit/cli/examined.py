"""Reads and checks a bundle the same way for every command that is given one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lorakit.bundle.problems import BundleError, Problem
from lorakit.errors import ExitCode, LorakitError

if TYPE_CHECKING:
    from lorakit.bundle.models import Bundle


@dataclass(frozen=True, slots=True)
class Examined:
    """A bundle and all that is to be said of it. Without one, it could not even be read."""

    bundle: Bundle | None
    problems: tuple[Problem, ...]

    @property
    def exit_code(self) -> int:
        """OK, or the code of the first error."""
        return next((p.code for p in self.problems if p.severity == "error"), ExitCode.OK)


def examine(path: Path, settings: Sequence[str]) -> Examined:
    """Read a bundle, survey the machine and the pictures, and check. Nothing is loaded."""
    from lorakit.bundle.read import read

    try:
        bundle = read(path, settings)
    except BundleError as error:
        return Examined(None, tuple(error.problems))
    from lorakit.planner.check import check
    from lorakit.survey import survey

    try:
        facts = survey(bundle, path.resolve().parent)
    except BundleError as error:
        return Examined(bundle, tuple(error.problems))
    except LorakitError as error:
        problem = Problem(where="", what=error.message, fix=error.hint, code=error.code)
        return Examined(bundle, (problem,))
    return Examined(bundle, tuple(check(bundle, facts)))
