"""Small uses of one device, each with its result held against what is right.

Each raises where it does not work.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
"""PyTorch's kernels for attention, by the names of lorakit."""

ROUNDING = 0.03
"""How far attention in 16 bits may be from attention in fp32, for values up to 1."""

Attention = tuple[Tensor, Tensor, Tensor]


def _numbers(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Two matrices [64, 64] of -1, 0 and 1, and their product, exact in every precision."""
    count = torch.arange(64 * 64, dtype=torch.float32).reshape(64, 64)
    one, other = (count % 3) - 1, (count * 7 % 5).clamp(max=2) - 1
    return one.to(device), other.to(device), one @ other


def _same(found: Tensor, wanted: Tensor, tolerance: float = 0.0) -> None:
    worst = (found.float().cpu() - wanted).abs().max().item()
    if not worst <= tolerance:  # also where it is nan
        raise RuntimeError(f"a result is off by {worst:.3g}")


def multiply(device: torch.device, dtype: torch.dtype) -> None:
    """Multiply matrices in a precision, and hold the result against the CPU's."""
    one, other, product = _numbers(device)
    _same(one.to(dtype) @ other.to(dtype), product)


def multiply_fp8(device: torch.device) -> None:
    """The same in fp8 (e4m3) with scales, as far as PyTorch has an operator for it."""
    one, other, product = _numbers(device)
    scale = torch.ones((), device=device)
    found = torch._scaled_mm(
        one.to(torch.float8_e4m3fn),
        other.to(torch.float8_e4m3fn).t().contiguous().t(),
        scale,
        scale,
        out_dtype=torch.bfloat16,
    )
    _same(found, product)


def _attention_input(device: torch.device, dtype: torch.dtype) -> Attention:
    """Query, key and value [1, 2, 128, 64] that want gradients, as in training."""
    count = torch.arange(2 * 128 * 64, dtype=torch.float32).reshape(1, 2, 128, 64)

    def wave(length: float) -> Tensor:
        return torch.sin(count * length).to(device=device, dtype=dtype).requires_grad_()

    return wave(0.37), wave(0.71), wave(1.13)


def served(device: torch.device, dtype: torch.dtype) -> str:
    """Name of the kernel that PyTorch picks for attention, which has to run with it."""
    inputs = _attention_input(device, dtype)
    _attend(inputs)
    chosen = SDPBackend(torch._fused_sdp_choice(*inputs))
    return next((name for name, kernel in KERNELS.items() if kernel == chosen), "math")


def attend(device: torch.device, dtype: torch.dtype, backend: SDPBackend) -> None:
    """Attention by one kernel alone, forward and backward."""
    with sdpa_kernel(backend):
        _attend(_attention_input(device, dtype))


def _attend(inputs: Attention) -> None:
    out = F.scaled_dot_product_attention(*inputs)
    out.float().sum().backward()
    _same(out.detach(), _by_hand(inputs), ROUNDING)
    gradient = inputs[2].grad
    if gradient is None or not bool(gradient.isfinite().all()):
        raise RuntimeError("a gradient is not finite")


def _by_hand(inputs: Attention) -> Tensor:
    query, key, value = (tensor.detach().float().cpu() for tensor in inputs)
    return torch.softmax(query @ key.transpose(-1, -2) / 8, -1) @ value


def modules(
    device: torch.device, dtype: torch.dtype, compile_too: bool
) -> dict[str, Callable[[], Any]]:
    """What to use once, of what is installed."""
    found: dict[str, Callable[[], Any]] = {}
    if device.type != "cpu" and importlib.util.find_spec("xformers"):
        found["xformers"] = partial(_xformers, device, dtype)
    if device.type != "cpu" and importlib.util.find_spec("bitsandbytes"):
        found["bitsandbytes"] = partial(_bitsandbytes, device)
    if compile_too:
        found["compile"] = partial(_compile, device)
    return found


def _xformers(device: torch.device, dtype: torch.dtype) -> None:
    from xformers.ops import memory_efficient_attention

    inputs = _attention_input(device, dtype)
    # Its own order is [batch, tokens, heads, size].
    out = memory_efficient_attention(*(tensor.detach().transpose(1, 2) for tensor in inputs))
    _same(out.transpose(1, 2), _by_hand(inputs), ROUNDING)


def _bitsandbytes(device: torch.device) -> None:
    """One step of the 8-bit optimizer; smaller weights than 4096 stay in 32 bits."""
    from bitsandbytes.optim import AdamW8bit

    weight = torch.nn.Parameter(torch.ones(8192, device=device))
    optimizer = AdamW8bit([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()
    if not bool((weight < 1).all()):
        raise RuntimeError("an optimizer step did not move the weights")


def _compile(device: torch.device) -> None:
    compiled = torch.compile(lambda x: torch.sin(x) * 2 + x)
    given = torch.linspace(0, 1, 64)
    _same(compiled(given.to(device)), torch.sin(given) * 2 + given, 1e-5)
