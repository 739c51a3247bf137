"""The log of a run as plain lines: for files, pipes, dumb terminals and screen readers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TextIO

from lorakit.runs import paging, words
from lorakit.runs.events import Doing, Event, Finished, Started, Stepped
from lorakit.runs.lines import describe
from lorakit.runs.state import RunState
from lorakit.runs.status import Status

EVERY_STEPS = 10
EVERY_SECONDS = 30
"""A line of figures comes after so many steps or so much time, whichever is first."""


class PlainLog:
    """Turns events into lines: no escape codes, no carriage returns, one record a line."""

    def __init__(self) -> None:
        self._phase = ""
        self._told_step = 0
        self._told_time = 0.0
        self._paging = False

    def lines(self, event: Event, state: RunState) -> Iterator[str]:
        """What to print for an event; `state` already holds it."""
        if isinstance(event, Started):
            yield self._say(event, f"{words.clean(event.name)}: {_who(event)}")
        line = describe(event)
        if line is not None:
            level = "" if line.level == "info" else f"{line.level}: "
            yield self._say(event, f"{level}{words.clean(line.text)}")
        if state.slowdown and not self._paging:
            yield self._say(event, f"warning: {paging.words(state.slowdown)}")
        self._paging = state.slowdown is not None
        if isinstance(event, Doing) and event.phase != self._phase:
            self._phase = event.phase
            yield self._say(event, figures(state))
        elif self._due(event, state):
            self._told_step = state.step
            yield self._say(event, figures(state))

    def _say(self, event: Event, text: str) -> str:
        self._told_time = event.time
        return f"{words.clock(event.time)}  {text}"

    def _due(self, event: Event, state: RunState) -> bool:
        if isinstance(event, Finished) or state.ended:
            return False
        if isinstance(event, Stepped):
            gone = state.step - self._told_step
            if gone >= EVERY_STEPS or gone < 0:
                return True
        return event.time - self._told_time >= EVERY_SECONDS


def figures(state: RunState) -> str:
    """The phase and its figures on one line, with as much as is known."""
    doing = state.doing
    phase = words.clean(doing.phase) if doing else "starting"
    if doing is not None and phase in ("downloading", "caching"):
        return f"{phase}  {progress(state)}"
    course, sensed = state.course, state.sensed
    parts = [
        phase,
        f"step {state.step}/{words.UNKNOWN if state.steps is None else state.steps}",
        words.percent(state.percent),
        f"loss {words.number(course.loss, '.4f')}",
        f"lr {words.number(course.learning_rate, '.2e')}",
        words.speed(state.steps_per_second),
        f"{words.number(state.images_per_second, '.1f')} images/s",
        f"{words.clean(sensed.memory_of) if sensed else 'memory'} "
        f"peak {words.number(state.memory_peak_gib, '.1f', 'GiB')}{_predicted(state)}",
        f"eta {words.duration(state.eta_seconds)}",
    ]
    if course.skipped:
        parts.append(f"{words.plural(course.skipped, 'step')} skipped")
    return "  ".join(parts)


def _predicted(state: RunState) -> str:
    told = state.predicted
    peak = told.peak_gib if told else None
    return f" (predicted {words.number(peak)})" if words.known(peak) else ""


def progress(state: RunState) -> str:
    """How far a phase is that counts something else than steps."""
    doing = state.doing
    if doing is None or doing.done is None:
        return words.UNKNOWN
    if doing.unit == "bytes":
        rate = f"{words.size(state.progress_per_second)}/s"
        text = f"{words.size(doing.done)} of {words.size(doing.total)}  {rate}"
    else:
        total = words.UNKNOWN if doing.total is None else doing.total
        text = f"{doing.done} of {total} {words.clean(doing.unit)}".rstrip()
    return f"{text}  eta {words.duration(state.progress_eta_seconds)}"


def _who(event: Started) -> str:
    return words.clean(
        f"{event.family}, {event.adapter}, {event.device}, {words.plural(event.steps, 'step')}"
    )


class PlainView:
    """One line for each thing worth telling. What happened before `watch` came is one line."""

    takes_keys = False

    def __init__(self, stream: TextIO, from_start: bool) -> None:
        self._stream = stream
        self._log = PlainLog()
        self._caught_up = from_start

    def open(self) -> None:
        """Nothing to take."""

    def close(self) -> None:
        """Nothing to give back."""

    def redraw(self) -> None:
        """Nothing to draw again."""

    def show(self, fresh: list[tuple[Event, RunState]], state: RunState, status: Status) -> None:
        """Print what is new."""
        if fresh and not self._caught_up:
            for event, after in fresh:
                list(self._log.lines(event, after))
            self.say(figures(state))
        else:
            for event, after in fresh:
                for line in self._log.lines(event, after):
                    self._stream.write(line + "\n")
        self._caught_up = True
        self._stream.flush()

    def say(self, text: str) -> None:
        """Print a line with the time."""
        self._stream.write(f"{words.clock(time.time())}  {text}\n")
        self._stream.flush()
