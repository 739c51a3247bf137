"""Optimizers, the course of the learning rate, and an update that can be called off on the device.

None of this waits for the device: no value travels to the host in a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lorakit.bundle.models import Train


def learning_rate(train: Train, step: int) -> float:
    """Learning rate of optimizer step `step`, counted from 1.

    It peaks at the last warm-up step (at step 1 without warm-up) and no step is spent at 0.
    """
    warmup = 0 if train.schedule == "constant" else train.warmup_steps
    if step < warmup:
        return train.learning_rate * step / warmup
    if train.schedule in ("constant", "constant_with_warmup"):
        return train.learning_rate
    peak = max(warmup, 1)
    progress = min((step - peak) / (train.steps - peak + 1), 1.0)
    if train.schedule == "linear":
        return train.learning_rate * (1 - progress)
    return train.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


def optimizer(train: Train, weights: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer of a bundle over fp32 weights."""
    options = train.optimizer_options
    if train.optimizer == "adafactor":
        # torch's own Adafactor reads a norm back to the host for every weight in every step.
        from transformers.optimization import Adafactor

        return Adafactor(
            weights,
            lr=train.learning_rate,
            decay_rate=options.beta2_decay,
            clip_threshold=options.clip_threshold,
            weight_decay=options.weight_decay,
            scale_parameter=False,
            relative_step=False,
            warmup_init=False,
        )
    # The fused kernel can be called off by a flag on the device; meta has none, and needs none.
    fused = weights[0].device.type != "meta"
    return torch.optim.AdamW(
        weights,
        lr=train.learning_rate,
        betas=(options.beta1, options.beta2),
        eps=options.eps,
        weight_decay=options.weight_decay,
        fused=fused,
        foreach=False,
    )


INITIAL_SCALE = 2.0**16
"""Where the loss scaling of fp16 starts; it falls by half with each step that overflows."""


def scaler(train: Train, where: torch.device) -> torch.amp.GradScaler:
    """Loss scaling for fp16, which does nothing for other precisions; meta has that of a CPU."""
    kind = "cpu" if where.type == "meta" else where.type
    return torch.amp.GradScaler(kind, init_scale=INITIAL_SCALE, enabled=train.precision == "fp16")


def update(made: torch.optim.Optimizer, called_off: Tensor) -> None:
    """One optimizer step that leaves weights and state as they are where `called_off` is 1.

    `called_off` is an fp32 scalar on the device, 0 or 1. Counters that an optimizer keeps on the
    host go on: Adafactor's decay takes a skipped step for one.
    """
    if isinstance(made, torch.optim.AdamW):
        if made.defaults["fused"]:
            made.found_inf = called_off  # type: ignore[attr-defined]  # read by the kernel
            made.grad_scale = None  # type: ignore[attr-defined]
        made.step()
        return
    skip = called_off.bool()
    groups = made.param_groups
    try:
        for group in groups:
            for weight in group["params"]:
                # One weight at a time, so that only one of them is held twice.
                made.param_groups = [{**group, "params": [weight]}]
                # State that this very step creates has nothing to go back to: it must be finite.
                weight.grad.copy_(torch.where(skip, 0.0, weight.grad))
                state = [t for t in made.state[weight].values() if isinstance(t, Tensor)]
                before = [(t, t.clone()) for t in (weight.data, *state)]
                made.step()
                for now, old in before:
                    now.copy_(torch.where(skip, old, now))
    finally:
        made.param_groups = groups


def flatten(
    made: torch.optim.Optimizer, names: Sequence[str]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimizer's state as named tensors and plain numbers: nothing needs to be pickled.

    `names` are those of the weights, in the optimizer's order.
    """
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for index, values in made.state_dict()["state"].items():
        for key, value in values.items():
            place = tensors if isinstance(value, Tensor) else numbers
            place[f"{names[index]}.{key}"] = value
    return tensors, numbers


def restore(
    made: torch.optim.Optimizer,
    names: Sequence[str],
    tensors: Mapping[str, Tensor],
    numbers: Mapping[str, Any],
) -> None:
    """Undo `flatten`; the weights may have another order now. Raises KeyError for one unknown."""
    whole = made.state_dict()
    indices = {name: index for index, name in enumerate(names)}
    state: dict[int, dict[str, Any]] = {}
    for place, value in (*tensors.items(), *numbers.items()):
        name, key = place.rsplit(".", 1)
        state.setdefault(indices[name], {})[key] = value
    whole["state"] = state
    made.load_state_dict(whole)
