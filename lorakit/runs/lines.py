"""What the log says of each event."""

from __future__ import annotations

from typing import Literal, NamedTuple

from lorakit.runs import words
from lorakit.runs.events import (
    Event,
    Failed,
    Finished,
    Noted,
    Predicted,
    Requested,
    Resumed,
    Sampled,
    Saved,
    SaveFailed,
)


class LogLine(NamedTuple):
    """A line of the log that viewers show."""

    time: float
    text: str
    level: Literal["info", "warning", "error"] = "info"


def predictions(event: Predicted) -> tuple[str, str, str]:
    """What was predicted, in words: peak, step and all of it; empty what was not."""
    peak = words.number(event.peak_gib, ".1f", "GiB")
    step = words.span(event.step_seconds_low, event.step_seconds_high, words.decimal)
    total = words.span(event.total_seconds_low, event.total_seconds_high, words.duration)
    return (
        f"{peak} at most" if words.known(event.peak_gib) else "",
        f"{step} s a step" if words.known(event.step_seconds_high) else "",
        f"{total} in all" if words.known(event.total_seconds_high) else "",
    )


def describe(event: Event) -> LogLine | None:
    """What the log says of an event, or None where it is silent."""
    match event:
        case Noted():
            return LogLine(event.time, event.text, event.level)
        case Predicted() if any(told := predictions(event)):
            return LogLine(event.time, "predicted: " + ", ".join(filter(None, told)))
        case Saved():
            what = "checkpoint" if event.path.startswith("checkpoints") else "LoRA"
            return LogLine(
                event.time, f"{what} of step {event.step} saved ({words.size(event.size_bytes)})"
            )
        case SaveFailed():
            text = f"checkpoint of step {event.step} was not written: {event.reason}"
            return LogLine(event.time, text, "error")
        case Sampled():
            drawn = words.plural(len(event.paths), "picture")
            return LogLine(event.time, f"{drawn} drawn at step {event.step}")
        case Requested():
            by = f" by {event.by}" if event.by else ""
            return LogLine(event.time, f"{event.what} requested{by}")
        case Resumed():
            text = f"resumed from step {event.step}" if event.step else "begun again"
            return LogLine(event.time, text)
        case Finished():
            return LogLine(event.time, f"{event.outcome} at step {event.step}")
        case Failed():
            return LogLine(event.time, f"failed: {event.message}", "error")
    return None
