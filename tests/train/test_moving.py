"""A training in which nothing is learned does not go on for hours."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from trainings import changed, trained, watched

from lorakit.bundle.models import Bundle, Train
from lorakit.errors import ExitCode, LorakitError
from lorakit.train import optim
from lorakit.train.moving import STEPS, Moving

WEIGHTS = ["a", "b"]


def walk(moving: Moving, rate: float, steps: int) -> list[int]:
    return [step for step in range(1, steps + 1) if moving.due(step, rate)]


def test_it_looks_once_the_steps_are_done() -> None:
    weights = [torch.zeros(3), torch.ones(2)]
    moving = Moving(WEIGHTS, weights, 0)
    assert walk(moving, 1e-4, STEPS) == [STEPS]
    weights[0] += 1
    with pytest.raises(LorakitError, match="1 of 2 trained weights have not moved in 10 steps, b"):
        moving.look(called_off=False)
    weights[1][0] += 1e-3
    assert moving.look(called_off=False) == []


def test_it_waits_where_updates_are_too_small_or_were_called_off() -> None:
    moving = Moving(WEIGHTS, [torch.zeros(3), torch.ones(2)], 20)
    assert [s for s in range(21, 31) if moving.due(s, 1e-9)] == [30]
    assert moving.look(called_off=False) is None  # a cosine's end: 1e-8 in all moves nothing near 1
    assert [s for s in range(31, 41) if moving.due(s, 1e-3)] == [40]
    assert moving.look(called_off=True) is None
    assert [s for s in range(41, 51) if moving.due(s, 1e-3)] == [50]
    with pytest.raises(LorakitError):
        moving.look(called_off=False)


def test_an_optimizer_with_other_weights_ends_the_run(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happens where layers are replaced after the optimizer was made."""
    real = optim.optimizer

    def of_others(train: Train, weights: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return real(train, [torch.nn.Parameter(w.detach().clone()) for w in weights])

    monkeypatch.setattr(optim, "optimizer", of_others)
    log = watched(tmp_path / "run")
    with pytest.raises(LorakitError, match="have not moved in 10 steps") as failure:
        trained(changed(bundle, train={"steps": 200}), tmp_path / "run", log)
    assert failure.value.code == ExitCode.TRAINING_FAILED
