"""Memory that the CPU's kernels take while they work, which no tensor outside of them holds.

Convolutions go through oneDNN, which copies input, weight and output into an order of its own;
attention has buffers for each thread. Read off the allocator, for fp32; bf16 takes more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

SMALL = 20_480
"""Up to so many numbers in one picture, a convolution is computed as a product of matrices."""


def on_cpu(operator: Any, args: Any, out: Any) -> tuple[int, ...]:
    """Sizes of what an operator takes beside what goes in and comes out, in bytes."""
    if operator is aten.convolution.default:
        return _convolution(args[0], args[1], out)
    if operator is aten.convolution_backward.default and out[0] is not None:
        gradient, into, weight = args[:3]
        return _convolution(gradient, weight, out[0], into)
    if operator is aten._scaled_dot_product_flash_attention_for_cpu.default:
        return (_threads() * 4 * _block(args[0], args[1], passes=1),)
    if operator is aten._scaled_dot_product_flash_attention_for_cpu_backward.default:
        return (_threads() * 4 * _block(args[1], args[2], passes=2),)
    return ()


def _convolution(
    source: Tensor, weight: Tensor, out: Tensor, into: Tensor | None = None
) -> tuple[int, ...]:
    """`into` is the input whose gradient is computed; None: this is the forward pass."""
    given = source if into is None else into
    if weight[0, 0].numel() == 1 and _threads() == 1 and len(given) < 16:
        return ()
    if len(given) == 1 and given.numel() <= SMALL:
        pixels = (source if into is not None else out)[0, 0].numel()
        return (weight[0].numel() * pixels * given.itemsize,)
    # The result is copied out once the copies of input and weight are gone.
    return max((source.nbytes, weight.nbytes), (out.nbytes,), key=sum)


def _block(query: Tensor, key: Tensor, passes: int) -> int:
    """Numbers in the buffers of one thread: a block of all pairs, once or twice, and its rows."""
    length = query.shape[-2]
    rows = min(length, 256 if length >= 768 else 64 if length >= 192 else 32)
    block = rows * min(512, key.shape[-2])
    return block + rows * (2 + query.shape[-1]) if passes == 1 else 2 * block + rows


def _threads() -> int:
    return torch.get_num_threads()
