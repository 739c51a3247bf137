"""Models of real sizes without their weights: on meta for the dry run, random anywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lorakit.bundle.models import Bundle
from lorakit.families import components
from lorakit.families.families import FAMILIES
from lorakit.families.shipped import configuration
from lorakit.train import checkpointing, device, optim
from lorakit.train.adapters import lora
from lorakit.train.families.stable_diffusion import StableDiffusion
from lorakit.train.objective import Objective
from lorakit.train.step import DTYPES, Batch, Conditions, Model


@dataclass(frozen=True, slots=True)
class Sizes:
    """The configurations of a base's parts."""

    unet: dict[str, Any]
    vae: dict[str, Any]
    texts: tuple[dict[str, Any], ...]
    """Of each text encoder, in the order of the pipeline."""

    @property
    def latent_factor(self) -> int:
        """Pixels of a picture on one side of a latent."""
        return 2 ** (len(self.vae["block_out_channels"]) - 1)


def of(family: str, base: Path | None = None) -> Sizes:
    """The sizes of a base by its folder or file, or of the family's published model."""
    encoders = [part for _, part in FAMILIES[family].text]

    def read(part: str) -> dict[str, Any]:
        found = components.config(base, part) if base else configuration(family, part)
        return {k: v for k, v in found.items() if not k.startswith("_")}

    return Sizes(read("unet"), read("vae"), tuple(read(part) for part in encoders))


def unet(config: Mapping[str, Any], dtype: torch.dtype, where: torch.device | str) -> Any:
    """A frozen UNet with random weights, or with none on meta.

    They are made where they lie and in their dtype: nothing travels, and no fp32 copy is made.
    """
    from diffusers import UNet2DConditionModel

    with torch.device("meta"):
        made = UNet2DConditionModel(**config)
    torch.nn.Module.to(made, dtype)
    if torch.device(where).type != "meta":
        made.to_empty(device=where)
        for weight in made.parameters():
            _fill(weight)
    return made.eval().requires_grad_(False)


@torch.no_grad()
def _fill(weight: torch.nn.Parameter) -> None:
    """Matrices get numbers so small that fp16 does not overflow; a vector is a bias or the scale
    of a norm, and 1 does for both."""
    if weight.ndim > 1:
        weight.normal_(std=0.02)
    else:
        weight.fill_(1.0)


def model(
    family: StableDiffusion, bundle: Bundle, made: Any, weights: list[torch.nn.Parameter]
) -> Model:
    """What a step works on, around a UNet with an adapter whose `weights` are trained.

    Blocks recompute as the bundle wants. Attention on meta is for `memory.attention_of` to choose.
    """
    where = weights[0].device
    checkpointing.apply(made, bundle.memory.checkpointing, bundle.adapter.targets)
    if where.type != "meta":
        device.attend(made, bundle.memory.attention)
    schedule = torch.linspace(0.999, 0.005, 1000, device=where)
    return Model(
        family.predictor(made, DTYPES[bundle.train.precision]),
        weights,
        Objective.of(schedule, "epsilon", bundle.loss.snr_gamma),
        optim.optimizer(bundle.train, weights),
        optim.scaler(bundle.train, where),
        bundle.train.clip_norm,
    )


def attached(family: StableDiffusion, bundle: Bundle, made: Any) -> list[torch.nn.Parameter]:
    """Put the bundle's adapter on a UNet; returns its weights."""
    return lora.attach(made, family.facts, bundle.adapter, bundle.train.seed)


def batch(
    config: Mapping[str, Any],
    pictures: int,
    size: tuple[int, int],
    dtype: torch.dtype,
    where: torch.device | str,
) -> Batch:
    """Random pictures for a UNet of this configuration; `size` is height and width of latents."""
    shape = (pictures, config.get("in_channels", 4), *size)
    return Batch(
        torch.randn(shape, device=where),
        torch.randn(shape, device=where),
        torch.arange(pictures, device=where) % 1000,
        conditions(config, pictures, dtype, where),
    )


TOKENS = 77
"""Hidden states of a caption."""


def conditions(
    config: Mapping[str, Any], pictures: int, dtype: torch.dtype, where: torch.device | str
) -> Conditions:
    """Random captions, and with them vectors and sizes where the model is told of any."""
    width = config["cross_attention_dim"]
    hidden = torch.randn((pictures, TOKENS, width), device=where).to(dtype)
    if config.get("addition_embed_type") != "text_time":
        return Conditions(hidden)
    inner = config["addition_time_embed_dim"]
    pooled_width = config["projection_class_embeddings_input_dim"] - 6 * inner
    pooled = torch.randn((pictures, pooled_width), device=where).to(dtype)
    return Conditions(hidden, pooled, torch.full((pictures, 6), 64.0, device=where))


def given(one: Batch) -> list[Tensor]:
    """All tensors of a batch."""
    told = (one.conditions.hidden, one.conditions.pooled, one.conditions.sizes)
    return [one.latents, one.noise, one.timesteps, *(t for t in told if t is not None)]


def held(made: Any, model: Model, batches: Sequence[Batch]) -> list[Tensor]:
    """All tensors that are there before a step: weights, tables and what the step is given."""
    tables = (model.objective.signal, model.objective.noise, model.objective.weights)
    inputs = [tensor for one in batches for tensor in given(one)]
    return [*made.parameters(), *made.buffers(), *tables, *inputs]
