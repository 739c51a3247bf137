"""How much of what is free may be used, on cards, screens, shared memory and the CPU."""

from __future__ import annotations

from typing import Any

import pytest

from lorakit.hardware.facts import Accelerator, Hardware, TorchBuild
from lorakit.planner.budget import Budget, budget
from lorakit.planner.estimate import Part

CUDA = TorchBuild(version="2", cuda="12.8")


def on_card(free: float | None = 10.0, system: str = "Linux", **more: Any) -> Budget:
    card = Accelerator(kind="cuda", name="Card", memory_free_gib=free, **more)
    return budget(Hardware(system=system, torch=CUDA, accelerators=(card,), ram_free_gib=60.0))


def test_a_card_keeps_a_little_for_other_programs() -> None:
    assert on_card().gib == 9.75
    assert on_card().words == (
        "9.8 of 10.0 GiB free may be used. Kept free: 0.25 for other programs."
    )


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"display": True}, "the screen on this card"),
        ({"system": "Linux 5.15.153.1-microsoft-standard-WSL2 WSL x86_64"}, "Windows"),
        ({"system": "Windows 11"}, "Windows"),
    ],
)
def test_a_screen_or_windows_keeps_more(more: dict[str, Any], named: str) -> None:
    room = on_card(**more)
    assert room.gib is not None
    assert room.gib < 9.5
    assert named in [part.name for part in room.reserve]
    assert f"for {named}" in room.words


def test_memory_that_the_system_shares_keeps_a_tenth_for_it() -> None:
    """A GB10 with 113 of 122 GiB free; and free memory is the less of what two sources say."""
    card = Accelerator(kind="cuda", name="GB10", memory_free_gib=113.0, unified=True)
    whole = Hardware(torch=CUDA, accelerators=(card,), ram_total_gib=121.7, ram_free_gib=110.0)
    assert budget(whole).gib == 102.0
    small = Hardware(torch=CUDA, accelerators=(card,), ram_total_gib=32.0, ram_free_gib=20.0)
    assert budget(small).gib == pytest.approx(16.8)


def test_the_cpu_has_the_ram() -> None:
    assert budget(Hardware(ram_total_gib=16.0, ram_free_gib=9.0)).gib == pytest.approx(7.4)
    assert budget(Hardware(ram_free_gib=9.0)).gib == 8.0
    assert budget(Hardware(ram_total_gib=2.0, ram_free_gib=0.5)).gib == 0.0


def test_what_nobody_could_tell_is_not_guessed() -> None:
    """Not even from the whole of the card, which says nothing of what others hold."""
    room = on_card(None, memory_total_gib=24.0)
    assert room.gib is None
    assert room.verdict(1.0) is None
    assert "Nobody could tell" in room.words


@pytest.mark.parametrize(
    ("peak", "verdict"),
    [(9.4, "fits"), (9.51, "tight"), (10.0, "tight"), (10.01, "no"), (None, None)],
)
def test_tight_is_less_than_a_twentieth_left(peak: float | None, verdict: str | None) -> None:
    room = Budget(free_gib=11.0, reserve=(Part(name="other programs", gib=1.0),))
    assert room.verdict(peak) == verdict
