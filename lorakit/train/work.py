"""Counts what operations compute, move and launch, on any device, meta included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from lorakit.families.costs import Work

COPIES = ("aten::_unsafe_view", "aten::detach")
"""Views that do not say so."""


class Counter(TorchDispatchMode):
    """Adds up the work of all operations."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.bytes = self.launches = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        if made and not func.is_view and func._schema.name not in COPIES:
            read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
            self.launches += 1
            self.bytes += sum(map(_bytes, (*read, *made)))
            if count := flop_registry.get(func._overloadpacket):
                self.flops += count(*args, **kwargs, out_val=out)
        return out

    @property
    def work(self) -> Work:
        """What was counted."""
        return Work(flops=self.flops, bytes=self.bytes, launches=self.launches)


def _bytes(tensor: Tensor) -> int:
    """What reading a tensor takes: one that is expanded is no more than its storage."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def count(work: Callable[[], Any]) -> Work:
    """What a call computes, on any device."""
    with Counter() as counter:
        kept = work()
    del kept
    return counter.work
