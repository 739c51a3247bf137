"""Random draws as pure functions of (seed, purpose, epoch or step, sample).

No draw depends on how many were made before it, so a resumed run draws what an unbroken one would.
All are made on the CPU: the same numbers on every device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

Place = str | int
"""What names a draw: a purpose in words, an epoch, a step, a sample's index."""


def generator(seed: int, *place: Place) -> torch.Generator:
    """The generator of one draw."""
    name = "/".join(str(p) for p in (seed, *place)).encode()
    number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
    return torch.Generator().manual_seed(number)


def normal(shape: Sequence[int], seed: int, *place: Place) -> torch.Tensor:
    """Standard normal numbers of `shape`, fp32, on the CPU."""
    return torch.randn(tuple(shape), generator=generator(seed, *place))


def integer(below: int, seed: int, *place: Place) -> int:
    """A whole number in 0..below-1."""
    return int(torch.randint(below, (), generator=generator(seed, *place)))


def order(count: int, seed: int, *place: Place) -> torch.Tensor:
    """A permutation of 0..count-1, int64."""
    return torch.randperm(count, generator=generator(seed, *place))
