"""Which kernel PyTorch's attention chooses for the sizes that a training has."""

from __future__ import annotations

import torch

from lorakit.bundle.models import Bundle
from lorakit.families import attention, components
from lorakit.families.attention import Attention
from lorakit.families.base_model import BaseFacts
from lorakit.train.step import DTYPES

KERNELS = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}
"""By the number that PyTorch answers with; on a CPU flash is a kernel of the CPU's own."""


def kernel(bundle: Bundle, base: BaseFacts, device: torch.device) -> str:
    """What serves the training of a bundle: `flash`, or several such as `efficient + flash`.

    Empty where PyTorch does not tell, where another library's attention is used, and where the
    base is not here.
    """
    if bundle.memory.attention != "sdpa" or base.folder is None:
        return ""
    config = components.config(base.folder, "unet")
    side = bundle.dataset.resolution // base.latent_factor
    sizes = attention.sizes(config, side, base.token_limit + 2)
    batch, dtype = bundle.train.batch_size, DTYPES[bundle.train.precision]
    chosen = {_chosen(size, batch, dtype, device) for size in sizes}
    return "" if "" in chosen else " + ".join(sorted(chosen))


def _chosen(size: Attention, batch: int, dtype: torch.dtype, device: torch.device) -> str:
    """The kernel for one size, asked with tensors that lie in memory as the UNet's do."""

    def made(tokens: int) -> torch.Tensor:
        flat = torch.empty(batch, tokens, size.heads, size.width, dtype=dtype, device=device)
        return flat.transpose(1, 2).requires_grad_()

    keys = made(size.keys)
    try:
        told = torch._fused_sdp_choice(made(size.queries), keys, keys)
    except (AttributeError, RuntimeError):  # a device that has no choice, or another PyTorch
        return ""
    return KERNELS.get(told, "")
