"""A model with its adapter and one batch of random numbers, on any device.

What a step takes in time and memory follows from shapes and dtypes, never from what the numbers
are: so a benchmark needs neither pictures nor, where it makes up the weights too, a download.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lorakit.bundle.models import Bundle
from lorakit.errors import LorakitError
from lorakit.families.base_model import BaseFacts
from lorakit.families.families import FAMILIES
from lorakit.train import device as devices
from lorakit.train import optim
from lorakit.train.adapters import lora
from lorakit.train.families import family_of
from lorakit.train.families.stable_diffusion import DTYPES
from lorakit.train.objective import Objective
from lorakit.train.step import Batch, Conditions, Model

STD = 0.02
"""Of made-up weights: small enough that nothing overflows in fp16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What one step works on."""

    unet: Any
    model: Model
    batches: list[Batch]

    def resident(self) -> list[Tensor]:
        """All tensors that are there before a step, without the optimizer's state."""
        objective = self.model.objective
        held = [*self.unet.parameters(), *self.unet.buffers()]
        held += [objective.signal, objective.noise, objective.weights]
        for batch in self.batches:
            told = batch.conditions
            held += [batch.latents, batch.noise, batch.timesteps]
            held += [t for t in (told.hidden, told.pooled, told.sizes) if t is not None]
        return held


def make(
    bundle: Bundle,
    base: BaseFacts,
    where: torch.device,
    random_weights: bool,
    size: Literal["real", "tiny"] = "real",
) -> Subject:
    """The model of a bundle on a device, which may be meta, and the batches of one step.

    `random_weights`: only the base's sizes are taken, and where it is not here those of its
    family's published model, or of a `tiny` one with the same parts. Raises LorakitError where it
    is not here and its weights are asked for.
    """
    family, dtype = family_of(bundle), DTYPES[bundle.train.precision]
    if base.folder is None:
        if not random_weights:
            raise LorakitError(
                f"The base model {base.model} is not on this machine.",
                "Random weights of the same sizes measure the same: --synthetic.",
            )
        config = family.real() if size == "real" else family.tiny()
        schedule = torch.linspace(0.00085**0.5, 0.012**0.5, 1000).square()
        alphas = (1 - schedule).cumprod(0)
    else:
        config = json.loads((base.folder / "unet" / "config.json").read_text("utf-8"))
        alphas = family.alphas_cumprod(base.folder)
    if base.folder is None or random_weights or where.type == "meta":
        unet = random_unet(config, dtype, where)
    else:
        unet = family.load_unet(base.folder, dtype).to(where)
    weights = lora.attach(unet, FAMILIES[bundle.base.family], bundle.adapter, bundle.train.seed)
    devices.trade(unet, bundle.memory)
    model = Model(
        family.predictor(unet, dtype),
        weights,
        Objective.of(alphas.to(where), base.prediction, bundle.loss.snr_gamma),
        optim.optimizer(bundle.train, weights),
        optim.scaler(bundle.train, where),
        bundle.train.clip_norm,
    )
    side = bundle.dataset.resolution // base.latent_factor
    batches = [
        random_batch(config, bundle.train.batch_size, side, dtype, where)
        for _ in range(bundle.train.accumulation)
    ]
    return Subject(unet=unet, model=model, batches=batches)


def random_unet(config: Mapping[str, Any], dtype: torch.dtype, where: torch.device) -> Any:
    """A frozen UNet of a configuration, its weights made up where they lie: fp32 copies of them
    are nowhere, and nothing travels."""
    from diffusers import UNet2DConditionModel

    sizes = {k: v for k, v in config.items() if not k.startswith("_")}
    with torch.device("meta"):
        unet = UNet2DConditionModel(**sizes)
    for weight in unet.parameters():
        weight.data = weight.data.to(dtype)
    if where.type != "meta":
        unet = unet.to_empty(device=where)
        for weight in unet.parameters():
            _fill(weight)
    return unet.eval().requires_grad_(False)


@torch.no_grad()
def _fill(weight: nn.Parameter) -> None:
    """Matrices get small numbers; a vector is a bias or the scale of a norm: near 1 does both."""
    if weight.ndim > 1:
        weight.normal_(std=STD)
    else:
        weight.fill_(1.0)


def random_batch(
    config: Mapping[str, Any], count: int, side: int, dtype: torch.dtype, where: torch.device
) -> Batch:
    """`count` made-up pictures of `side` latents, with captions of 77 tokens."""
    shape = (count, config.get("in_channels", 4), side, side)
    hidden = torch.randn(count, 77, config["cross_attention_dim"], device=where).to(dtype)
    told = Conditions(hidden)
    if config.get("addition_embed_type") == "text_time":
        width = config["projection_class_embeddings_input_dim"]
        width -= 6 * config["addition_time_embed_dim"]
        pooled = torch.randn(count, width, device=where).to(dtype)
        told = Conditions(hidden, pooled, torch.full((count, 6), 1024.0, device=where))
    return Batch(
        torch.randn(shape, device=where),
        torch.randn(shape, device=where),
        torch.randint(1000, (count,), device=where),
        told,
    )
