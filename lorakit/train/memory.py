"""Counts what tensors hold: on the meta device, on a real one, and as the allocator saw it.

The first two are the same dispatch mode. On the meta device attention would take the plain path,
which keeps a matrix that no fused kernel keeps; `attention_of` calls the operator of a fused kernel
instead.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
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


Scratch = Callable[[Any, Any, Any], tuple[int, ...]]
"""(operator, arguments, what came out) to sizes of what was taken only in between, in bytes."""


class LiveStorages(TorchDispatchMode):
    """Adds up the storages that are alive. Views share a storage and count once."""

    def __init__(self, resident: Iterable[Tensor] = (), scratch: Scratch | None = None) -> None:
        super().__init__()
        self._scratch = scratch
        self.alive = 0
        self.peak = 0
        self.gradients = 0
        """Bytes of `alive` that are gradients, if `watch` was told of the weights."""
        self.peak_gradients = 0
        """The same when `peak` was reached."""
        self._known: dict[int, weakref.ref] = {}
        self._hooks: list[Any] = []
        for tensor in resident:
            self.see(tensor)

    def watch(self, weights: Iterable[nn.Parameter]) -> None:
        """Tell the gradients of these weights, which have none yet, from other tensors."""
        for weight in weights:
            self._hooks.append(weight.register_post_accumulate_grad_hook(self._accumulated))

    def __exit__(self, *told: Any) -> None:
        while self._hooks:
            self._hooks.pop().remove()
        super().__exit__(*told)

    def _accumulated(self, weight: Tensor) -> None:
        if weight.grad is not None:
            self.gradients += weight.grad.untyped_storage().nbytes()

    def see(self, tensor: Tensor) -> None:
        """Count a tensor's storage, if it is not yet, for as long as it lives."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self._known[key] = weakref.ref(storage, lambda _: self._lost(key, size))
        self.made(size)

    def _lost(self, key: int, size: int) -> None:
        del self._known[key]
        self.gone(size)

    def made(self, size: int) -> None:
        """A storage of this many bytes is there."""
        self.alive += size
        if self.alive > self.peak:
            self.peak, self.peak_gradients = self.alive, self.gradients

    def gone(self, size: int) -> None:
        """A storage of this many bytes was freed."""
        self.alive -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = _result(func, args, kwargs or {})
        if _allocates(func):
            for leaf in (out,) if isinstance(out, Tensor) else tree_leaves(out):
                if isinstance(leaf, Tensor):
                    self.see(leaf)
            if self._scratch is not None:
                sizes = self._scratch(func, args, out)
                for size in sizes:
                    self.made(size)
                for size in sizes:
                    self.gone(size)
        return out


@cache
def _allocates(operator: Any) -> bool:
    """False where all that comes out of an operator shares memory with what went in."""
    if operator is torch.ops.aten.lift_fresh.default:
        return True  # a constant of Python's that nobody has seen before
    return any(r.alias_info is None for r in operator._schema.returns)


_METADATA: dict[Any, Any] = {}
"""What came out of operators on meta, by what went in: a model's blocks are mostly alike."""


def _result(operator: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What an operator gives. On meta much of it runs in Python, so what was seen before is made
    anew from its sizes alone."""
    if not _is_pure(operator):
        return operator(*args, **kwargs)
    try:
        key = (operator, _described(args), _described(tuple(kwargs.items())))
        known = _METADATA.get(key)
    except TypeError:  # nothing that can be looked up, such as a generator
        return operator(*args, **kwargs)
    if known is None:
        out = operator(*args, **kwargs)
        # Some views say in their schema that they are none.
        shares = _storages(out) & _storages((args, kwargs))
        _METADATA[key] = False if shares else _remade(out) or False
        return out
    return known() if known else operator(*args, **kwargs)


@cache
def _is_pure(operator: Any) -> bool:
    """Whether it changes nothing, and what comes out shares no memory with what goes in."""
    schema = operator._schema
    return not any(a.alias_info for a in (*schema.arguments, *schema.returns))


def _storages(value: Any) -> set[int]:
    return {
        leaf.untyped_storage()._cdata for leaf in tree_leaves(value) if isinstance(leaf, Tensor)
    }


def _described(value: Any) -> Any:
    """What can be known of the arguments without their numbers. Raises TypeError for what cannot be
    looked up."""
    if isinstance(value, Tensor):
        if not value.is_meta:
            raise TypeError
        return (value.dtype, value.shape, value.stride())
    if isinstance(value, (list, tuple)):
        return tuple(_described(one) for one in value)
    # 1, 1.0 and True are one key of a dictionary, and give other types.
    return (type(value), value)


def _remade(out: Any) -> Callable[[], Any] | None:
    """Makes the like of what came out; None where sizes do not tell all of it."""
    if isinstance(out, Tensor):
        size, stride, dtype = out.size(), out.stride(), out.dtype
        like = torch.empty_strided(size, stride, dtype=dtype, device="meta")
        if not out.is_meta or like.untyped_storage().nbytes() != out.untyped_storage().nbytes():
            return None
        return lambda: torch.empty_strided(size, stride, dtype=dtype, device="meta")
    if isinstance(out, (list, tuple)):
        parts = [_remade(one) for one in out]
        if any(part is None for part in parts):
            return None
        kind = type(out)
        return lambda: kind(part() for part in parts if part is not None)
    return (lambda: out) if out is None or isinstance(out, (bool, int, float)) else None


Kernel = Literal["flash", "efficient", "cpu", "math"]
"""What computes attention: one of the fused kernels, of which the last but one is that of the CPU,
or plain operators, which keep a matrix of all pairs."""


def _efficient(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: Any) -> Any:
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, None, torch.is_grad_enabled(), 0.0, causal, scale=scale
    )


def _flash(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: Any) -> Any:
    return torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, 0.0, causal, scale=scale
    )


def _cpu(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: Any) -> Any:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, scale=scale
    )


FUSED = {"flash": _flash, "efficient": _efficient, "cpu": _cpu}
"""The operators behind `scaled_dot_product_attention`; the output comes first."""


@contextmanager
def attention_of(kernel: Kernel) -> Iterator[None]:
    """Attention on meta tensors keeps what a kernel keeps.

    The function itself is replaced, because a function mode is not in force where gradient
    checkpointing recomputes a block in the backward pass.
    """
    plain = F.scaled_dot_product_attention
    fused = FUSED.get(kernel)

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        **more: Any,
    ) -> Tensor:
        if fused is None or attn_mask is not None or not query.is_meta:
            return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **more)
        out: Tensor = fused(query, key, value, is_causal, scale)[0]
        return out

    F.scaled_dot_product_attention = attention  # type: ignore[assignment]
    try:
        yield
    finally:
        F.scaled_dot_product_attention = plain


@contextmanager
def undisturbed() -> Iterator[None]:
    """No collection of cycles meanwhile: it frees what others left, and never at the same place."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def count(work: Callable[[], Any], resident: Iterable[Tensor] = ()) -> Count:
    """Bytes of live storages while `work` runs, `resident` tensors included."""
    counter = LiveStorages(resident)
    with undisturbed(), counter:
        kept = work()
    made = Count(counter.alive, counter.peak)
    del kept
    return made


def count_allocator(work: Callable[[], Any]) -> Count:
    """Bytes that the CPU allocator handed out beyond what was held before, as the profiler saw it.

    Scratch memory inside a kernel is in the peak, which no dispatch mode can see.
    """
    from torch.profiler import ProfilerActivity, profile

    cpu = [ProfilerActivity.CPU]
    with undisturbed(), profile(activities=cpu, profile_memory=True) as profiler:
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
