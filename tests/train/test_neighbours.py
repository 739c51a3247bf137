"""Other programs on the cores of a training are told once, with numbers and the way out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from trainings import changed, trained, watched

from lorakit.bundle.models import Bundle
from lorakit.runs.events import Noted
from lorakit.train import neighbours
from lorakit.train.neighbours import Neighbours, busy_seconds, crowded


@pytest.mark.parametrize(
    ("others", "cores", "threads", "fewer"),
    [
        (2.0, 2, 2, 1), (1.0, 2, 2, 1), (0.4, 2, 2, None), (3.9, 8, 4, None), (3.0, 4, 4, 1),
        (5.9, 8, 4, 2), (64.0, 64, 32, 1), (8.0, 8, 1, None), (0.0, 4, 8, 4),
    ],
)  # fmt: skip
def test_it_is_said_only_where_fewer_threads_help(
    others: float, cores: int, threads: int, fewer: int | None
) -> None:
    said = crowded(others, cores, threads)
    if fewer is None:
        assert said == ""
    else:
        assert f"keep {others:.1f} of {cores} cores busy" in said
        assert f"has {threads} threads" in said
        assert said.endswith(f"OMP_NUM_THREADS={fewer}")
        assert fewer < threads
        assert crowded(others, cores, fewer) == "" or fewer == 1


def test_own_work_is_not_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores were busy for 5 s, 4 of them with this process's own work, within 2 s."""
    clock = {"monotonic": 100.0, "busy": 1000.0, "process_time": 10.0}
    monkeypatch.setattr(neighbours, "busy_seconds", lambda: clock["busy"])
    monkeypatch.setattr(neighbours, "allowed", lambda: {0, 1})
    monkeypatch.setattr(neighbours.time, "monotonic", lambda: clock["monotonic"])
    monkeypatch.setattr(neighbours.time, "process_time", lambda: clock["process_time"])
    seen = Neighbours()
    assert seen.warning(4) == ""  # no time has gone
    clock.update(monotonic=102.0, busy=1005.0, process_time=14.0)
    assert "keep 0.5 of 2 cores busy" in seen.warning(4)


def test_work_of_another_process_is_counted() -> None:
    before, code = busy_seconds(), "import time\nwhile time.process_time() < 0.5: pass"
    with subprocess.Popen([sys.executable, "-S", "-c", code]) as child:
        pass
    assert child.returncode == 0
    assert busy_seconds() - before >= 0.4


def test_a_training_says_it_once(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Neighbours, "warning", lambda self, threads: f"crowded with {threads}")
    quick = changed(bundle, train={"steps": 1, "warmup_steps": 0}, sample={"prompts": []})
    log = watched(tmp_path / "run")
    trained(quick, tmp_path / "run", log)
    told = [e.level for e in log.of(Noted) if e.text == f"crowded with {torch.get_num_threads()}"]
    assert told == ["warning"]
