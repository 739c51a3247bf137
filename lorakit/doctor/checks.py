"""One thing that was looked at, how it stands, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lorakit.bundle.problems import Problem
from lorakit.errors import ExitCode

Verdict = Literal["good", "doubtful", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the doctor's."""

    name: str
    """One word."""
    verdict: Verdict
    """`bad` is what keeps every training from running."""
    what: str
    """What was found."""
    cure: str = ""
    """What to do about it, where there is something to do."""


def good(name: str, what: str) -> Check:
    """Nothing to do."""
    return Check(name=name, verdict="good", what=what)


def doubtful(name: str, what: str, cure: str = "") -> Check:
    """Training runs, and not as well as it could."""
    return Check(name=name, verdict="doubtful", what=what, cure=cure)


def bad(name: str, what: str, cure: str = "") -> Check:
    """No training runs."""
    return Check(name=name, verdict="bad", what=what, cure=cure)


def of_problem(name: str, problem: Problem, verdict: Verdict = "doubtful") -> Check:
    """A finding as a check."""
    return Check(name=name, verdict=verdict, what=problem.what, cure=problem.fix)


def exit_code(checks: Iterable[Check], problems: Iterable[Problem] = ()) -> ExitCode:
    """NO_HARDWARE where nothing can be trained, or where a bundle with these problems fails on this
    machine or its memory; else the code of its first error.
    """
    errors = [p for p in problems if p.severity == "error"]
    stuck = any(c.verdict == "bad" for c in checks)
    if stuck or any(p.code in _MACHINE or p.where in _OF_THE_MACHINE for p in errors):
        return ExitCode.NO_HARDWARE
    return errors[0].code if errors else ExitCode.OK


_MACHINE = (ExitCode.NO_HARDWARE, ExitCode.OUT_OF_MEMORY)

_OF_THE_MACHINE = ("train.precision", "memory.attention")
"""What is wrong with these is what the machine lacks, though another bundle would do without."""
