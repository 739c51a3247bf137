"""A bundle's model with its adapter and batches of random numbers, on a real device.

What a step takes in time and memory follows from shapes and dtypes, never from what the numbers
are: so a benchmark needs neither pictures nor, where the weights are random too, a download.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lorakit.bundle.models import Bundle
from lorakit.errors import LorakitError
from lorakit.families.base_model import BaseFacts
from lorakit.train import sizes, step
from lorakit.train.families import family_of
from lorakit.train.step import DTYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What steps are taken with."""

    unet: Any
    model: step.Model
    batches: Sequence[step.Batch]

    def step(self) -> None:
        """Forward, backward and update."""
        step.step(self.model, self.batches)

    def held(self) -> list[Tensor]:
        """All tensors that are there between two steps."""
        state = [t for kept in self.model.optimizer.state.values() for t in kept.values()]
        there = sizes.held(self.unet, self.model, self.batches)
        return [*there, *(t for t in state if isinstance(t, Tensor))]


def make(bundle: Bundle, base: BaseFacts, where: torch.device, random_weights: bool) -> Subject:
    """The model of a bundle on a device and the batches of one step.

    `random_weights`: only the base's sizes are taken, and where it is not here those of its
    family's published model. Raises LorakitError where it is not here and its weights are asked
    for.
    """
    family, dtype = family_of(bundle), DTYPES[bundle.train.precision]
    config = sizes.of(base.family, base.folder).unet
    if random_weights:
        unet = sizes.unet(config, dtype, where)
    elif base.folder is not None:
        unet = family.load_unet(base.folder, dtype).to(where)
    else:
        raise LorakitError(
            f"The base model {base.model} is not on this machine.",
            "Random weights of the same sizes take the same time and memory: --synthetic.",
        )
    return around(unet, config, bundle, bundle.dataset.resolution // base.latent_factor)


def around(unet: Any, config: dict[str, Any], bundle: Bundle, side: int) -> Subject:
    """A bundle's adapter on a UNet of this configuration, and latents of `side` cells a side."""
    family, dtype = family_of(bundle), DTYPES[bundle.train.precision]
    model = sizes.model(family, bundle, unet, sizes.attached(family, bundle, unet))
    size = (side, side)
    batches = [
        sizes.batch(config, bundle.train.batch_size, size, dtype, unet.device)
        for _ in range(bundle.train.accumulation)
    ]
    return Subject(unet=unet, model=model, batches=batches)
