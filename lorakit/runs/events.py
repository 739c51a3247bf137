"""The lines of a run's `events.jsonl`: written by the trainer, folded by every viewer.

One JSON object a line with a `kind` and a `time` (unix seconds). A reader skips kinds and keys it
does not know, and an unfinished last line, so old and new versions can watch each other's runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

FILE = "events.jsonl"

Phase = Literal["starting", "downloading", "caching", "training", "sampling", "saving", "stopping"]
"""What a trainer that lives is doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events share."""

    kind: ClassVar[str] = ""
    time: float = field(default_factory=time.time)
    """Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """The trainer is up and has read its bundle. `steps` is the target, absolute."""

    kind: ClassVar[str] = "started"
    name: str
    family: str
    adapter: str
    """In words, such as `LoRA rank 8 on linear`."""
    device: str
    """In words, such as `NVIDIA GeForce RTX 4090` or `CPU, 2 threads`."""
    steps: int
    batch_size: int
    accumulation: int = 1
    sample_every: int = 0
    save_every: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    spills: bool = False
    """Whether its driver is one of Windows, WSL included, which moves memory of a full card into
    RAM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted(Event):
    """What the training was predicted to take before it was launched. None is unknown."""

    kind: ClassVar[str] = "predicted"
    peak_gib: float | None = None
    step_seconds_low: float | None = None
    step_seconds_high: float | None = None
    total_seconds_low: float | None = None
    total_seconds_high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing(Event):
    """The phase has changed, or got further: `done` of `total` in `unit` (pictures, bytes)."""

    kind: ClassVar[str] = "doing"
    phase: Phase
    done: int | None = None
    total: int | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(Event):
    """Steps `step - len(losses) + 1` to `step` are done.

    Reported together: a loss stays on the device until then, so that no step waits for one.
    """

    kind: ClassVar[str] = "stepped"
    step: int
    losses: list[float | None]
    """Mean loss of each step; None where it was not finite and the step was skipped."""
    learning_rate: float
    seconds: float
    """Wall time of these steps together, without sampling and saving."""
    wait_seconds: float
    """Part of `seconds` spent waiting for data."""
    images: int
    """Pictures seen in these steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensed(Event):
    """What the sensors say. None: no sensor answers. Doubles as the heartbeat, about every 2 s."""

    kind: ClassVar[str] = "sensed"
    memory_of: str = "RAM"
    """What the next three are of: `VRAM`, or `RAM` where there is no accelerator."""
    memory_gib: float | None = None
    """Held by the trainer now."""
    memory_peak_gib: float | None = None
    """The most it has held."""
    memory_total_gib: float | None = None
    memory_free_gib: float | None = None
    """As the card's driver counts it, with what others hold."""
    utilisation_percent: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    ram_gib: float | None = None
    """Used on the machine."""
    ram_total_gib: float | None = None
    disk_free_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved(Event):
    """A checkpoint is complete. `path` is relative to the run."""

    kind: ClassVar[str] = "saved"
    step: int
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveFailed(Event):
    """A checkpoint could not be written. The last one stays; the next is tried when it is due."""

    kind: ClassVar[str] = "save_failed"
    step: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled(Event):
    """Pictures were drawn; `paths` are relative to the run, one for each prompt."""

    kind: ClassVar[str] = "sampled"
    step: int
    paths: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Event):
    """A line for the log."""

    kind: ClassVar[str] = "noted"
    text: str
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested(Event):
    """Someone asked for something: `what` is stop, save or sample; `by` is user@host."""

    kind: ClassVar[str] = "requested"
    what: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """The run goes on from this step: what earlier lines say of later steps no longer holds."""

    kind: ClassVar[str] = "resumed"
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """The run has ended as asked."""

    kind: ClassVar[str] = "finished"
    outcome: Literal["done", "stopped"]
    step: int
    files: list[str]
    """What came out, relative to the run: adapter files first, then contact sheets."""
    digest: str = ""
    """Result digest: sha256 over the sorted tensors."""
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """The run has ended with an error."""

    kind: ClassVar[str] = "failed"
    message: str
    hint: str = ""
    exit_code: int = 1


KINDS: dict[str, type[Event]] = {
    k.kind: k
    for k in (
        Predicted, Started, Doing, Stepped, Sensed, Saved, SaveFailed, Sampled, Noted, Requested,
        Resumed, Finished, Failed,
    )
}  # fmt: skip


def encode(event: Event) -> str:
    """One line of JSON, without the line end. Non-finite numbers are refused with ValueError."""
    body = {"kind": event.kind, **dataclasses.asdict(event)}
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def decode(line: str) -> Event | None:
    """The event of a line, or None for a line that is cut short, of a kind not known here, or with
    a value that its field cannot hold."""
    try:
        body: dict[str, Any] = json.loads(line)
        made = KINDS[body.pop("kind")]
        fits = _FITS[made]
        known = {k: v for k, v in body.items() if k in fits}
        return made(**known) if all(fits[k](v) for k, v in known.items()) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_int(value: object) -> bool:
    return type(value) is int and abs(value) < 2**63


def _is_float(value: object) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_str(value: object) -> bool:
    return isinstance(value, str)


def _optional(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or fits(value)


def _list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_words(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_str, value.values()))


_CHECKS: dict[str, Callable[[object], bool]] = {
    "int": _is_int,
    "int | None": _optional(_is_int),
    "float": _is_float,
    "float | None": _optional(_is_float),
    "str": _is_str,
    "bool": _is_bool,
    "list[float | None]": _list_of(_optional(_is_float)),
    "list[str]": _list_of(_is_str),
    "dict[str, str]": _is_words,
    # A word from a fixed set may be one of a newer version.
    "Phase": _is_str,
    "Literal": _is_str,
}

_FITS = {
    made: {f.name: _CHECKS[str(f.type).partition("['")[0]] for f in dataclasses.fields(made)}
    for made in KINDS.values()
}
"""For each kind, what a field accepts."""


class Log:
    """The writer's end: each event is on its way to the disk when `append` returns.

    A write that fails (a full disk) must not end a training: the event is dropped, which is said on
    stderr at once, and among the events as soon as they can be written again. A line that was cut,
    by a full disk or by the kill of an earlier process, is ended before the next one.
    """

    def __init__(self, path: Path) -> None:
        self.dropped = 0
        """Events that were not written since the last one that was."""
        self._why = ""
        self._lock = threading.Lock()  # the heartbeat writes too
        self._cut = _is_cut(path)
        self._file = path.open("ab", buffering=0)  # a buffer would write a dropped event later on

    def append(self, event: Event) -> None:
        """Write one event so that any reader sees it at once."""
        line = _line(event)
        with self._lock:
            if self.dropped:
                were = "event was" if self.dropped == 1 else "events were"
                text = f"{self.dropped} {were} not written: {self._why}"
                if not self._write(_line(Noted(text=text, level="warning"))):
                    self.dropped += 1
                    return
                self.dropped = 0
            if not self._write(line):
                self.dropped = 1
                with contextlib.suppress(OSError):  # train.log may be on the same disk
                    print(f"lorakit: events are not written: {self._why}", file=sys.stderr)

    def close(self) -> None:
        """Let the file go."""
        self._file.close()

    def _write(self, line: bytes) -> bool:
        """Whether the line was written, all of it."""
        rest = b"\n" + line if self._cut else line
        try:
            while rest:
                written = self._file.write(rest)
                self._cut, rest = True, rest[written:]
        except OSError as error:
            self._why = error.strerror or str(error)
            return False
        self._cut = False
        return True


def _line(event: Event) -> bytes:
    return encode(event).encode("utf-8", "backslashreplace") + b"\n"


def _is_cut(path: Path) -> bool:
    """Whether a file ends in the middle of a line."""
    try:
        with path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except FileNotFoundError:
        return False


class Tail:
    """A reader's end: each `read` returns the events that were added since the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> Iterator[Event]:
        """New events, in order. A file that is not there yet has none."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read()
        except FileNotFoundError:
            return
        self._offset += len(fresh)
        *lines, self._rest = (self._rest + fresh).split(b"\n")
        for line in lines:
            event = decode(line.decode("utf-8", errors="replace"))
            if event is not None:
                yield event
