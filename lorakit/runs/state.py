"""The fold of a run's events: all that a viewer draws, as one value.

Times come from the events and never from a clock, so the same file always gives the same state.
How old the last sign of life is, a viewer works out from `last_time`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from lorakit.runs import paging
from lorakit.runs.course import START, Course, Pace, mean
from lorakit.runs.events import (
    Doing,
    Event,
    Failed,
    Finished,
    Predicted,
    Requested,
    Resumed,
    Sampled,
    Saved,
    SaveFailed,
    Sensed,
    Started,
    Stepped,
)
from lorakit.runs.lines import LogLine, describe

WARM_STEPS = 10
"""First steps of a process: they compile and allocate, so no time is foretold from them."""

WINDOW_STEPS = 50
"""Steps that the present speed is taken from."""

FEW_STEPS = 5
"""Steps that tell whether a training has just become slow."""

LOG_LINES = 200
MARKS = 100
REQUESTS = 20
PROGRESS = 20
"""How many of the last log lines, checkpoints to go back to, requests and progress reports stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """What is known of a run from its events."""

    up: bool = False
    """The present process has read its bundle."""
    started: Started | None = None
    """Who it is: name, family, adapter, device, steps to do."""
    predicted: Predicted | None = None
    """What the training was last predicted to take."""
    course: Course = START
    """Steps, losses and what was saved and drawn on the way."""
    marks: tuple[Course, ...] = ()
    """The course at each checkpoint, oldest first."""
    doing: Doing | None = None
    """The phase, and how far it is."""
    progress: tuple[tuple[float, int], ...] = ()
    """(time, done) of the phase's last reports."""
    phase_time: float | None = None
    """When the phase began."""
    sensed: Sensed | None = None
    memory_peak_gib: float | None = None
    """The most that the trainer has held, over the whole run."""
    log: tuple[LogLine, ...] = ()
    requests: tuple[Requested, ...] = ()
    """What was asked of this process, oldest first."""
    ended: Finished | Failed | None = None
    window: tuple[Pace, ...] = ()
    """The last reports of steps, of this process and after its first steps."""
    process_steps: int = 0
    """Steps done by this process."""
    first_pace: Pace | None = None
    """What the first steps took of this process, after the very first: its speed of its own."""
    sample_seconds: float | None = None
    save_seconds: float | None = None
    """How long the last sampling and saving took."""
    first_time: float | None = None
    process_time: float | None = None
    """When this process started; another one did before, if the run was resumed."""
    earlier_seconds: float = 0.0
    """How long the processes before this one lived."""
    last_time: float | None = None
    """Of the last event of any kind: the last sign of life."""

    @property
    def steps(self) -> int | None:
        """Steps to do in all."""
        return self.started.steps if self.started else None

    @property
    def step(self) -> int:
        """The last step done."""
        return self.course.step

    @property
    def percent(self) -> float | None:
        """How much of the steps is done."""
        return 100 * self.step / self.steps if self.steps else None

    @property
    def stopping(self) -> bool:
        """Someone asked this process to stop."""
        return any(r.what == "stop" for r in self.requests)

    @property
    def pace(self) -> Pace:
        """What the last steps took together: `WINDOW_STEPS` of them, or all there are."""
        return self._recent(WINDOW_STEPS)

    def _recent(self, steps: int) -> Pace:
        recent = Pace(0, 0.0, 0.0, 0)
        for pace in reversed(self.window):
            if recent.steps >= steps:
                break
            recent = recent.with_more(pace)
        return recent

    @property
    def slowdown(self) -> float | None:
        """How many times longer steps take than at first, where that is much, memory is full and
        the driver is one that spills into RAM."""
        first, driver = self.first_pace, self.started
        if first is None or not (driver and driver.spills and paging.full(self.sensed)):
            return None
        recent = self._recent(FEW_STEPS)
        if recent.steps < FEW_STEPS:
            return None
        now, then = _ratio(recent.seconds, recent.steps), _ratio(first.seconds, first.steps)
        times = _ratio(now or 0.0, then)
        return times if times is not None and times >= paging.TIMES else None

    @property
    def steps_per_second(self) -> float | None:
        """Speed of the last steps."""
        pace = self.pace
        return _ratio(pace.steps, pace.seconds)

    @property
    def images_per_second(self) -> float | None:
        """Pictures that go through training in a second."""
        pace = self.pace
        return _ratio(pace.images, pace.seconds)

    @property
    def wait_percent(self) -> float | None:
        """Share of the time that steps wait for data."""
        pace = self.pace
        return _ratio(100 * pace.wait_seconds, pace.seconds)

    @property
    def eta_seconds(self) -> float | None:
        """From the last event to the end, with the samples and checkpoints still to come.

        The first steps say nothing yet, and until then the predicted speed counts, if there is one.
        """
        if self.started is None or self.ended:
            return None
        left = max(0, self.started.steps - self.step)
        if self.process_steps > WARM_STEPS:
            each = self.step_seconds
        else:
            each = self._predicted_step_seconds
        if each is None:
            return None
        samples = self._still_to_come(self.started.sample_every) * (self.sample_seconds or 0.0)
        saves = self._still_to_come(self.started.save_every) * (self.save_seconds or 0.0)
        return left * each + samples + saves

    @property
    def step_seconds(self) -> float | None:
        """What one of the last steps took."""
        pace = self.pace
        return _ratio(pace.seconds, pace.steps)

    @property
    def _predicted_step_seconds(self) -> float | None:
        told = self.predicted
        if told is None or told.step_seconds_low is None or told.step_seconds_high is None:
            return None
        return math.sqrt(max(0.0, told.step_seconds_low * told.step_seconds_high))

    def _still_to_come(self, every: int) -> int:
        """Multiples of `every` after this step and up to the last, and the last itself."""
        steps = self.steps or 0
        if self.step >= steps:
            return 0
        if every <= 0:
            return 1
        return -(-steps // every) - self.step // every

    @property
    def loss_first(self) -> float | None:
        """Mean of the first losses."""
        return mean(self.course.first)

    @property
    def loss_recent(self) -> float | None:
        """Mean of the last losses."""
        return mean(self.course.last)

    @property
    def losses(self) -> tuple[float | None, ...]:
        """The course of the loss, in at most 120 points."""
        return self.course.losses.points

    @property
    def speeds(self) -> tuple[float | None, ...]:
        """The course of the speed in steps a second, in at most 120 points."""
        return tuple(_ratio(1, s) for s in self.course.seconds.points)

    @property
    def elapsed_seconds(self) -> float:
        """How long the run has lived, without the pauses before it was resumed."""
        if self.process_time is None or self.last_time is None:
            return self.earlier_seconds
        return self.earlier_seconds + max(0.0, self.last_time - self.process_time)

    @property
    def progress_per_second(self) -> float | None:
        """Speed of the phase in its unit a second."""
        if len(self.progress) < 2:
            return None
        (since, before), (now, done) = self.progress[0], self.progress[-1]
        return _ratio(done - before, now - since)

    @property
    def progress_eta_seconds(self) -> float | None:
        """From the last event to the end of the phase."""
        if self.doing is None or self.doing.total is None or self.doing.done is None:
            return None
        return _ratio(max(0, self.doing.total - self.doing.done), self.progress_per_second)


def fold(state: RunState, event: Event) -> RunState:
    """The state after one more event. Never fails: an event not known here only counts as life."""
    step = _FOLDS.get(type(event))
    changed: dict[str, Any] = step(state, event) if step else {}
    line = describe(event)
    if line is not None:
        changed["log"] = (*state.log, line)[-LOG_LINES:]
    if state.first_time is None:
        changed["first_time"] = event.time
    after = replace(state, last_time=event.time, **changed)
    if isinstance(event, Stepped | Sensed) and after.slowdown and not state.slowdown:
        warning = LogLine(event.time, paging.words(after.slowdown), "warning")
        return replace(after, log=(*after.log, warning)[-LOG_LINES:])
    return after


def replay(events: Iterable[Event], state: RunState | None = None) -> RunState:
    """The state after all these events, from the beginning or from a given state."""
    return reduce(fold, events, state or RunState())


def _started(state: RunState, event: Started) -> dict[str, Any]:
    if state.doing is not None and state.doing.phase == "starting":
        return {"started": event, "up": True}
    fresh = {"doing": None, "phase_time": None, "started": event, "up": True}
    return {**_new_process(state, event), **fresh}


def _new_process(state: RunState, event: Event) -> dict[str, Any]:
    """Its speed, sensors and requests are its own."""
    return {
        "up": False,
        "progress": (),
        "sensed": None,
        "requests": (),
        "ended": None,
        "window": (),
        "process_steps": 0,
        "first_pace": None,
        "process_time": event.time,
        "earlier_seconds": state.elapsed_seconds,
    }


def _doing(state: RunState, event: Doing) -> dict[str, Any]:
    if event.phase == "starting":
        return {**_new_process(state, event), "doing": event, "phase_time": event.time}
    changed: dict[str, Any] = {"doing": event}
    progress = state.progress
    if state.doing is None or state.doing.phase != event.phase:
        changed |= _phase_left(state, event.time)
        changed["phase_time"] = event.time
        progress = ()
    elif state.doing.unit != event.unit:
        progress = ()
    if event.done is not None:
        progress = (*progress, (event.time, event.done))[-PROGRESS:]
    changed["progress"] = progress
    return changed


def _phase_left(state: RunState, time: float) -> dict[str, float]:
    """How long the phase took that ends now, where that helps to foretell the next one."""
    if state.doing is None or state.phase_time is None:
        return {}
    took = max(0.0, time - state.phase_time)
    if state.doing.phase == "sampling":
        return {"sample_seconds": took}
    return {"save_seconds": took} if state.doing.phase == "saving" else {}


def _predicted(state: RunState, event: Predicted) -> dict[str, Any]:
    return {"predicted": event}


def _stepped(state: RunState, event: Stepped) -> dict[str, Any]:
    if not event.losses:
        return {}
    before = event.step - len(event.losses)
    course = state.course if before >= state.course.step else _back_to(state, before)
    kept = state.window if state.process_steps > WARM_STEPS else ()
    pace = Pace(len(event.losses), event.seconds, event.wait_seconds, event.images)
    first = state.first_pace
    if state.process_steps > WARM_STEPS and (first is None or first.steps < 2 * WARM_STEPS):
        first = first.with_more(pace) if first else pace
    return {
        "first_pace": first,
        "course": course.after(event),
        "window": (*kept[1 - WINDOW_STEPS :], pace),
        "process_steps": state.process_steps + len(event.losses),
    }


def _sensed(state: RunState, event: Sensed) -> dict[str, Any]:
    seen = (state.memory_peak_gib, event.memory_peak_gib, event.memory_gib)
    peaks = [p for p in seen if p is not None]
    return {"sensed": event, "memory_peak_gib": max(peaks, default=None)}


def _save_failed(state: RunState, event: SaveFailed) -> dict[str, Any]:
    count = state.course.unsaved_count + 1
    return {"course": replace(state.course, unsaved=event, unsaved_count=count)}


def _saved(state: RunState, event: Saved) -> dict[str, Any]:
    if not event.path.startswith("checkpoints"):
        return {}  # the LoRA itself, which nothing goes on from
    course = replace(state.course, saved=event, unsaved=None)
    return {"course": course, "marks": (*state.marks, course)[-MARKS:]}


def _sampled(state: RunState, event: Sampled) -> dict[str, Any]:
    return {"course": replace(state.course, sampled=event)}


def _requested(state: RunState, event: Requested) -> dict[str, Any]:
    return {"requests": (*state.requests, event)[-REQUESTS:]}


def _resumed(state: RunState, event: Resumed) -> dict[str, Any]:
    course = _back_to(state, event.step)
    marks = tuple(m for m in state.marks if m.step <= event.step)
    fresh = {"window": (), "process_steps": 0, "first_pace": None, "ended": None}
    return {"course": course, "marks": marks, **fresh}


def _back_to(state: RunState, step: int) -> Course:
    """The course as it was at a step: exact at a checkpoint, else what came before it is kept."""
    if state.course.step <= step:
        return replace(state.course, step=step)
    older = (m for m in reversed(state.marks) if m.step <= step)
    return replace(next(older, START), step=step)


def _ended(state: RunState, event: Finished | Failed) -> dict[str, Any]:
    return {"ended": event, **_phase_left(state, event.time)}


_FOLDS: dict[type[Event], Callable[[RunState, Any], dict[str, Any]]] = {
    Predicted: _predicted,
    Started: _started,
    Doing: _doing,
    Stepped: _stepped,
    Sensed: _sensed,
    Saved: _saved,
    SaveFailed: _save_failed,
    Sampled: _sampled,
    Requested: _requested,
    Resumed: _resumed,
    Finished: _ended,
    Failed: _ended,
}


def _ratio(over: float, under: float | None) -> float | None:
    return over / under if under is not None and under > 0 else None
