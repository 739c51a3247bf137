"""Every way to train one bundle that the model of memory prices, and which of them is best.

What is varied leaves what is learned as it is, or nearly so: how much is computed again, how the
pictures of a step are split, the precision, and the optimizer. The effective batch stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lorakit.bundle.models import Bundle
from lorakit.families.base_model import BaseFacts, is_small
from lorakit.hardware.facts import Hardware
from lorakit.planner.budget import Budget, Verdict
from lorakit.planner.estimate import Phase, Span
from lorakit.planner.memory import phases
from lorakit.planner.time import recomputed_shares, step_seconds

CHECKPOINTING, BATCH, ACCUMULATION = (
    "memory.checkpointing",
    "train.batch_size",
    "train.accumulation",
)
PRECISION, OPTIMIZER = "train.precision", "train.optimizer"

WORTH = 1.03
"""A setting is changed for speed only where it gives this many times the pictures a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to train a bundle."""

    bundle: Bundle
    changes: Mapping[str, Any]
    """What differs from the bundle it was made of, by dotted key."""
    peak: Phase
    """Of its phases the one that takes most memory."""
    verdict: Verdict | None
    step: Span | None
    """Seconds of one optimizer step; None: nobody knows how fast the device is."""
    pace: float
    """Pictures a second; where the speed of the device is not known, relative to other ones."""

    @property
    def gib(self) -> float:
        """Most memory at once."""
        return self.peak.gib

    @property
    def distance(self) -> tuple[int, int]:
        """How far it is from the bundle it was made of: changes that what is learned depends on,
        then the others. Accumulation goes with the batch."""
        altering = len(self.changes.keys() & {PRECISION, OPTIMIZER})
        return altering, len(self.changes.keys() - {ACCUMULATION}) - altering


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What may be chosen among. An empty tuple: only what the bundle says."""

    precisions: tuple[str, ...] = ()
    fullest: int | None = None
    """Pictures in the fullest bucket: no batch is larger."""
    held: frozenset[str] = field(default_factory=frozenset)
    """Dotted keys that stay as the bundle has them."""


def candidates(
    bundle: Bundle, base: BaseFacts | None, hardware: Hardware, budget: Budget, options: Options
) -> list[Candidate]:
    """All ways that the table prices, the bundle's own first where it does.

    Of the numbers of blocks that recompute only the fewest that fit: each block more takes less
    memory and more time, so that no other can be better.
    """
    shares = recomputed_shares(bundle, base)

    def price(way: Bundle) -> Candidate | None:
        peak = max(phases(way, base, hardware) or (), key=lambda p: p.gib, default=None)
        if peak is None:
            return None
        return Candidate(
            bundle=way,
            changes=_changes(bundle, way),
            peak=peak,
            verdict=budget.verdict(peak.gib),
            step=step_seconds(way, base, hardware),
            pace=usual_pace(way, base, shares),
        )

    found = [c for c in [price(bundle)] if c]
    for way in _ways(bundle, options):
        if CHECKPOINTING in options.held:
            tried = [price(way)] if way != bundle else []
        else:
            tried = _fewest(way, len(shares) - 1, price)
        found += [c for c in tried if c and c.bundle != bundle]
    if not all(c.step for c in found):
        return found
    effective = bundle.train.batch_size * bundle.train.accumulation
    return [replace(c, pace=effective / c.step.middle) for c in found if c.step]


def _fewest(
    way: Bundle, blocks: int, price: Callable[[Bundle], Candidate | None]
) -> list[Candidate | None]:
    """With no block recomputing, with all, and with the fewest that fit in between."""

    def at(number: int) -> Candidate | None:
        value = {0: "none", blocks: "full"}.get(number, number)
        memory = way.memory.model_copy(update={"checkpointing": value})
        return price(way.model_copy(update={"memory": memory}))

    none, full = at(0), at(blocks)
    found = [none, full]
    if none is None or full is None or none.verdict == "fits" or full.verdict == "no":
        return found
    low, high = 0, blocks
    while high - low > 1:
        middle = (low + high) // 2
        tried = at(middle)
        found.append(tried)
        if tried is None:
            break
        low, high = (low, middle) if tried.verdict == full.verdict else (middle, high)
    return found


ALTERING = 1.25
"""A setting that what is learned depends on is changed for speed only where it gives this many
times the pictures a second."""


def best(found: Iterable[Candidate]) -> Candidate | None:
    """The fastest that fits, tight ones only where no other does; None: nothing fits.

    Of those that are nearly as fast, the one that changes least.
    """
    for verdict in (None, "fits"), ("tight",):
        fitting = [c for c in found if c.verdict in verdict]
        if fitting:
            top = max(_worth(c) for c in fitting)
            near = [c for c in fitting if _worth(c) * WORTH >= top]
            return min(near, key=lambda c: (c.distance, -c.pace, c.gib))
    return None


def _worth(candidate: Candidate) -> float:
    return candidate.pace / ALTERING ** candidate.distance[0]


def nearest(found: Iterable[Candidate]) -> Candidate | None:
    """Of those that fit, the fastest of those that change least; None: nothing fits."""
    fitting = [c for c in found if c.verdict in (None, "fits", "tight")]
    return min(fitting, key=lambda c: (c.verdict == "tight", c.distance, -c.pace), default=None)


def smallest(found: Iterable[Candidate]) -> Candidate | None:
    """The one that takes least memory; of equals the fastest."""
    return min(found, key=lambda c: (round(c.gib, 2), -c.pace), default=None)


RECOMPUTED = 0.75
"""What full checkpointing adds to a step: published 1.7 to 1.8 times on these UNets."""

FP32 = 2.0
"""How much longer a step is in fp32 than in 16 bits, roughly."""

START = 0.5
"""What a pass costs beside its pictures, counted in pictures: published throughput of SD 1.5 stops
growing near batch 8 to 12, where this is 4 to 6 %."""


def usual_pace(bundle: Bundle, base: BaseFacts | None, shares: Sequence[float]) -> float:
    """Pictures a second in a unit that nobody knows: published ratios, to compare two settings of
    one training where its device was not measured. `shares` are those of `recomputed_shares`."""
    batch, wanted = bundle.train.batch_size, bundle.memory.checkpointing
    last = len(shares) - 1
    number = wanted if isinstance(wanted, int) else last if wanted == "full" else 0
    cost = (batch + START) / batch
    cost *= 1 + RECOMPUTED * shares[min(number, last)]
    if bundle.train.precision == "fp32" and not is_small(bundle, base):
        cost *= FP32  # a small model waits for its kernels to start, in any precision
    return 1 / cost


def _ways(bundle: Bundle, options: Options) -> Iterator[Bundle]:
    """Every choice of all that is varied beside checkpointing."""
    train = bundle.train
    effective = train.batch_size * train.accumulation
    most = max(train.batch_size, options.fullest or effective)
    split = [n for n in range(effective, 0, -1) if effective % n == 0 and n <= most]
    axes: dict[str, Iterable[Any]] = {
        PRECISION: options.precisions or (train.precision,),
        OPTIMIZER: ("adamw", "adafactor"),
        BATCH: split,
    }
    for key in options.held:
        if key in axes:
            axes[key] = (_get(bundle, key),)
    if ACCUMULATION in options.held:
        axes[BATCH] = (train.batch_size,)
    for precision, optimizer, batch in itertools.product(*axes.values()):
        changed = train.model_copy(
            update={
                "precision": precision,
                "optimizer": optimizer,
                "batch_size": batch,
                "accumulation": effective // batch,
            }
        )
        yield bundle.model_copy(update={"train": changed})


def _changes(before: Bundle, after: Bundle) -> dict[str, Any]:
    keys = (PRECISION, OPTIMIZER, BATCH, ACCUMULATION, CHECKPOINTING)
    return {key: _get(after, key) for key in keys if _get(after, key) != _get(before, key)}


def _get(bundle: Bundle, key: str) -> Any:
    table, name = key.split(".")
    return getattr(getattr(bundle, table), name)
