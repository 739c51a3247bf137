"""One optimizer step: what the loop runs, what the benchmark times and what the planner counts.

No autocast: every cast is written out, so the same lines run on the meta device. No value travels
to the host: the loss stays on the device until someone reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lorakit.train.objective import Objective
from lorakit.train.optim import update

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
"""Compute dtypes by `train.precision`."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a model is told beside noisy latents. Of one picture there is no first axis."""

    hidden: Tensor
    """Hidden states of the caption, [n, tokens, width], in the compute dtype."""
    pooled: Tensor | None = None
    """The caption as one vector, [n, width], in the compute dtype; only some families have it."""
    sizes: Tensor | None = None
    """Six numbers of each picture, [n, 6], fp32: see `StableDiffusionXL.sizes`."""


Predict = Callable[[Tensor, Tensor, Conditions], Tensor]
"""(noisy latents [n, c, h, w], timesteps [n], conditions) to an answer [n, c, h, w]. Latents go in
and come out as fp32; what lies between runs in the compute dtype."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Prepared tensors of one forward pass, on the device of the training."""

    latents: Tensor
    """[n, c, h, w], fp32, scaled."""
    noise: Tensor
    """[n, c, h, w], fp32."""
    timesteps: Tensor
    """[n], int64."""
    conditions: Conditions
    mask: Tensor | None = None
    """[n, 1, h, w], fp32: how much each place counts, 1 in the mean; None: all the same."""
    weights: Tensor | None = None
    """[n], fp32: how much each picture counts; None: all the same."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a step works on."""

    predict: Predict
    weights: list[torch.nn.Parameter]
    """The trained weights, fp32."""
    objective: Objective
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    """Loss scaling for fp16; disabled for other precisions."""
    clip_norm: float
    """Limit of the gradient's norm; 0: none."""


def step(model: Model, batches: Sequence[Batch]) -> Tensor:
    """Forward, backward and update over the batches of one step; returns its mean loss, a scalar.

    Each picture counts the same, however the step is cut into batches. Where the loss or a
    gradient is not finite nothing is updated and the result is not finite.
    """
    pictures = sum(len(b.latents) for b in batches)
    losses = []
    for batch in batches:
        noisy = model.objective.mix(batch.latents, batch.noise, batch.timesteps)
        answer = model.predict(noisy, batch.timesteps, batch.conditions)
        target = model.objective.target(batch.latents, batch.noise, batch.timesteps)
        loss = model.objective.loss(answer, target, batch.timesteps, batch.mask, batch.weights)
        loss = loss * (len(batch.latents) / pictures)
        model.scaler.scale(loss).backward()
        losses.append(loss.detach())
        del noisy, answer, target, loss
    total = losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    model.scaler.unscale_(model.optimizer)
    gradients = [w.grad for w in model.weights if w.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if model.clip_norm:
        torch.nn.utils.clip_grads_with_norm_(model.weights, model.clip_norm, norm)
    finite = torch.isfinite(norm) & torch.isfinite(total)
    update(model.optimizer, (~finite).float())
    model.scaler.update()
    model.optimizer.zero_grad(set_to_none=True)
    if model.scaler.is_enabled():
        return total  # a gradient that overflowed fp16 is the scaler's business, not a bad loss
    return torch.where(finite, total, torch.nan)
