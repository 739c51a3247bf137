"""LoRA through PEFT: fp32 weights, computed in the dtype of what flows through the model.

Plain PEFT casts the input of each layer to fp32 and keeps that copy for the backward pass. Here
the two small matrices are cast instead: SDXL at 1024, rank 16, bf16 then needs 10.4 GiB, not 12.4.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from peft import LoraConfig
from peft.tuners.lora.layer import LoraLayer
from torch import Tensor, nn
from torch.nn import functional as F

from lorakit.bundle.models import Adapter
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.families import Family
from lorakit.train import draws

NAME = "lorakit"
"""The adapter's name inside the model; it is in no file."""


class _Linear(nn.Linear):
    """A linear layer whose fp32 weight is used in the dtype of its input."""

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight.to(input.dtype))


class _Conv2d(nn.Conv2d):
    """A convolution whose fp32 weight is used in the dtype of its input."""

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight.to(input.dtype), None)


def attach(unet: Any, family: Family, adapter: Adapter, seed: int) -> list[nn.Parameter]:
    """Put LoRA layers around the targets of a frozen UNet; returns their weights, fp32.

    The first matrix is drawn from (seed, module), Kaiming uniform as the LoRA paper's code has it;
    the second is zero, so that the model starts unchanged.
    """
    names = family.adapted((n for n, _ in unet.named_modules()), adapter.targets)
    if not names:
        raise LorakitError(
            f"No layer of this model is among the targets {adapter.targets}.",
            "Is the base model of the family that the bundle names?",
            ExitCode.USAGE,
        )
    unet.requires_grad_(False)
    unet.add_adapter(
        LoraConfig(
            r=adapter.rank,
            lora_alpha=adapter.alpha,
            target_modules=names,
            init_lora_weights=False,
        ),
        NAME,
    )
    for name, layer in layers(unet).items():
        layer.cast_input_dtype_enabled = False
        for pair in (layer.lora_A, layer.lora_B):
            pair[NAME] = _casting(pair[NAME])
        down, up = layer.lora_A[NAME].weight, layer.lora_B[NAME].weight
        with torch.no_grad():
            up.zero_()
            if not down.is_meta:
                bound = 1 / math.sqrt(down[0].numel())
                drawn = torch.rand(down.shape, generator=draws.generator(seed, "init", name))
                down.copy_((drawn * 2 - 1) * bound)
    weights = [p for p in unet.parameters() if p.requires_grad]
    if len(layers(unet)) != len(names):
        raise RuntimeError(f"{len(names)} layers were meant, {len(layers(unet))} are adapted")
    return weights


def _casting(made: nn.Module) -> nn.Module:
    """The same layer with the same weight, in fp32, that casts when it computes."""
    if isinstance(made, nn.Linear):
        cast: nn.Module = _Linear(made.in_features, made.out_features, bias=False, device="meta")
    elif isinstance(made, nn.Conv2d):
        cast = _Conv2d(
            made.in_channels,
            made.out_channels,
            made.kernel_size,  # type: ignore[arg-type]
            made.stride,  # type: ignore[arg-type]
            made.padding,  # type: ignore[arg-type]
            bias=False,
            device="meta",
        )
    else:
        raise TypeError(f"no LoRA for {type(made).__name__}")
    cast.weight = nn.Parameter(made.weight.detach().float())
    return cast


def layers(unet: nn.Module) -> dict[str, LoraLayer]:
    """The adapted layers by module name, sorted; the same names in a compiled or wrapped model."""
    found = {_bare(n): m for n, m in unet.named_modules() if isinstance(m, LoraLayer)}
    return dict(sorted(found.items()))


def count(unet: nn.Module, name: str) -> int:
    """Layers that have an adapter of this name."""
    return sum(name in layer.lora_A for layer in layers(unet).values())


def _bare(name: str) -> str:
    """A module's name without what torch.compile and DistributedDataParallel put into it."""
    return ".".join(part for part in name.split(".") if part not in ("_orig_mod", "module"))


def live(unet: nn.Module) -> dict[str, tuple[Tensor, Tensor]]:
    """(down [rank, in, ...], up [out, rank, ...]) of each adapted module: the weights trained."""

    def held(pair: nn.ModuleDict) -> Tensor:
        weight: Tensor = pair[NAME].weight  # type: ignore[assignment]
        return weight.detach()

    return {n: (held(layer.lora_A), held(layer.lora_B)) for n, layer in layers(unet).items()}


def matrices(unet: nn.Module) -> dict[str, tuple[Tensor, Tensor]]:
    """Copies of the weights trained, fp32, on the CPU."""

    def copy(weight: Tensor) -> Tensor:
        return weight.to("cpu", torch.float32, copy=True).contiguous()

    return {n: (copy(down), copy(up)) for n, (down, up) in live(unet).items()}


def names(unet: nn.Module) -> list[str]:
    """The trained weights' names, in the order in which `attach` returns them."""
    return [_bare(name) for name, weight in unet.named_parameters() if weight.requires_grad]
