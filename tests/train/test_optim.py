from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lorakit.bundle.models import Train
from lorakit.train import optim


@pytest.mark.parametrize("accumulation", [1, 2, 4, 8])
def test_warm_up_and_decay_count_optimizer_steps(accumulation: int) -> None:
    train = Train(
        steps=100, warmup_steps=10, learning_rate=1.0, schedule="cosine", accumulation=accumulation
    )
    rates = [optim.learning_rate(train, step) for step in range(1, 101)]
    assert rates.index(max(rates)) + 1 == 10
    assert max(rates) == 1.0
    assert 0 < rates[-1] < 0.01


@given(
    schedule=st.sampled_from(["constant", "linear", "cosine", "constant_with_warmup"]),
    steps=st.integers(1, 300),
    warmup=st.integers(0, 300),
)
def test_rates_stay_between_nothing_and_the_peak(schedule: str, steps: int, warmup: int) -> None:
    train = Train(steps=steps, warmup_steps=warmup, learning_rate=0.5, schedule=schedule)
    rates = [optim.learning_rate(train, step) for step in range(1, steps + 1)]
    assert all(0 < rate <= 0.5 for rate in rates)
    if schedule == "constant" or (schedule == "constant_with_warmup" and warmup <= 1):
        assert set(rates) == {0.5}


@pytest.mark.parametrize("name", ["adamw", "adafactor"])
def test_state_survives_flattening(name: str) -> None:
    """An optimizer rebuilt from named tensors goes on exactly as the first one would have."""
    torch.manual_seed(0)
    train = Train(optimizer=name, learning_rate=1e-2)
    gradients = [torch.randn(4, 3) for _ in range(6)]

    def run(weight: torch.nn.Parameter, made: torch.optim.Optimizer, part: slice) -> None:
        for gradient in gradients[part]:
            weight.grad = gradient.clone()
            optim.update(made, torch.tensor(0.0))

    straight = torch.nn.Parameter(torch.ones(4, 3))
    run(straight, optim.optimizer(train, [straight]), slice(0, 6))

    first = torch.nn.Parameter(torch.ones(4, 3))
    before = optim.optimizer(train, [first])
    run(first, before, slice(0, 3))
    second = torch.nn.Parameter(first.detach().clone())
    after = optim.optimizer(train, [second])
    optim.restore(after, ["a.b"], *optim.flatten(before, ["a.b"]))
    run(second, after, slice(3, 6))
    assert torch.equal(straight, second)


def test_options_reach_the_optimizer() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    options = {"weight_decay": 0.2, "beta1": 0.5, "beta2": 0.6, "eps": 1e-3}
    made = optim.optimizer(Train.model_validate({"optimizer_options": options}), [weight])
    group = made.param_groups[0]
    assert (group["weight_decay"], group["betas"], group["eps"]) == (0.2, (0.5, 0.6), 1e-3)
