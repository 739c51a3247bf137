"""Notices a driver that moves video memory into the machine's instead of failing.

The drivers for Windows do that, inside WSL too: training goes on, many times slower.
"""

from __future__ import annotations

from lorakit.runs.events import Sensed

TIMES = 3.0
"""A step that takes this many times longer is no accident."""

FULL = 0.97
"""Share of the memory from which it counts as full."""


def full(sensed: Sensed | None) -> bool:
    """Whether a card's memory is taken, by this training or by others with it."""
    if sensed is None or sensed.memory_of != "VRAM" or not sensed.memory_total_gib:
        return False
    held = sensed.memory_gib or 0.0
    if sensed.memory_free_gib is not None:
        held = max(held, sensed.memory_total_gib - sensed.memory_free_gib)
    return held >= FULL * sensed.memory_total_gib


def words(times: float) -> str:
    """What there is to say of it."""
    return (
        f"speed fell {times:.0f}x while video memory is full: it probably spills into system RAM. "
        "Lower the batch size, or turn off the driver's sysmem fallback policy"
    )
