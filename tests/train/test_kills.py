"""Killed at random moments and gone on with, a run gives what it would have given."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from trainings import changed

from lorakit.bundle.models import Bundle

SCRIPT = Path(__file__).parents[2] / "examples" / "benchmarks" / "kills.py"


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kills", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "kills", module)  # for its dataclasses
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_dozen_kills(
    kills: ModuleType, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("LORAKIT_CACHE", str(tmp_path))  # the script sets one for each run
    wanted = changed(bundle, train={"steps": 40, "accumulation": 2}, save={"every": 4})
    outcomes, expected = kills.kill(
        wanted, tmp_path, tmp_path / "runs", kills=12, runs=2, seed=1, jobs=2
    )
    print("\n".join(kills.table(outcomes, expected)))
    assert expected
    assert sum(o.killed.total() for o in outcomes) >= 12
    assert [o.digest for o in outcomes] == [expected] * len(outcomes)
    assert [line for o in outcomes for line in o.lost] == []
