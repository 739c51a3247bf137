"""What a training step computes, moves and launches, counted once and shipped as `costs.json`.

`python -m lorakit.train.costs` counts it. Operations and bytes are sums of a few products of batch,
area and rank, so a handful of counts gives every size: exactly for one picture, and within 5 % for
more, where the backward pass has a few more operations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lorakit.families.shipped import ASSETS

FILE = ASSETS / "costs.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What some operations come to."""

    flops: float = 0.0
    """Of matrix products, convolutions and attention; a multiplication and an addition are two."""
    bytes: float = 0.0
    """What all operations read and write, each tensor counted by each operation."""
    launches: float = 0.0
    """Operations that compute something; a view is none."""

    def __add__(self, other: Work) -> Work:
        return Work(
            flops=self.flops + other.flops,
            bytes=self.bytes + other.bytes,
            launches=self.launches + other.launches,
        )

    def __mul__(self, times: float) -> Work:
        return self.share(Work(flops=times, bytes=times, launches=times))

    def share(self, of: Work) -> Work:
        """Each of the three times that of another."""
        return Work(
            flops=self.flops * of.flops,
            bytes=self.bytes * of.bytes,
            launches=self.launches * of.launches,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """Work by size. The coefficients are those of `terms`."""

    flops: tuple[float, ...]
    bytes: tuple[float, ...]
    launches: float
    """The same at every size."""

    def at(self, batch: int, area: float, rank: int) -> Work:
        """The work for `batch` pictures of `area` cells of a latent, and an adapter's rank."""
        by = terms(batch, area, rank)
        return Work(
            flops=sum(c * t for c, t in zip(self.flops, by, strict=True)),
            bytes=sum(c * t for c, t in zip(self.bytes, by, strict=True)),
            launches=self.launches,
        )


def terms(batch: int, area: float, rank: int) -> tuple[float, ...]:
    """What work is a sum of: weights, captions, pictures, attention; and the adapter's share."""
    return 1.0, batch, batch * area, batch * area**2, rank, rank * batch, rank * batch * area


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """One UNet with an adapter in one precision."""

    forward: Law
    backward: Law
    recomputed: Work
    """Shares of the forward pass that full checkpointing does a second time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Clipping and the optimizer."""

    launches_a_tensor: float
    bytes_a_weight: float

    def of(self, tensors: int, weights: int) -> Work:
        """The work for so many trained tensors with so many weights in all."""
        return Work(bytes=self.bytes_a_weight * weights, launches=self.launches_a_tensor * tensors)


def costs(base: str, targets: str, precision: str) -> Costs | None:
    """Of a family's published model, or of `pico`; None for what nobody has counted."""
    found = _table()["unets"].get(base, {}).get(targets, {})
    found = found.get("fp32" if precision == "fp32" else "half")
    return found and Costs(
        forward=_law(found["forward"]),
        backward=_law(found["backward"]),
        recomputed=Work(**found["recomputed"]),
    )


def update(optimizer: str) -> Update:
    """Of an optimizer by its name in a bundle."""
    return Update(**_table()["optimizers"][optimizer])


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A VAE in fp32: bytes and operations for a pixel, launches for a picture."""

    encode: Work
    decode: Work


def picture(base: str) -> Picture:
    """Of `pico`, or of any other base."""
    found = _table()["vaes"]["pico" if base == "pico" else "sd"]
    return Picture(encode=Work(**found["encode"]), decode=Work(**found["decode"]))


def _law(found: Mapping[str, Any]) -> Law:
    return Law(flops=tuple(found["flops"]), bytes=tuple(found["bytes"]), launches=found["launches"])


@cache
def _table() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return read
