"""What a training will take: memory in parts for each phase, time, and disk.

Pure, and quick enough to be asked for every setting that might be recommended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from lorakit.bundle.models import Bundle
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.hardware.facts import Hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that takes memory."""

    name: str
    """Such as `base weights`, `adapter`, `gradients`, `optimizer`, `activations`, `workspace`,
    `context`, `allocator`."""
    gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What is in memory at the worst moment of one phase."""

    name: Literal["caching", "training", "sampling"]
    parts: tuple[Part, ...]

    @property
    def gib(self) -> float:
        """All parts together."""
        return sum(part.gib for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range in which a number is expected to lie."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Between the two, by ratio."""
        return math.sqrt(self.low * self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a training is predicted to take. None is unknown."""

    phases: tuple[Phase, ...] = ()
    """Memory of the device that trains."""
    step_seconds: Span | None = None
    """One optimizer step, with all its accumulation."""
    total_seconds: Span | None = None
    """From start to end, with caching and samples."""
    disk_bytes: int | None = None
    source: Literal["table", "dry run"] = "table"
    """Where the memory is from: fitted coefficients, or this very step on the meta device."""

    @property
    def peak(self) -> Phase | None:
        """The phase that takes most."""
        return max(self.phases, key=lambda phase: phase.gib, default=None)

    @property
    def peak_gib(self) -> float | None:
        """Most memory at once."""
        return self.peak.gib if self.peak else None


def estimate(
    bundle: Bundle, base: BaseFacts | None, report: DatasetReport | None, hardware: Hardware
) -> Estimate:
    """What a training of this bundle takes on this machine, as far as it can be told."""
    from lorakit.planner import disk, memory, time  # they answer in the shapes above

    cached = disk.cache_bytes(bundle, base, report) if report else 0
    return Estimate(
        phases=memory.phases(bundle, base, hardware) or (),
        step_seconds=time.step_seconds(bundle, base, hardware),
        total_seconds=time.total_seconds(bundle, base, report, hardware),
        disk_bytes=disk.needed_bytes(bundle, base) + cached,
    )
