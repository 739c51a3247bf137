"""The dry run as a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lorakit.bundle.models import Bundle
from lorakit.errors import LorakitError
from lorakit.hardware.facts import Hardware
from lorakit.planner.overheads import PROGRAM
from lorakit.runs import dryrun


def bundle(model: str = "pico") -> Bundle:
    return Bundle.model_validate(
        {
            "schema": 1,
            "name": "counted",
            "base": {"model": model},
            "dataset": {"sources": [{"path": "photos"}], "resolution": 64},
            "train": {"precision": "fp32"},
        }
    )


@pytest.mark.slow
def test_it_says_what_the_step_takes(tmp_path: Path) -> None:
    found = dryrun.dry_run(bundle(), tmp_path, Hardware())
    assert [phase.name for phase in found] == ["caching", "training"]
    assert 0 < found[1].gib - PROGRAM.gib < 0.1
    assert not list(tmp_path.iterdir())


def stand_in(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_what_went_wrong_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dryrun, "COMMAND", stand_in("raise SystemExit('no such layer')"))
    with pytest.raises(LorakitError, match="counted failed: no such layer"):
        dryrun.dry_run(bundle(), tmp_path, Hardware())


def test_an_answer_that_makes_no_sense_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dryrun, "COMMAND", stand_in("print('[]')"))
    with pytest.raises(LorakitError, match="failed"):
        dryrun.dry_run(bundle(), tmp_path, Hardware())


def test_it_does_not_take_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dryrun, "COMMAND", stand_in("import time; time.sleep(60)"))
    with pytest.raises(LorakitError, match=r"not done after 0 seconds|not done after 1 seconds"):
        dryrun.dry_run(bundle(), tmp_path, Hardware(), seconds=0.5)
