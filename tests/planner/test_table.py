"""Every preset on every recorded machine: what is recommended fits, or is refused by name."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import pytest

from lorakit.bundle.models import Bundle
from lorakit.bundle.read import build
from lorakit.dataset.buckets import fit
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.errors import ExitCode
from lorakit.families.base_model import BaseFacts, usual
from lorakit.hardware.facts import Hardware, Process
from lorakit.hardware.files import load
from lorakit.planner.budget import budget
from lorakit.planner.check import check
from lorakit.planner.estimate import estimate
from lorakit.planner.facts import Facts
from lorakit.planner.presets import Preset, find, merge, shipped
from lorakit.planner.recommend import Recommendation, recommend

FOLDER = Path(__file__).parents[1] / "data" / "hardware"
MACHINES = {file.stem: load(file) for file in sorted(FOLDER.glob("*.toml"))}

PICTURES = {"schema": 1, "name": "x", "dataset": {"sources": [{"path": "photos"}]}}

Outcome = Literal["fits", "tight", "refused", "unknown", "unusable"]
"""unknown: nobody could tell what is free. unusable: the card cannot compute, by name."""

ORDER: tuple[Outcome, ...] = get_args(Outcome)


def taken(hardware: Hardware, share: float) -> Hardware:
    """The machine with so much of each card held by another process."""
    cards = []
    for card in hardware.accelerators:
        if card.memory_free_gib is None or card.memory_total_gib is None:
            cards.append(card)
            continue
        gib = min(share * card.memory_total_gib, card.memory_free_gib)
        held = (*card.processes, Process(pid=4711, name="blender", memory_gib=gib))
        cards.append(replace(card, memory_free_gib=card.memory_free_gib - gib, processes=held))
    return replace(hardware, accelerators=tuple(cards))


def cases() -> list[tuple[Preset, BaseFacts]]:
    """Every shipped preset with the bases it is for; goals as the wizard lays them."""
    found = []
    for preset in shipped():
        for family in ("sd1", "sdxl") if preset.family == "any" else (preset.family,):
            whole = preset.over(find(f"{family}-standard")) if preset.family == "any" else preset
            found.append((whole, usual(family, whole.settings["base"].get("model", "a/b"))))
    return found


CASES = cases()


@functools.cache
def report(resolution: int, size_step: int) -> DatasetReport:
    """Twenty photographs of three shapes, for a base."""
    shapes = [(3000, 2000)] * 12 + [(2000, 3000)] * 6 + [(2500, 2500)] * 2
    return DatasetReport(
        pictures=tuple(
            Picture(
                folder="/p", name=f"{n}.png", source=0, repeats=1, width=width,
                height=height, fit=fit(width, height, resolution, size_step),
                caption="a dog", caption_name=None, tokens=2, sha256=f"{n:064x}", turned=False,
            )
            for n, (width, height) in enumerate(shapes)
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    outcome: Outcome
    found: Recommendation
    bundle: Bundle


def row(preset: Preset, base: BaseFacts, hardware: Hardware) -> Row:
    """One preset on one machine, judged as `lorakit check` does."""
    pictures = report(base.resolution, base.size_step)
    found = recommend(hardware, pictures, base, preset)
    bundle = build(merge(PICTURES, found.settings))
    facts = Facts(hardware=hardware, report=pictures, base=base, disk_free_bytes=10**12)
    errors = [p for p in check(bundle, facts) if p.severity == "error"]
    unusable = [p for p in errors if p.code == ExitCode.NO_HARDWARE]
    errors = [p for p in errors if p not in unusable]
    # Memory and a card that does not compute are all that a recommendation cannot mend.
    assert [p for p in errors if p.code != ExitCode.OUT_OF_MEMORY] == []
    if unusable and not errors:
        assert all(card.name in unusable[0].what for card in hardware.accelerators[:1])
        return Row("unusable", found, bundle)
    room = budget(hardware)
    verdict = room.verdict(estimate(bundle, base, pictures, hardware).peak_gib)
    if verdict is None:
        assert errors == []
        return Row("unknown", found, bundle)
    if verdict != "no":
        assert errors == []
        assert found.refusal is None
        return Row(verdict, found, bundle)
    (error,) = errors
    assert found.refusal == error
    assert "This does not fit: " in error.what
    assert f"{room.gib:.1f} of {room.free_gib:.1f} GiB free" in error.what
    assert "The least that it can take is" in error.fix
    return Row("refused", found, bundle)


def said(rows: list[Row]) -> str:
    counts = Counter(r.outcome for r in rows)
    return ", ".join(f"{counts[o]} {o}" for o in ORDER)


QUICK = ("cpu-only", "rtx4090", "t4", "two-cards", "rx7900xtx")
"""Machines that are looked at whenever tests run."""


@pytest.mark.parametrize(
    "machine",
    [pytest.param(m, marks=[] if m in QUICK else [pytest.mark.slow]) for m in MACHINES],
)
def test_every_preset_fits_or_is_refused_by_name(machine: str) -> None:
    hardware = MACHINES[machine]
    free = [row(preset, base, hardware) for preset, base in CASES]
    busy_machine = taken(hardware, 0.6)
    busy = [row(preset, base, busy_machine) for preset, base in CASES]
    adapted = sum(
        a.bundle != b.bundle and b.outcome != "refused" for a, b in zip(free, busy, strict=True)
    )
    print(f"\n{machine:<18} {said(free)}; 60 % taken: {said(busy)}, {adapted} adapted")
    by_name = {preset.name: r for (preset, _), r in zip(CASES, free, strict=True)}
    assert by_name["pico-cpu"].outcome != "refused"
    for before, now in zip(free, busy, strict=True):
        assert before.outcome != "refused" or now.outcome in ("refused", "unusable")
        if now.outcome == "refused" and hardware.accelerator:
            assert now.found.refusal is not None
            assert "blender" in now.found.refusal.fix
