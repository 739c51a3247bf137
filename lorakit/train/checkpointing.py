"""Gradient checkpointing: which parts of a UNet are computed again in the backward pass.

diffusers has it on or off for a whole model. Here each part on the list of `families/blocks.py` is
wrapped by itself, so that the first n of them recompute and all others keep what they computed.
The numbers that come out are the same to the bit: the same kernels run on the same inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from lorakit.bundle.models import Checkpointing
from lorakit.errors import LorakitError
from lorakit.families import blocks


def apply(unet: Any, wanted: Checkpointing, targets: str) -> int:
    """Let as many blocks of a UNet recompute as are wanted, and no others; returns how many.

    `targets` are those of its adapter. May be called again with another number. Raises LorakitError
    where there are not that many, or where the UNet is not built as its configuration says.
    """
    parts = dict(unet.named_modules())
    for part in parts.values():
        if getattr(part.__dict__.get("forward"), "func", None) is _recomputed:
            del part.forward  # leaves the one of its class
    if wanted == "none":
        return 0
    units = blocks.units(unet.config, targets)
    number = len(units) if wanted == "full" else wanted
    if number > len(units):
        raise LorakitError(*blocks.too_many(number, len(units)))
    if absent := [unit.name for unit in units if unit.name not in parts]:
        raise LorakitError(
            f"This UNet has no {absent[0]}, so nobody knows which of its blocks can recompute.",
            'Set memory.checkpointing = "none".',
        )
    for unit in units[:number]:
        part = parts[unit.name]
        part.forward = functools.partial(_recomputed, part, part.forward)
    return number


def _recomputed(part: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Compute now, keep nothing but the inputs, and compute again when gradients are asked for."""
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(
        forward, *args, use_reentrant=False, preserve_rng_state=_draws(part), **kwargs
    )


def _draws(part: nn.Module) -> bool:
    """Whether a part draws random numbers, which the second pass has to draw alike.

    None of the families does. Looking costs less than reading the state of the generators.
    """
    return any(m.training and m.p > 0 for m in part.modules() if isinstance(m, nn.Dropout))
