"""How much memory a training may plan with: what is free now, less a reserve for what comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lorakit.hardware.facts import Accelerator, Hardware
from lorakit.planner.estimate import Part

Verdict = Literal["fits", "tight", "no"]

TIGHT = 0.05
"""Where less than this share of the budget is left, any surprise is one too many."""

OTHERS_GIB = 0.25
"""On any card: what programs that run now may yet take."""

SCREEN_GIB = 0.75
"""On a card that drives a screen: a browser with a few windows more."""

WINDOWS_GIB = 1.0
"""On Windows, WSL included: its driver moves memory to RAM without a word instead of refusing it,
and then a step takes ten times as long."""

SYSTEM_SHARE, SYSTEM_GIB = 0.1, (1.0, 8.0)
"""Of RAM, for the system and other programs: a share of all of it, within limits. A machine that
runs out of RAM ends programs, or swaps, instead of refusing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The memory of the device that trains, as far as a training may use it."""

    free_gib: float | None
    """Free now, as the driver or the system counts it. None: nobody could tell."""
    reserve: tuple[Part, ...]
    """What stays free, and for what."""

    @property
    def gib(self) -> float | None:
        """What a training may use."""
        if self.free_gib is None:
            return None
        return max(0.0, self.free_gib - self.reserve_gib)

    @property
    def reserve_gib(self) -> float:
        """All that stays free."""
        return sum(part.gib for part in self.reserve)

    @property
    def words(self) -> str:
        """The budget in a sentence."""
        if self.gib is None:
            return "Nobody could tell how much memory is free."
        parts = ", ".join(f"{part.gib:.2f} for {part.name}" for part in self.reserve)
        return f"{self.gib:.1f} of {self.free_gib:.1f} GiB free may be used. Kept free: {parts}."

    def verdict(self, peak_gib: float | None) -> Verdict | None:
        """Whether a peak fits. `tight`: with less than 5 % of the budget left. None: unknown."""
        if peak_gib is None or self.gib is None:
            return None
        if peak_gib > self.gib:
            return "no"
        return "tight" if peak_gib > self.gib * (1 - TIGHT) else "fits"


def budget(hardware: Hardware) -> Budget:
    """What a training on this machine may use: of its card's memory, or of its RAM without one."""
    card = hardware.accelerator
    if card is None:
        return Budget(free_gib=hardware.ram_free_gib, reserve=(_system(hardware.ram_total_gib),))
    if card.unified:
        free = _least(card.memory_free_gib, hardware.ram_free_gib)
        return Budget(free_gib=free, reserve=(_system(hardware.ram_total_gib),))
    return Budget(free_gib=card.memory_free_gib, reserve=tuple(_on_card(card, hardware)))


def _on_card(card: Accelerator, hardware: Hardware) -> list[Part]:
    parts = [Part(name="other programs", gib=OTHERS_GIB)]
    if card.display:
        parts.append(Part(name="the screen on this card", gib=SCREEN_GIB))
    if "WSL" in hardware.system or "Windows" in hardware.system:
        parts.append(Part(name="Windows", gib=WINDOWS_GIB))
    return parts


def _system(total_gib: float | None) -> Part:
    least, most = SYSTEM_GIB
    return Part(
        name="the system, which shares this memory",
        gib=min(most, max(least, SYSTEM_SHARE * (total_gib or 0.0))),
    )


def _least(*known: float | None) -> float | None:
    return min((k for k in known if k is not None), default=None)
