"""The live panel: all that is known of a run, in as many lines and cells as the terminal has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from lorakit.live.bars import RULE, bar, sparkline
from lorakit.runs import words
from lorakit.runs.lines import LogLine
from lorakit.runs.state import RunState
from lorakit.runs.status import Status, is_running

SPARK_COLUMN = 54
"""Cell in which the sparklines begin, where the terminal is wide enough for them."""

SILENCE_SECONDS = 15
"""A heartbeat comes every 2 s; after this long without one the panel says so."""

COLOURS = {"failed": "red", "lost": "red", "stopping": "yellow", "stopped": "yellow"}


class Surroundings(NamedTuple):
    """What a panel shows besides the run: how to leave, and what was just done."""

    title: str = ""
    """Name of the run until its trainer has told it."""
    footer: str = ""
    message: str = ""
    ascii_only: bool = False


def render(
    state: RunState,
    width: int,
    height: int,
    now: float,
    status: Status,
    around: Surroundings = Surroundings(),  # noqa: B008
) -> Group:
    """Lines of at most `width` cells and at most `height` of them.

    `now` is in unix seconds, for the ages of things. Where the terminal is low, the log goes first,
    then the sensors, and the step and the footer last.
    """
    figures = _figures(state, width, now, status, around)
    foot = [_line(f" {words.clean(around.message)}", width)] if around.message else []
    foot.append(_line(f" {around.footer}", width, "bold"))
    log_room = height - len(figures) - len(foot) - 2
    if log_room < 1:
        top = figures[: max(0, height - len(foot))]
        blank = [Text("")] * (height - len(top) - len(foot))
        return Group(*[*top, *blank, *foot][-height:])
    log = [_log_line(line, width) for line in state.log[-log_room:]]
    blank = [Text("")] * (log_room - len(log))
    rule = Text(("-" if around.ascii_only else RULE) * width, style="dim")
    return Group(*figures, rule, *log, *blank, rule, *foot)


def _figures(
    state: RunState, width: int, now: float, status: Status, around: Surroundings
) -> list[Text]:
    """The lines with numbers, the most important first."""
    wide = width > SPARK_COLUMN + 8
    spark = min(60, width - SPARK_COLUMN - 1) if wide else 0
    course, plain = state.course, around.ascii_only
    return [
        _head(state, width, now, status, around.title),
        _line(f" {_what(state)}", width),
        _step(state, width, status, plain),
        _row(
            "speed",
            [
                (words.speed(state.steps_per_second), 11),
                (words.number(state.images_per_second, ".1f", "images/s"), 14),
                (f"data wait {words.percent(state.wait_percent)}", 0),
            ],
            width,
            sparkline(state.speeds, spark, plain),
        ),
        *_predicted(state, width),
        _row(
            "loss",
            [
                (words.number(course.loss, ".4f"), 8),
                (_minimum(state), 20),
                (f"lr {words.number(course.learning_rate, '.2e')}", 0),
            ],
            width,
            sparkline(state.losses, spark, plain),
            _skipped(course.skipped),
        ),
        _memory(state, width),
        _device(state, width),
        _row("last", [(_last(state, now), 0)], width),
    ]


def _head(state: RunState, width: int, now: float, status: Status, title: str) -> Text:
    who = state.started.name if state.started else title or words.UNKNOWN
    right = f"{status}  {words.duration(_lived(state, now, status))} "
    silent = now - state.last_time if state.last_time is not None else 0.0
    if is_running(status) and silent > SILENCE_SECONDS:
        right = f"no sign for {words.duration(silent)}  {right}"
    room = max(0, width - cell_len(right) - 3)
    name = _fit(words.clean(who), room)
    line = Text(f" {name}{' ' * (room - cell_len(name))}  ", style="bold")
    return _cut(line.append(right, style=COLOURS.get(status, "")), width)


def _what(state: RunState) -> str:
    if state.started is None:
        return words.UNKNOWN
    return words.clean(
        f"{state.started.family}  {state.started.adapter}  on {state.started.device}"
    )


def _lived(state: RunState, now: float, status: Status) -> float:
    """How long the run has lived, to this second where it still does."""
    if is_running(status) and state.last_time is not None:
        return state.elapsed_seconds + max(0.0, now - state.last_time)
    return state.elapsed_seconds


def _step(state: RunState, width: int, status: Status, plain: bool) -> Text:
    """The step, or how far a phase is that is counted in something else."""
    doing = state.doing
    if status in ("downloading", "caching") and doing is not None and doing.done is not None:
        if doing.unit == "bytes":
            count = f"{words.size(doing.done)} of {words.size(doing.total)}"
            rate = f"{words.size(state.progress_per_second)}/s"
        else:
            count = (
                f"{doing.done}/{words.UNKNOWN if doing.total is None else doing.total} {doing.unit}"
            )
            rate = words.number(state.progress_per_second, ".1f", f"{doing.unit}/s")
        percent = 100 * doing.done / doing.total if doing.total else None
        right = f"{rate}   eta {words.duration(state.progress_eta_seconds):>7}"
        label: str = status
    else:
        count = f"{state.step}/{words.UNKNOWN if state.steps is None else state.steps}"
        percent = state.percent
        right = f"eta {words.duration(state.eta_seconds):>7}"
        label = "step"
    left = f" {label:<7} {words.clean(count):<13} {words.percent(percent):>5}  "
    room = width - cell_len(left) - cell_len(right) - 3
    drawn = bar(percent, room, plain) if room >= 5 else ""
    return _cut(Text(f"{left}{drawn}  {right} "), width)


def _predicted(state: RunState, width: int) -> list[Text]:
    """What a step takes beside what it was predicted to, where it was."""
    told = state.predicted
    if told is None or not words.known(told.step_seconds_high):
        return []
    step = words.span(told.step_seconds_low, told.step_seconds_high, words.decimal)
    total = words.span(told.total_seconds_low, told.total_seconds_high, words.duration)
    cells = [(f"{words.decimal(state.step_seconds)} s (predicted {step})", 34)]
    if words.known(told.total_seconds_high):
        cells.append((f"predicted in all {total}", 0))
    return [_row("a step", cells, width)]


def _minimum(state: RunState) -> str:
    course = state.course
    if course.loss_min is None:
        return f"min {words.UNKNOWN}"
    return f"min {words.number(course.loss_min, '.4f')} at {course.loss_min_step}"


def _skipped(count: int) -> tuple[str, str] | None:
    return (f"{words.plural(count, 'step')} skipped: loss not finite", "yellow") if count else None


def _memory(state: RunState, width: int) -> Text:
    sensed = state.sensed
    total = sensed.memory_total_gib if sensed else None
    peak = state.memory_peak_gib
    share = 100 * peak / total if peak is not None and total else None
    word = None
    if state.slowdown:
        word = (f"paging, {state.slowdown:.0f}x slower", "red")
    elif share is not None and share >= 97:
        word = ("near limit", "red")
    elif share is not None and share >= 90:
        word = ("tight", "yellow")
    cells = [
        (sensed.memory_of if sensed else words.UNKNOWN, 5),
        (f"now {words.number(sensed.memory_gib if sensed else None)}", 10),
        (f"peak {words.number(peak)} of {words.number(total, '.1f', 'GiB')}", 23),
    ]
    if state.predicted and words.known(state.predicted.peak_gib):  # closer together, to fit
        text = f"{cells[2][0]}, predicted {words.number(state.predicted.peak_gib)}"
        cells = [(cells[0][0], 4), (cells[1][0], 8), (text, 37)]
    return _row(
        "memory",
        [*cells, (words.percent(share), 0)],
        width,
        remark=word,
    )


def _device(state: RunState, width: int) -> Text:
    sensed = state.sensed
    if sensed is None:
        return _row("device", [(words.UNKNOWN, 0)], width)
    power = (
        f"{words.number(sensed.power_w, '.0f')}/{words.number(sensed.power_limit_w, '.0f', 'W')}"
    )
    return _row(
        "device",
        [
            (words.percent(sensed.utilisation_percent), 6),
            (words.number(sensed.temperature_c, ".0f", "C"), 5),
            (power if sensed.power_w is not None else f"{words.UNKNOWN} W", 10),
            (
                f"ram {words.number(sensed.ram_gib)} of "
                f"{words.number(sensed.ram_total_gib, '.1f', 'GiB')}",
                23,
            ),
            (f"disk {words.number(sensed.disk_free_gib, '.0f', 'GiB')} free", 0),
        ],
        width,
    )


def _last(state: RunState, now: float) -> str:
    saved, sampled = state.course.saved, state.course.sampled
    failed = state.course.unsaved
    parts = [
        f"saved step {saved.step}, {words.ago(now - saved.time)}" if saved else "nothing saved yet",
        f"step {failed.step} NOT saved: {failed.reason}" if failed else "",
        f"drawn step {sampled.step}, {words.ago(now - sampled.time)}" if sampled else "",
    ]
    return "   ".join(part for part in parts if part)


def _log_line(line: LogLine, width: int) -> Text:
    style = {"warning": "yellow", "error": "red"}.get(line.level, "")
    level = "" if line.level == "info" else f"{line.level}: "
    return _line(f" {words.clock(line.time)}  {level}{words.clean(line.text)}", width, style)


def _row(
    label: str,
    cells: Iterable[tuple[str, int]],
    width: int,
    spark: str = "",
    remark: tuple[str, str] | None = None,
) -> Text:
    """A label and columns that stay where they are; a remark stands in place of a sparkline."""
    text = f" {label:<7} " + "  ".join(f"{words.clean(cell):<{size}}" for cell, size in cells)
    line = Text(text)
    if remark:
        line.append(f"  {remark[0]}", style=remark[1])
    elif spark:
        line = Text(_fit(text, SPARK_COLUMN).ljust(SPARK_COLUMN)).append(spark)
    return _cut(line, width)


def _line(text: str, width: int, style: str = "") -> Text:
    return Text(_fit(text, width), style=style)


def _fit(text: str, width: int) -> str:
    """Cut to a number of cells; what was cut is marked by a tilde."""
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)) + "~"[:width]


def _cut(text: Text, width: int) -> Text:
    text.no_wrap = True
    text.truncate(width, overflow="crop")
    return text
