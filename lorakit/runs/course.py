"""What losses and speeds add up to, step by step. Values only: each step gives a new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from lorakit.runs.events import Sampled, Saved, SaveFailed, Stepped

BETA = 0.98
"""Weight of the past in the smoothed loss, per step: it looks back about 50 steps."""

ENDS = 20
"""Losses averaged at the start and at the end of a run, to say how the loss went."""

POINTS = 120
"""The most points that a history keeps: one is a cell of a sparkline."""


class Pace(NamedTuple):
    """What some steps took together."""

    steps: int
    seconds: float
    wait_seconds: float
    images: int

    def with_more(self, other: Pace) -> Pace:
        """What these steps and others took."""
        return Pace(
            self.steps + other.steps,
            self.seconds + other.seconds,
            self.wait_seconds + other.wait_seconds,
            self.images + other.images,
        )


@dataclass(frozen=True, slots=True)
class History:
    """A series of any length in fewer than `POINTS` points, each the mean of `stride` values."""

    stride: int = 1
    points: tuple[float | None, ...] = ()
    """None where not one of the values was a number."""
    pending: tuple[float, int, int] = (0.0, 0, 0)
    """Of the point to come: the sum of its numbers, how many they are, how many values it saw."""

    def add(self, values: Iterable[float | None]) -> History:
        """The series with these values at its end."""
        stride, points = self.stride, list(self.points)
        total, numbers, seen = self.pending
        for value in values:
            seen += 1
            if value is not None:
                total += value
                numbers += 1
            if seen >= stride:
                points.append(total / numbers if numbers else None)
                total, numbers, seen = 0.0, 0, 0
                if len(points) >= POINTS:
                    points = [mean(points[i : i + 2]) for i in range(0, POINTS, 2)]
                    stride *= 2
        return History(stride, tuple(points), (total, numbers, seen))


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of those that are numbers, or None where none is."""
    numbers = [v for v in values if v is not None]
    return sum(numbers) / len(numbers) if numbers else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What is true of a run up to a step. Going back to a checkpoint goes back to its course."""

    step: int = 0
    """The last step done."""
    learning_rate: float | None = None
    skipped: int = 0
    """Steps whose loss was not finite."""
    loss: float | None = None
    """Smoothed: an exponential mean over steps, debiased."""
    loss_last: float | None = None
    """Of the last step as it was, None where it was not finite."""
    loss_min: float | None = None
    """The lowest smoothed loss; a mean of fewer than `ENDS` steps is no minimum."""
    loss_min_step: int | None = None
    counted: int = 0
    """Finite losses so far."""
    biased: float = 0.0
    """The exponential mean before debiasing."""
    first: tuple[float, ...] = ()
    last: tuple[float, ...] = ()
    losses: History = History()
    seconds: History = History()
    """Seconds of a step."""
    saved: Saved | None = None
    unsaved: SaveFailed | None = None
    """The last checkpoint that could not be written, until one is again."""
    unsaved_count: int = 0
    sampled: Sampled | None = None

    def after(self, event: Stepped) -> Course:
        """The course with the steps of this event, at least one, which follow on `step`."""
        biased, counted, loss = self.biased, self.counted, self.loss
        loss_min, loss_min_step = self.loss_min, self.loss_min_step
        number = event.step - len(event.losses)
        for value in event.losses:
            number += 1
            if value is None:
                continue
            counted += 1
            biased = BETA * biased + (1 - BETA) * value
            loss = biased / (1 - BETA**counted)
            if counted >= ENDS and (loss_min is None or loss < loss_min):
                loss_min, loss_min_step = loss, number
        finite = tuple(v for v in event.losses if v is not None)
        each = event.seconds / len(event.losses)
        return replace(
            self,
            step=event.step,
            learning_rate=event.learning_rate,
            skipped=self.skipped + len(event.losses) - len(finite),
            loss=loss,
            loss_last=event.losses[-1],
            loss_min=loss_min,
            loss_min_step=loss_min_step,
            counted=counted,
            biased=biased,
            first=(self.first + finite)[:ENDS] if len(self.first) < ENDS else self.first,
            last=(self.last + finite)[-ENDS:],
            losses=self.losses.add(event.losses),
            seconds=self.seconds.add([each] * len(event.losses)),
        )


START = Course()
"""Before the first step."""
