from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "wizard"))

import place
from driven import Drive, Driven, drive_in

from lorakit.wizard.answers import Answers
from lorakit.wizard.outcome import Outcome


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder the wizard is started in, with a base and pictures."""
    monkeypatch.setenv("LORAKIT_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lorakit.wizard.look.detect", place.machine)
    return place.make(tmp_path)


@pytest.fixture
def drive(here: Path) -> Drive:
    """Runs a wizard at 80 x 24 and a script of keys on it; returns how it ended."""

    def run(
        script: Callable[[Driven], Awaitable[Any]],
        answers: Answers | None = None,
        size: tuple[int, int] = (80, 24),
    ) -> Outcome | None:
        return drive_in(here, script, answers, size)

    return run
