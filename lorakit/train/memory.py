"""Counts what tensors hold: on the meta device, on a real one, and as the allocator saw it.

The first two are the same dispatch mode. On the meta device attention would take the plain path,
which keeps a matrix that no fused kernel keeps; `fused_attention` calls the fused operator instead.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True, slots=True)
class Count:
    """Bytes held by tensors that were made while counting, or given to the counter."""

    alive: int
    """Held at the end."""
    peak: int
    """The most held at once."""


class LiveStorages(TorchDispatchMode):
    """Adds up the storages that are alive. Views share a storage and count once."""

    def __init__(self, resident: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.alive = 0
        self.peak = 0
        self._known: set[int] = set()
        for tensor in resident:
            self._see(tensor)

    def _see(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self._known.add(key)
        self.alive += size
        self.peak = max(self.peak, self.alive)
        weakref.finalize(storage, self._gone, key, size)

    def _gone(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.alive -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._see(leaf)
        return out


FUSED = {
    "cpu": torch.ops.aten._scaled_dot_product_flash_attention_for_cpu,
    "cuda": torch.ops.aten._scaled_dot_product_flash_attention,
}
"""The operator behind `scaled_dot_product_attention` on each kind of device."""


@contextmanager
def fused_attention(device: str) -> Iterator[None]:
    """Attention on meta tensors keeps what the fused kernel of `device` (cpu, cuda) keeps.

    The function itself is replaced, because a function mode is not in force where gradient
    checkpointing recomputes a block in the backward pass.
    """
    plain, operator = F.scaled_dot_product_attention, FUSED[device]

    def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if query.is_meta:
            out: Tensor = operator(query, key, value, scale=kwargs.get("scale"))[0]
            return out
        return plain(query, key, value, *args, **kwargs)

    F.scaled_dot_product_attention = attention
    try:
        yield
    finally:
        F.scaled_dot_product_attention = plain


def count(work: Callable[[], Any], resident: Iterable[Tensor] = ()) -> Count:
    """Bytes of live storages while `work` runs, `resident` tensors included."""
    counter = LiveStorages(resident)
    with counter:
        kept = work()
    made = Count(counter.alive, counter.peak)
    del kept
    return made


def count_allocator(work: Callable[[], Any]) -> Count:
    """Bytes that the CPU allocator handed out beyond what was held before, as the profiler saw it.

    Scratch memory inside a kernel is in the peak, which no dispatch mode can see.
    """
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = work()
    assert profiler.profiler is not None
    events = profiler.profiler.kineto_results.events()
    moves = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    alive = peak = 0
    for _, size in sorted(moves, key=lambda m: m[0]):
        alive += size
        peak = max(peak, alive)
    del kept
    return Count(alive, peak)
