from __future__ import annotations

import io
from pathlib import Path

from lorakit.live.plain import PlainLog, PlainView
from lorakit.runs.events import Doing, Event, Predicted, Sensed, Started, Stepped, Tail
from lorakit.runs.state import RunState, fold

DATA = Path(__file__).parents[1] / "data" / "events"


def told(events: list[Event]) -> list[str]:
    log, state, lines = PlainLog(), RunState(), []
    for event in events:
        state = fold(state, event)
        lines += [line[10:] for line in log.lines(event, state)]
    return lines


def recorded(name: str) -> list[Event]:
    return list(Tail(DATA / f"{name}.jsonl").read())


def stepped(step: int, time: float) -> Stepped:
    return Stepped(
        time=time, step=step, losses=[0.5], learning_rate=1e-4, seconds=1, wait_seconds=0, images=1
    )


def test_a_line_for_every_phase_and_every_thing_that_happened() -> None:
    lines = told(recorded("killed"))
    assert lines[0].startswith("starting")
    assert lines[1] == "robots: sd1, LoRA rank 8 on linear, CPU, 2 threads, 120 steps"
    assert "caching  0 of 24 pictures  eta --" in lines or lines[2].startswith("caching")
    assert "latents: 24 pictures encoded, 0 were in the cache" in lines
    assert "checkpoint of step 40 saved (1.2 MiB)" in lines
    last = lines[-1]
    for part in ("training  step 50/120  42 %", "loss 0.", "2.00 it/s", "RAM peak 1.4 GiB", "eta "):
        assert part in last


def test_a_line_of_figures_comes_every_ten_steps() -> None:
    events = [Doing(time=0.0, phase="training"), *(stepped(n, n / 10) for n in range(1, 36))]
    assert [line.split()[2] for line in told(events)[1:]] == ["10/--", "20/--", "30/--"]


def test_a_line_of_figures_comes_every_thirty_seconds() -> None:
    slow = [Doing(time=0.0, phase="training"), *(stepped(n, n * 20.0) for n in range(1, 5))]
    assert [line.split()[2] for line in told(slow)[1:]] == ["2/--", "4/--"]
    silent: list[Event] = [Sensed(time=float(t)) for t in range(0, 100, 2)]
    assert len(told([Doing(time=0.0, phase="caching"), *silent])) == 4


def test_the_end_is_said_once() -> None:
    lines = told(recorded("nan"))
    assert lines[-1].startswith("error: failed: The loss was not finite in 5 steps in a row")
    assert sum("failed" in line for line in lines) == 1
    assert told(recorded("resumed"))[-1] == "stopped at step 60"


def test_every_line_is_one_record_without_control_characters() -> None:
    started = Started(
        time=1.0,
        name="a\rb\x1b[2J",
        family="sd1",
        adapter="x" * 200,
        device="d\n",
        steps=1,
        batch_size=1,
    )
    (line,) = told([started])
    assert line.startswith(r"a\x0db\x1b[2J: sd1, ")
    assert "x" * 200 in line
    assert line.isprintable()


def test_who_comes_late_gets_one_line_and_not_the_whole_past() -> None:
    stream = io.StringIO()
    view = PlainView(stream, from_start=False)
    state, fresh = RunState(), []
    for event in recorded("killed"):
        state = fold(state, event)
        fresh.append((event, state))
    view.show(fresh, state, "training")
    assert stream.getvalue().count("\n") == 1
    assert "step 56/120" in stream.getvalue()
    later = stepped(70, fresh[-1][0].time + 1)
    view.show([(later, fold(state, later))], state, "training")
    assert stream.getvalue().count("\n") == 2


def test_what_was_predicted_is_a_line_and_stands_beside_the_peak() -> None:
    told_before = Predicted(
        time=0.0, peak_gib=1.5, step_seconds_low=0.4, step_seconds_high=0.55,
        total_seconds_low=60, total_seconds_high=90,
    )  # fmt: skip
    lines = told([told_before, *recorded("killed")])
    assert lines[0] == "predicted: 1.5 GiB at most, 0.40 to 0.55 s a step, 1m 00s to 1m 30s in all"
    assert "RAM peak 1.4 GiB (predicted 1.5)" in lines[-1]
    assert told([Predicted(time=0.0)]) == []
