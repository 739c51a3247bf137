from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from lorakit.live.bars import ASCII_LEVELS, BLOCKS, bar, can_draw, sparkline
from lorakit.live.panel import Surroundings, render
from lorakit.runs.events import Noted, Predicted, Saved, SaveFailed, Sensed, Started, Tail
from lorakit.runs.state import RunState, fold, replay
from lorakit.runs.status import Status

DATA = Path(__file__).parents[1] / "data" / "events"


def recorded(name: str) -> RunState:
    return replay(Tail(DATA / f"{name}.jsonl").read())


def lines(
    state: RunState,
    width: int = 80,
    height: int = 24,
    status: Status = "training",
    later: float = 1.0,
    **around: object,
) -> list[str]:
    console = Console(
        file=io.StringIO(), width=width, height=height, color_system=None, legacy_windows=False
    )
    now = (state.last_time or 0.0) + later
    drawn = render(state, width, height, now, status, Surroundings(**around))  # type: ignore[arg-type]
    with console.capture() as captured:
        console.print(drawn)
    return captured.get().removesuffix("\n").split("\n")


def test_the_panel_tells_all_that_is_known_in_words() -> None:
    shown = lines(recorded("killed"), footer="Ctrl-C stop and save", message="asked for pictures")
    text = "\n".join(shown)
    assert len(shown) == 24
    for told in (
        "robots",
        "training  40s",
        "sd1  LoRA rank 8 on linear  on CPU, 2 threads",
        "56/120",
        "47 %",
        "eta     33s",
        "2.00 it/s",
        "8.0 images/s",
        "data wait 4 %",
        "0.1928",
        "min 0.1928 at 56",
        "lr 1.00e-04",
        "RAM    now 1.2",
        "peak 1.4 of 23.6 GiB",
        "6 %",
        "97 %",
        "ram 5.1 of 23.6 GiB",
        "disk 41 GiB free",
        "saved step 40",
        "checkpoint of step 40 saved (1.2 MiB)",
    ):
        assert told in text
    assert "asked for pictures" in shown[-2]
    assert "Ctrl-C stop and save" in shown[-1]


PREDICTED = Predicted(
    time=1.0, peak_gib=1.5, step_seconds_low=0.4, step_seconds_high=0.55,
    total_seconds_low=60, total_seconds_high=90,
)  # fmt: skip


@pytest.mark.parametrize("width", [80, 120])
def test_what_was_predicted_stands_beside_what_was_measured(width: int) -> None:
    state = replace(recorded("killed"), predicted=PREDICTED)
    shown = [line.rstrip() for line in lines(state, width=width)]
    assert " a step  0.50 s (predicted 0.40 to 0.55)     predicted in all 1m 00s to 1m 30s" in shown
    memory = next(line for line in shown if line.startswith(" memory"))
    assert "now 1.2" in memory
    assert "peak 1.4 of 23.6 GiB, predicted 1.5" in memory
    assert memory.endswith("6 %")


def test_a_full_card_and_its_prediction_fit_on_a_narrow_terminal() -> None:
    sensed = Sensed(
        time=1.0, memory_of="VRAM", memory_gib=23.1, memory_peak_gib=23.2, memory_total_gib=23.6
    )
    state = fold(replace(RunState(), predicted=replace(PREDICTED, peak_gib=22.4)), sensed)
    memory = next(line for line in lines(state) if line.startswith(" memory"))
    assert memory == (
        " memory  VRAM  now 23.1  peak 23.2 of 23.6 GiB, predicted 22.4  98 %  near limit"
    )


def test_what_was_not_predicted_is_not_spoken_of() -> None:
    assert "predicted" not in "\n".join(lines(recorded("killed")))
    unknown = replace(recorded("killed"), predicted=Predicted(time=1.0))
    assert lines(unknown) == lines(recorded("killed"))


def test_until_the_first_steps_are_done_the_predicted_speed_foretells_the_end() -> None:
    started = replace(recorded("killed"), process_steps=0, window=(), predicted=None)
    assert started.eta_seconds is None
    foretold = replace(started, predicted=PREDICTED).eta_seconds
    assert foretold is not None
    assert 64 * 0.4 < foretold < 64 * 0.55 + 10
    warm = replace(recorded("killed"), predicted=replace(PREDICTED, step_seconds_high=100.0))
    assert warm.eta_seconds == recorded("killed").eta_seconds


def test_what_is_not_known_is_two_dashes_and_never_zero() -> None:
    shown = lines(RunState(), status="starting", title="dog")
    assert shown[0].split() == ["dog", "starting", "0s"]
    assert "0/--" in shown[2]
    assert shown[3].split()[1] == "--"
    assert "min --" in shown[4]
    assert "0.0" not in "\n".join(shown)


def test_a_sensor_that_does_not_answer_is_two_dashes() -> None:
    state = fold(recorded("killed"), Sensed(time=1.0, memory_of="VRAM", memory_gib=3.0))
    text = "\n".join(lines(state))
    assert "VRAM   now 3.0" in text
    assert "-- W" in text


def test_a_slow_model_is_told_in_seconds_a_step() -> None:
    state = recorded("killed")
    slow = tuple(p._replace(seconds=p.seconds * 10) for p in state.window)
    assert "5.00 s/it" in "\n".join(lines(replace(state, window=slow)))


@pytest.mark.parametrize(("share", "word"), [(0.89, ""), (0.92, "tight"), (0.98, "near limit")])
def test_little_room_is_a_word_before_it_is_a_colour(share: float, word: str) -> None:
    sensed = Sensed(time=1.0, memory_gib=1.0, memory_peak_gib=share * 10, memory_total_gib=10.0)
    memory = lines(fold(RunState(), sensed))[5]
    assert memory.rstrip().endswith(word or "%")


def test_a_trainer_that_is_silent_is_said_to_be() -> None:
    assert "no sign for 2m 05s" in lines(recorded("killed"), later=125)[0]
    assert "no sign" not in lines(recorded("killed"), later=3)[0]
    assert "no sign" not in lines(recorded("good"), later=500, status="done")[0]


def test_skipped_steps_are_counted() -> None:
    assert "7 steps skipped" in "\n".join(lines(recorded("nan")))


def test_a_checkpoint_that_was_not_written_is_said_until_one_is() -> None:
    failed = SaveFailed(step=60, reason="No space left on device", time=1.0)
    state = fold(recorded("killed"), failed)
    shown = lines(state)
    assert any("step 60 NOT saved: No space left on device" in line for line in shown)
    assert any("error: checkpoint of step 60 was not written" in line for line in shown)
    saved = fold(state, Saved(step=80, path="checkpoints/step-000080", size_bytes=1, time=2.0))
    assert not any("NOT saved" in line for line in lines(saved))


def test_a_download_shows_bytes_and_its_end() -> None:
    from lorakit.runs.events import Doing

    gib = 2**30
    state = replay(
        Doing(time=float(t), phase="downloading", done=t * gib, total=4 * gib, unit="bytes")
        for t in (1, 2)
    )
    step = lines(state, status="downloading")[2]
    for told in ("downloading", "2.0 GiB of 4.0 GiB", "50 %", "1.0 GiB/s", "eta      2s"):
        assert told in step


def test_names_and_notes_are_text_and_never_markup_or_control() -> None:
    started = Started(
        time=1.0,
        name="a [red]b[/red] :smile: \x1b[31m",
        family="sd1",
        adapter="[/]",
        device="d\r",
        steps=1,
        batch_size=1,
    )
    state = replay([started, Noted(time=1.0, text="/data/[slug]/a.png\x1b]0;x\x07\n")])
    text = "\n".join(lines(state))
    assert r"a [red]b[/red] :smile: \x1b[31m" in text
    assert r"/data/[slug]/a.png\x1b]0;x\x07\x0a" in text
    assert "\x1b" not in text


def test_an_encoding_without_blocks_gets_ascii() -> None:
    assert can_draw("utf-8")
    assert not can_draw("ascii")
    assert not can_draw("latin-1")
    assert not can_draw("no-such-encoding")
    "\n".join(lines(recorded("killed"), ascii_only=True)).encode("ascii")


@settings(max_examples=60)
@given(
    width=st.integers(1, 130),
    height=st.integers(1, 40),
    name=st.sampled_from(["good", "nan", "killed", "resumed"]),
    message=st.text(max_size=100),
)
def test_the_panel_stays_inside_every_terminal(
    width: int, height: int, name: str, message: str
) -> None:
    shown = lines(recorded(name), width, height, message=message, footer="Ctrl-C leave")
    assert len(shown) <= height
    from rich.cells import cell_len

    assert all(cell_len(line) <= width for line in shown)


def test_the_footer_and_the_step_stay_when_room_is_scarce() -> None:
    shown = lines(recorded("killed"), 60, 4, footer="Ctrl-C leave")
    assert "56/120" in shown[2]
    assert "Ctrl-C leave" in shown[3]


def test_numbers_that_are_beyond_reason_are_drawn_all_the_same() -> None:
    sensed = Sensed(time=1e300, memory_gib=1e308, memory_peak_gib=-1e308, memory_total_gib=1e-308)
    lines(fold(recorded("killed"), sensed), later=-1e300)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_bar_is_as_wide_as_it_should_be(ascii_only: bool) -> None:
    for percent in (None, -5.0, 0.0, 0.1, 33.3, 99.9, 100.0, 250.0):
        assert len(bar(percent, 17, ascii_only)) == 17
    assert bar(100, 4) == "████"
    assert bar(50, 4, True) == "##.."


def test_a_sparkline_goes_from_the_lowest_to_the_highest() -> None:
    assert sparkline([1.0, None, 8.0], 10) == f"{BLOCKS[0]} {BLOCKS[-1]}"
    assert sparkline([1.0, 8.0], 10, True) == f"{ASCII_LEVELS[0]}{ASCII_LEVELS[-1]}"
    assert len(sparkline([float(n) for n in range(119)], 25)) == 25
    assert sparkline([None, float("inf")], 5) == ""
    assert sparkline([2.0, 2.0], 5) == BLOCKS[0] * 2
