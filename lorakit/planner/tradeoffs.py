"""Says why one way to train was chosen, and why the faster ones were not."""

from __future__ import annotations

from collections.abc import Iterable

from lorakit.planner.budget import Budget
from lorakit.planner.room import surcharge
from lorakit.planner.search import (
    ACCUMULATION,
    BATCH,
    CHECKPOINTING,
    OPTIMIZER,
    PRECISION,
    Candidate,
)

Rejected = tuple[str, object, str]
"""A dotted key, the value that was not recommended, and why in a sentence."""


def explain(
    chosen: Candidate, found: Iterable[Candidate], allowed: Budget
) -> tuple[dict[str, str], list[Rejected]]:
    """Reasons of the values that memory decides, by dotted key, and the faster ones rejected."""
    every = list(found)
    return dict(_reasons(chosen, every, allowed)), list(_rejected(chosen, every, allowed))


def _reasons(
    chosen: Candidate, found: list[Candidate], allowed: Budget
) -> Iterable[tuple[str, str]]:
    limit = allowed.gib or 0.0
    without = _fastest(_others(chosen, found, CHECKPOINTING))
    if chosen.verdict == "no":
        why = f"the least there is: {chosen.gib:.1f} GiB, and {limit:.1f} may be used"
        yield CHECKPOINTING, why
    elif chosen.bundle.memory.checkpointing == "none":
        why = f"fastest; takes {chosen.gib:.1f} of the {limit:.1f} GiB that may be used"
        yield CHECKPOINTING, why
    elif without is not None:
        fewest = isinstance(chosen.bundle.memory.checkpointing, int)
        lead = "the fewest blocks that fit: " if fewest else ""
        other = f"{_value(without, CHECKPOINTING)} it is {without.gib:.1f}{surcharge(without.peak)}"
        why = f"{lead}{chosen.gib:.1f} GiB; with {other}, and {limit:.1f} may be used"
        yield CHECKPOINTING, why
    effective = chosen.bundle.train.batch_size * chosen.bundle.train.accumulation
    if BATCH in chosen.changes:
        batch = chosen.bundle.train.batch_size
        why = f"the fastest way to {effective} pictures a step that fits: {chosen.gib:.1f} GiB"
        yield BATCH, why
        yield ACCUMULATION, f"{effective} pictures a step, {batch} at once"
    for key in (PRECISION, OPTIMIZER):
        if key in chosen.changes:
            yield key, _instead(chosen, found, key, limit)


def _instead(chosen: Candidate, found: list[Candidate], key: str, limit: float) -> str:
    """Why a value was changed: against the old one, all else as it is now."""
    others = [c for c in _others(chosen, found, key) if key not in c.changes]
    if not others:
        return ""
    old = others[0]
    name, share = _value(old, key), chosen.pace / old.pace
    if old.verdict in ("no", "tight"):
        return f"{name} would take {old.gib:.1f} GiB, and {limit:.1f} may be used"
    if share > 1.005:
        return f"{share:.1f} times the pictures a second of {name}"
    return f"{chosen.gib:.1f} GiB instead of {old.gib:.1f} with {name}"


def _rejected(chosen: Candidate, found: list[Candidate], allowed: Budget) -> Iterable[Rejected]:
    limit = allowed.gib or 0.0
    for key in (CHECKPOINTING, BATCH, PRECISION, OPTIMIZER):
        faster = [c for c in _others(chosen, found, key) if c.pace > 1.005 * chosen.pace]
        other = _fastest(faster)
        if other is None:
            continue
        if other.verdict == "no":
            why = (
                f"it takes {other.gib:.1f} GiB{surcharge(other.peak)}, and {limit:.1f} may be used."
            )
        elif other.verdict == "tight":
            why = f"it takes {other.gib:.1f} of {limit:.1f} GiB, which leaves less than 5 %."
        else:
            more = 100 * (other.pace / chosen.pace - 1)
            why = f"{more:.0f} % faster at most, which is not worth the change."
        yield key, _value(other, key), why


def _others(chosen: Candidate, found: list[Candidate], key: str) -> list[Candidate]:
    """Those that differ from the chosen one in this setting, and in no other."""
    mine = _values(chosen)
    return [
        c
        for c in found
        if c is not chosen and {k for k, v in _values(c).items() if v != mine[k]} == {key}
    ]


def _values(candidate: Candidate) -> dict[str, object]:
    return {key: _value(candidate, key) for key in (PRECISION, OPTIMIZER, BATCH, CHECKPOINTING)}


def _value(candidate: Candidate, key: str) -> object:
    table, name = key.split(".")
    return getattr(getattr(candidate.bundle, table), name)


def _fastest(found: list[Candidate]) -> Candidate | None:
    return max(found, key=lambda c: c.pace, default=None)
