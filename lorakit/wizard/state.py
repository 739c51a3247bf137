"""All that the wizard holds at one moment: a value that each step takes and hands on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lorakit.planner.presets import Preset, shipped, user
from lorakit.wizard.answers import Answers
from lorakit.wizard.proposal import Known, Proposal, propose


@dataclass(frozen=True, kw_only=True)
class State:
    """Answers, what has been found out, and what there is to choose from."""

    answers: Answers
    known: Known
    presets: tuple[Preset, ...]
    """A person's own before shipped ones of the same name."""
    folder: Path
    """What relative paths count from. Absolute."""

    @cached_property
    def proposal(self) -> Proposal:
        """What the answers come to, from what is known."""
        return propose(self.answers, self.known, self.presets)

    def answering(self, answers: Answers) -> State:
        """With other answers; what was found out about earlier ones is forgotten."""
        known = self.known
        if _base(answers) != _base(self.answers):
            known = dataclasses.replace(known, base=None, report=None)
        if answers.folders != self.answers.folders:
            known = dataclasses.replace(known, report=None)
        return dataclasses.replace(self, answers=answers, known=known)

    def knowing(self, **found: Any) -> State:
        """With something found out."""
        return dataclasses.replace(self, known=dataclasses.replace(self.known, **found))


def _base(answers: Answers) -> tuple[str, str, str]:
    return answers.base, answers.revision, answers.family


def begin(folder: Path, answers: Answers | None = None) -> State:
    """The first state, with all presets there are."""
    named = {preset.name: preset for preset in (*shipped(), *user())}
    return State(
        answers=answers or Answers(),
        known=Known(),
        presets=tuple(named.values()),
        folder=folder,
    )
