"""Something wrong or doubtful: where, what, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lorakit.errors import ExitCode, LorakitError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding about a bundle, its pictures, its base or the machine."""

    where: str
    """Dotted key (`train.steps`), or a path, or empty for the whole."""
    what: str
    """One sentence, with the offending value and the allowed range."""
    fix: str = ""
    """One sentence: the way out."""
    severity: Literal["error", "warning"] = "error"
    line: int | None = None
    """Line in the bundle's file, counted from 1."""
    code: ExitCode = ExitCode.USAGE
    """Exit code when this is what ends a command: USAGE or DATA."""


class BundleError(LorakitError):
    """A bundle that cannot be trained; carries every problem found, not the first."""

    def __init__(self, problems: list[Problem], path: str = "") -> None:
        errors = [p for p in problems if p.severity == "error"]
        first = errors[0] if errors else problems[0]
        super().__init__(first.what, first.fix, first.code)
        self.problems = problems
        self.path = path
