"""A card whose memory spills into the machine's is noticed while it trains (B29)."""

from __future__ import annotations

import pytest

from lorakit.live.panel import render
from lorakit.live.plain import PlainLog
from lorakit.runs.events import Doing, Event, Sensed, Started, Stepped
from lorakit.runs.paging import full
from lorakit.runs.state import RunState, fold, replay


def card(held: float, free: float | None = None, of: str = "VRAM") -> Sensed:
    return Sensed(
        time=1.0, memory_of=of, memory_gib=held, memory_free_gib=free, memory_total_gib=8.0
    )


def steps(first: int, last: int, seconds: float) -> list[Event]:
    return [
        Stepped(
            time=float(step),
            step=step,
            losses=[0.5],
            learning_rate=1e-4,
            seconds=seconds,
            wait_seconds=0.0,
            images=1,
        )
        for step in range(first, last + 1)
    ]


def started(spills: bool = True) -> list[Event]:
    start = Started(
        time=0.0, name="a", family="sd1", adapter="l", device="d", steps=99, batch_size=1,
        spills=spills,
    )  # fmt: skip
    return [start, Doing(time=0.0, phase="training")]


@pytest.mark.parametrize(
    ("sensed", "wanted"),
    [
        (card(8.0), True),
        (card(7.9, free=0.0), True),
        (card(5.0, free=0.1), True),  # others hold the rest
        (card(5.0, free=2.0), False),
        (card(7.0), False),
        (card(8.0, of="RAM"), False),
        (Sensed(time=1.0, memory_of="VRAM", memory_gib=8.0), False),
        (None, False),
    ],
)
def test_full(sensed: Sensed | None, wanted: bool) -> None:
    assert full(sensed) is wanted


def test_a_fall_of_speed_while_memory_is_full_is_said_once_with_the_way_out() -> None:
    state = replay([*started(), *steps(1, 32, 0.5), card(8.0)])
    assert state.slowdown is None
    log = PlainLog()
    told = []
    for event in [*steps(33, 45, 4.0), card(8.0)]:
        state = fold(state, event)
        told += [line for line in log.lines(event, state) if "warning" in line]
    assert state.slowdown == pytest.approx(8)
    (line,) = [line for line in state.log if line.level == "warning"]
    assert "while video memory is full: it probably spills into system RAM" in line.text
    assert "Lower the batch size" in line.text
    assert len(told) == 1
    drawn = [line.plain for line in render(state, 80, 24, 46.0, "training").renderables]  # type: ignore[union-attr]
    assert any(line.rstrip().endswith("paging, 8x slower") for line in drawn)
    assert max(map(len, drawn)) <= 80


def test_a_fall_with_room_left_and_a_full_card_at_speed_are_no_paging() -> None:
    begun = replay([*started(), *steps(1, 30, 0.5)])
    assert replay([card(5.0, free=3.0), *steps(31, 45, 4.0)], begun).slowdown is None
    assert replay([card(8.0), *steps(31, 45, 0.6)], begun).slowdown is None
    assert replay([card(8.0)], RunState()).slowdown is None


def test_a_driver_that_fails_instead_never_pages() -> None:
    slower = [card(8.0), *steps(31, 45, 4.0)]
    assert replay([*started(), *steps(1, 30, 0.5), *slower]).slowdown is not None
    assert replay([*started(spills=False), *steps(1, 30, 0.5), *slower]).slowdown is None


def test_the_first_steps_compile_and_are_no_measure() -> None:
    slow_start = [*steps(1, 10, 9.0), *steps(11, 30, 0.5)]
    state = replay([*started(), *slow_start, card(8.0), *steps(31, 40, 2.0)])
    assert state.slowdown == pytest.approx(4, rel=0.3)
