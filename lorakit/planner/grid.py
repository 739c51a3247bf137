"""What else would fit: other ranks, batches and checkpointing than a bundle's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lorakit.bundle.models import Bundle
from lorakit.families.base_model import BaseFacts
from lorakit.families.blocks import units
from lorakit.hardware.facts import Hardware
from lorakit.planner.budget import Verdict, budget
from lorakit.planner.memory import phases

RANKS = (4, 16, 32, 64, 128, 256)
BATCHES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination, all else as the bundle has it."""

    rank: int
    checkpointing: str | int
    batch: int
    gib: float | None
    """Predicted peak; None: the table does not hold it."""
    verdict: Verdict | None
    own: bool
    """Whether it is the bundle's."""


def grid(bundle: Bundle, base: BaseFacts | None, hardware: Hardware) -> tuple[Cell, ...]:
    """Every combination of some ranks, some checkpointing and some batches, the bundle's own among
    them: by rank, then checkpointing, then batch."""
    return tuple(
        _cell(bundle, base, hardware, rank, checkpointing, batch)
        for rank in _with(RANKS, bundle.adapter.rank)
        for checkpointing in _checkpointings(bundle, base)
        for batch in _with(BATCHES, bundle.train.batch_size)
    )


def _cell(
    bundle: Bundle,
    base: BaseFacts | None,
    hardware: Hardware,
    rank: int,
    checkpointing: str | int,
    batch: int,
) -> Cell:
    way = bundle.model_copy(
        update={
            "adapter": bundle.adapter.model_copy(update={"rank": rank}),
            "memory": bundle.memory.model_copy(update={"checkpointing": checkpointing}),
            "train": bundle.train.model_copy(update={"batch_size": batch}),
        }
    )
    gib = max((phase.gib for phase in phases(way, base, hardware) or ()), default=None)
    return Cell(
        rank=rank,
        checkpointing=checkpointing,
        batch=batch,
        gib=gib,
        verdict=budget(hardware).verdict(gib),
        own=way == bundle,
    )


def _with(usual: tuple[int, ...], own: int) -> list[int]:
    """The usual values, with a bundle's own in the place of the nearest."""
    if own in usual:
        return list(usual)
    nearest = min(usual, key=lambda value: abs(value - own))
    return sorted({*usual, own} - {nearest})


def _checkpointings(bundle: Bundle, base: BaseFacts | None) -> list[Any]:
    """None, half of the blocks or the bundle's own number of them, and all."""
    own = bundle.memory.checkpointing
    blocks = len(units(base.unet)) if base and base.unet else 0
    some = [own] if isinstance(own, int) else [blocks // 2] if blocks > 2 else []
    return ["none", *some, "full"]
