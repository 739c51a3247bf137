from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.runs import events
from lorakit.runs.course import BETA, POINTS, History
from lorakit.runs.events import (
    Doing,
    Event,
    Failed,
    Finished,
    Noted,
    Requested,
    Resumed,
    Saved,
    Sensed,
    Started,
    Stepped,
    Tail,
)
from lorakit.runs.state import LOG_LINES, RunState, fold, replay

DATA = Path(__file__).parents[1] / "data" / "events"


def recorded(name: str) -> RunState:
    return replay(Tail(DATA / f"{name}.jsonl").read())


def started(steps: int = 100, **more: Any) -> Started:
    return Started(
        time=0.0, name="a", family="sd1", adapter="l", device="d", steps=steps, batch_size=1, **more
    )


def stepped(step: int, *losses: float | None, each: float = 1.0) -> Stepped:
    return Stepped(
        time=float(step),
        step=step,
        losses=list(losses),
        learning_rate=1e-4,
        seconds=each * len(losses),
        wait_seconds=0.0,
        images=len(losses),
    )


def test_a_good_run() -> None:
    state = recorded("good")
    assert state.started is not None
    assert (state.started.name, state.step, state.percent) == ("robots", state.steps, 100)
    assert isinstance(state.ended, Finished)
    assert state.ended.outcome == "done"
    assert state.loss_first is not None
    assert state.loss_recent is not None
    assert state.loss_recent < state.loss_first
    assert state.course.counted == state.steps
    assert state.course.saved is not None
    assert state.course.saved.path == "checkpoints/step-000080"  # and not the LoRA itself
    assert 0 < state.elapsed_seconds < 3600
    assert state.eta_seconds is None


def test_the_figures_of_a_run_on_its_way() -> None:
    state = recorded("killed")
    assert (state.step, state.steps) == (56, 120)
    assert state.percent == pytest.approx(46.667, abs=0.001)
    assert state.steps_per_second == pytest.approx(2.0)
    assert state.images_per_second == pytest.approx(8.0)
    assert state.wait_percent == pytest.approx(4.0)
    # 64 steps of 0.5 s, and two checkpoints that took 0.3 s the last time.
    assert state.eta_seconds == pytest.approx(32.6)
    assert state.elapsed_seconds == pytest.approx(39.3)
    assert state.memory_peak_gib == 1.4
    assert [line.text for line in state.log] == [
        "latents: 24 pictures encoded, 0 were in the cache",
        "checkpoint of step 40 saved (1.2 MiB)",
    ]


def test_losses_that_are_not_finite_are_counted_and_left_out() -> None:
    state = recorded("nan")
    assert state.course.skipped == 7
    assert state.course.loss is not None
    assert math.isfinite(state.course.loss)
    assert state.course.loss_last is None
    assert isinstance(state.ended, Failed)
    assert state.log[-1].level == "error"


def test_a_killed_run_has_no_end_and_an_unfinished_line_counts_for_nothing() -> None:
    assert recorded("killed").ended is None
    assert recorded("half-line") == recorded("killed")


def test_a_resumed_run_forgets_what_lay_after_its_checkpoint() -> None:
    broken, whole = recorded("killed"), recorded("resumed")
    assert broken.step == 56
    assert (whole.step, len(whole.losses)) == (60, 60)
    assert whole.course.counted == 60
    # The hour between the two processes is no part of the run.
    assert 40 < whole.elapsed_seconds < 120
    assert whole.stopping


def test_going_back_to_a_checkpoint_gives_the_numbers_of_an_unbroken_run() -> None:
    first = [
        started(),
        stepped(3, 3.0, 2.0, 1.0),
        Saved(time=3, step=3, path="checkpoints/c", size_bytes=1),
    ]
    lost = [
        stepped(5, 9.0, 9.0),
        Saved(time=5, step=5, path="checkpoints/d", size_bytes=1),
        stepped(6, 9.0),
    ]
    again = [stepped(5, 0.5, 0.25), stepped(6, 0.125)]
    broken = replay([*first, *lost, started(), Resumed(time=7, step=3), *again])
    assert broken.course == replay([*first, *again]).course
    assert [m.step for m in broken.marks] == [3]


def test_steps_that_come_again_replace_those_told_before() -> None:
    state = replay([started(), stepped(2, 5.0, 5.0), started(), stepped(1, 1.0)])
    assert state.step == 1
    assert state.course.counted == 1


def test_the_smoothed_loss_is_an_unbiased_exponential_mean() -> None:
    values = [1.0, 3.0, 2.0, 8.0]
    state = replay([started(), stepped(2, *values[:2]), stepped(4, *values[2:])])
    weights = [BETA**age for age in (3, 2, 1, 0)]
    expected = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    assert state.course.loss == pytest.approx(expected)
    assert state.course.loss_last == 8.0


def test_the_minimum_is_not_taken_from_a_handful_of_steps() -> None:
    state = replay([started(), stepped(19, *[0.001] * 19)])
    assert state.course.loss_min is None
    state = fold(state, stepped(20, 0.5))
    low = state.course.loss_min
    state = fold(state, stepped(21, 9.0))
    assert (state.course.loss_min, state.course.loss_min_step) == (low, 20)


def test_the_first_steps_foretell_nothing() -> None:
    state = replay([started(), stepped(10, *[1.0] * 10, each=60.0)])
    assert state.eta_seconds is None
    assert state.steps_per_second == pytest.approx(1 / 60)
    state = replay([stepped(n, 1.0, each=0.5) for n in range(11, 21)], state)
    assert state.eta_seconds == pytest.approx(80 * 0.5)
    assert state.steps_per_second == pytest.approx(2.0)


def test_the_time_to_come_counts_samples_and_checkpoints() -> None:
    state = replay(
        [
            started(sample_every=30, save_every=50),
            *(stepped(n, 1.0) for n in range(1, 41)),
            Doing(time=100, phase="sampling"),
            Doing(time=107, phase="saving"),
            Doing(time=110, phase="training"),
        ]
    )
    # Samples after 60, 90 and 100, checkpoints after 50 and 100.
    assert state.eta_seconds == pytest.approx(60 + 3 * 7 + 2 * 3)


def test_speed_is_that_of_the_last_fifty_steps() -> None:
    slow = [stepped(n, 1.0, each=4.0) for n in range(1, 101)]
    fast = [stepped(n, 1.0, each=1.0) for n in range(101, 151)]
    assert replay([started(1000), *slow, *fast]).steps_per_second == pytest.approx(1.0)
    batched = [stepped(n, *[1.0] * 10) for n in range(110, 160, 10)]
    assert replay([started(1000), *slow, *batched]).steps_per_second == pytest.approx(1.0)


def test_a_download_has_a_speed_and_an_end() -> None:
    doing = [
        Doing(time=float(t), phase="downloading", done=t * 1000, total=10_000, unit="bytes")
        for t in range(5)
    ]
    state = replay(doing)
    assert state.progress_per_second == pytest.approx(1000)
    assert state.progress_eta_seconds == pytest.approx(6)
    state = fold(state, Doing(time=9.0, phase="caching", done=1, total=3, unit="captions"))
    assert state.progress_per_second is None


def test_the_peak_is_that_of_the_whole_run_and_the_log_is_bounded() -> None:
    peaks = [Sensed(time=1.0, memory_peak_gib=p) for p in (1.0, 3.0, 2.0, None)]
    assert replay(peaks).memory_peak_gib == 3.0
    state = replay(Noted(time=float(i), text=str(i)) for i in range(LOG_LINES + 5))
    assert len(state.log) == LOG_LINES
    assert state.log[-1].text == str(LOG_LINES + 4)


def test_a_request_says_who_asked() -> None:
    state = fold(RunState(), Requested(time=1.0, what="save", by="me@desk"))
    assert state.log[-1].text == "save requested by me@desk"
    assert not state.stopping
    assert fold(state, Requested(time=2.0, what="stop")).stopping


def test_a_history_keeps_its_shape_in_few_points() -> None:
    history = History()
    for chunk in range(100):
        history = history.add([float(chunk)] * 100)
    assert POINTS / 2 <= len(history.points) < POINTS
    assert history.points[0] == pytest.approx(0.0, abs=1.0)
    assert history.points == tuple(sorted(p for p in history.points if p is not None))
    assert History().add([None, None]).points == (None, None)


numbers = st.integers(-(2**62), 2**62)
reals = st.floats(allow_nan=False, allow_infinity=False)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "int": numbers,
    "int | None": st.none() | numbers,
    "float": reals,
    "float | None": st.none() | reals,
    "str": st.text(max_size=20),
    "bool": st.booleans(),
    "list[float | None]": st.lists(st.none() | reals, max_size=40),
    "list[str]": st.lists(st.text(max_size=5), max_size=3),
    "dict[str, str]": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    "Phase": st.sampled_from(["starting", "downloading", "training", "sampling", "saving"]),
    "Literal": st.sampled_from(["info", "done", "stopped"]),
}


def an_event(kind: type[Event]) -> st.SearchStrategy[Event]:
    fields = {
        name: BY_TYPE[str(field.type).partition("['")[0]]
        for name, field in kind.__dataclass_fields__.items()
        if name != "kind"
    }
    return st.builds(kind, **fields)


any_event = st.one_of([an_event(kind) for kind in events.KINDS.values()])


@given(st.lists(any_event, max_size=30))
def test_no_sequence_of_events_is_too_strange_to_fold_and_to_ask(sequence: list[Event]) -> None:
    state = replay(sequence)
    for name in dir(RunState):
        if isinstance(getattr(RunState, name), property):
            getattr(state, name)
    assert len(state.losses) <= POINTS
    assert len(state.speeds) <= POINTS


@given(any_event)
def test_an_event_reads_back_as_it_was_written(event: Event) -> None:
    assert events.decode(events.encode(event)) == event


@given(st.binary(max_size=200))
def test_any_line_is_an_event_or_nothing(line: bytes) -> None:
    event = events.decode(line.decode("utf-8", errors="replace"))
    assert event is None or isinstance(event, Event)


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"resumed","time":1.0,"step":"3"}',
        '{"kind":"resumed","time":1.0,"step":1e400}',
        '{"kind":"resumed","time":NaN,"step":3}',
        '{"kind":"resumed","time":1.0}',
        '{"kind":"flown","time":1.0}',
        '["resumed"]',
    ],
)
def test_a_line_with_values_of_the_wrong_kind_is_no_event(line: str) -> None:
    assert events.decode(line) is None


def test_a_key_of_a_newer_version_is_passed_over() -> None:
    line = '{"kind":"resumed","time":1.0,"step":3,"why":{"x":1}}'
    assert events.decode(line) == Resumed(time=1.0, step=3)


@given(st.data())
def test_a_tail_reads_the_same_events_however_the_file_grows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = (DATA / "good.jsonl").read_bytes() + '{"kind":"noted","time":1,"text":"é猫"}\n'.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    file = tmp_path_factory.mktemp("tail") / events.FILE
    tail, seen = Tail(file), []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        with file.open("ab") as opened:
            opened.write(whole[start:end])
        seen += list(tail.read())
    assert seen == [events.decode(line) for line in whole.decode().splitlines()]


def test_a_file_that_is_not_there_yet_has_no_events(tmp_path: Path) -> None:
    assert list(Tail(tmp_path / "none").read()) == []


def test_a_long_run_is_folded_in_a_moment() -> None:
    one = stepped(1, 0.5)
    state = replay([started(200_000), *(replace(one, step=n) for n in range(1, 20_001))])
    assert state.step == 20_000
    assert len(state.losses) <= POINTS
