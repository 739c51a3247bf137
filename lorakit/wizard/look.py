"""Looks at machine, base and pictures for the wizard. Each call blocks until it has an answer."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lorakit.bundle.models import PICO, Base, Bundle, Dataset
from lorakit.bundle.paths import resolve
from lorakit.bundle.problems import Problem
from lorakit.dataset.layout import layout
from lorakit.dataset.report import DatasetReport
from lorakit.dataset.scan import scan
from lorakit.errors import LorakitError
from lorakit.families.base_model import BaseFacts, inspect, recognised, usual
from lorakit.hardware.detect import detect
from lorakit.hardware.facts import Hardware
from lorakit.hardware.speed import recalled
from lorakit.interop.models import Model, found
from lorakit.planner.check import check
from lorakit.planner.facts import Facts
from lorakit.survey import survey
from lorakit.wizard.answers import OF_BASE, Answers, Folder
from lorakit.wizard.proposal import source
from lorakit.wizard.state import State
from lorakit.wizard.steps import NAMES

__all__ = [
    "Reviewed",
    "again",
    "base",
    "folder",
    "laid_out",
    "machine",
    "models",
    "pictures",
    "review",
]

Progress = Callable[[int, int], None]
Partly = Callable[[Callable[[], DatasetReport]], None]


def machine() -> Hardware:
    """What is here."""
    return recalled(detect())


def base(answers: Answers, here: Path) -> BaseFacts:
    """What the base says about itself, its family first of all. Raises LorakitError with what is
    wrong with it."""
    given = {"model": _path(answers.base), "revision": answers.revision}
    given |= {k.removeprefix("base."): v for k, v in answers.changes.items() if k in OF_BASE}
    taken = Base.model_validate({**given, "family": answers.family or "sd1"})
    return inspect(recognised(taken, here), here)


def models() -> tuple[Model, ...]:
    """The base models of this machine that an answer can name and a training can use, without
    pico, which every machine has."""
    return tuple(m for m in found() if m.usable and not m.revision and m.base != PICO)


def folder(path: str, here: Path) -> Path:
    """The absolute folder of pictures. Raises LorakitError with the nearest one if it is not
    there."""
    from lorakit.dataset.findings import missing_folder

    place = Path(resolve(_path(path), here))
    if not place.is_dir():
        problem = missing_folder(0, path, place)
        raise LorakitError(problem.what, problem.fix)
    return place


def laid_out(state: State) -> State:
    """With the folders that the typed one is by the names in it, such as `40_ohwx man`.

    A trigger that was typed goes before the first one's. Raises LorakitError for a folder that no
    bundle can name.
    """
    first = state.answers.folders[0]
    if first.typed or not first.path:
        return state
    place = Path(resolve(_path(first.path), state.folder))
    found = []
    for one in layout(place):
        inside = os.path.relpath(one.path, place)
        found.append(
            Folder(
                path=first.path if inside == "." else os.path.join(first.path, inside),
                repeats=one.repeats if one.repeats > 1 else first.repeats,
                trigger=one.trigger,
                prior=first.prior,
                typed=first.path,
            )
        )
    if first.trigger:
        found[0] = dataclasses.replace(found[0], trigger=first.trigger)
    return state.answering(state.answers.with_found(found))


def pictures(
    state: State, progress: Progress, partly: Partly = lambda report: None
) -> DatasetReport:
    """What the folders hold, at the resolution proposed so far. Raises LorakitError.

    `partly` is called behind `progress`, with a function that makes a report of what has been seen
    by then.
    """
    sources = [{**source(f), "path": _path(f.path)} for f in state.answers.folders if f.path]
    if not sources:
        raise LorakitError("No folder of pictures is given.", "Type or paste the path of one.")
    shape = {key: state.proposal.value(f"dataset.{key}") for key in ("resolution", "buckets")}
    dataset = Dataset.model_validate({**shape, "sources": sources})
    base = state.known.base or usual("sd1")
    return scan(dataset, state.folder, base, progress, partly=partly)


def again(state: State, step: str, progress: Progress) -> tuple[State, str]:
    """Find out all that an earlier step would have: for answers that come from a draft.

    Returns what is known then, and the step to go on at: the given one, or the first before it
    that has no good answer any more.
    """
    state = state.knowing(hardware=state.known.hardware or machine())
    for earlier in NAMES[1 : NAMES.index(step)]:
        try:
            if earlier == "base":
                state = state.knowing(base=base(state.answers, state.folder))
            elif earlier == "pictures":
                state = laid_out(state)
                state = state.knowing(report=pictures(state, progress))
        except LorakitError:
            return state, earlier
    return state, step


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """All that is to be said of a bundle on this machine."""

    facts: Facts
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> int:
        """Problems that training waits for."""
        return sum(p.severity == "error" for p in self.problems)


def review(bundle: Bundle, state: State, progress: Progress) -> Reviewed:
    """Survey and check a bundle as `lorakit train` does."""
    facts = survey(bundle, state.folder, hardware=state.known.hardware, progress=progress)
    return Reviewed(facts=facts, problems=tuple(check(bundle, facts)))


def _path(text: str) -> str:
    """A path or id that a bundle may hold. Raises LorakitError for one that it may not."""
    from lorakit.bundle.models import control_character

    if not text:
        raise LorakitError("Nothing is given.", "Type or paste a path.")
    found = control_character(text)
    if found:
        raise LorakitError(
            f"The path holds the control character \\x{ord(found):02x}.",
            "Rename the folder: a bundle cannot name it.",
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LorakitError(
            "The path is not UTF-8.", "Rename the folder: a bundle cannot name it."
        ) from None
    return text
