"""Follows a run until it ends or the viewer leaves: the one loop behind `train` and `watch`.

The run is another process and never waits for a viewer. Signals and keys reach the loop through
one `select`, so nothing is interrupted half drawn.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TextIO

from lorakit.errors import LorakitError
from lorakit.live.inputs import Inputs
from lorakit.live.plain import PlainView
from lorakit.runs import control
from lorakit.runs.directory import Run
from lorakit.runs.events import Event, Tail
from lorakit.runs.state import RunState, fold
from lorakit.runs.status import Status, is_running, status_of

REFRESH_SECONDS = 1.0
POLL_SECONDS = 0.2
"""How often the file of events is looked at; the panel is drawn once a second."""

KILL_SECONDS = 10.0
"""What an aborted trainer gets to end by itself."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How the following of a run came to its end."""

    state: RunState
    status: Status
    left: Literal["ended", "viewer left", "terminal gone"]
    signal: signal.Signals | None = None
    """What made this viewer ask the run to stop."""
    returncode: int | None = None
    """How the trainer's process ended, where it is ours and has."""


class View(Protocol):
    """What shows a run: the panel or plain lines."""

    def open(self) -> None:
        """Take the terminal, if it needs one."""

    def close(self) -> None:
        """Give it back as it was."""

    def show(self, fresh: list[tuple[Event, RunState]], state: RunState, status: Status) -> None:
        """Draw the state; `fresh` are the events since the last time, each with its state."""

    def say(self, text: str) -> None:
        """Tell the person what just happened."""

    def redraw(self) -> None:
        """Draw everything anew."""

    @property
    def takes_keys(self) -> bool:
        """Whether it tells which keys do what."""


def follow(
    run: Run,
    start: Callable[[], subprocess.Popen[bytes]] | None = None,
    stream: TextIO | None = None,
) -> Seen:
    """Show a run on `stream` (stderr) until it ends, the viewer leaves or the terminal is gone.

    With `start`, which starts the trainer, the run is ours and Ctrl-C stops it; without, Ctrl-C
    leaves.
    """
    stream = stream or sys.stderr
    view = view_for(stream, owner=start is not None, title=run.title)
    return _Follower(run, start, view).follow()


def view_for(stream: TextIO, owner: bool, title: str) -> View:
    """The panel where the terminal can show one, else plain lines."""
    if not _can_draw(stream):
        return PlainView(stream, from_start=owner)
    from lorakit.live.view import PanelView

    return PanelView(stream, owner, title)


def _can_draw(stream: TextIO) -> bool:
    """A terminal that moves its cursor, and that we are in front of: not `train ... &`."""
    if not stream.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        return False
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except OSError:
        return True


class _Follower:
    def __init__(
        self, run: Run, start: Callable[[], subprocess.Popen[bytes]] | None, view: View
    ) -> None:
        self._run = run
        self._start = start
        self._process: subprocess.Popen[bytes] | None = None
        self._view = view
        self._tail = Tail(run.events)
        self._state = RunState()
        self._status: Status = "starting"
        self._fresh: list[tuple[Event, RunState]] = []
        self._asked: signal.Signals | None = None
        self._abort_at: float | None = None
        self._sure_to_stop = False
        self._left: Literal["ended", "viewer left", "terminal gone"] | None = None

    def follow(self) -> Seen:
        """The loop. A terminal that goes away ends it and nothing else."""
        with Inputs(keys=self._view.takes_keys) as inputs:
            if self._start is not None:
                self._absorb()
                self._fresh = []  # what earlier processes of the run have said is no news
                # From here on no Ctrl-C can leave it without a viewer.
                self._process = self._start()
            try:
                self._view.open()
                self._loop(inputs)
            except OSError:
                self._left = "terminal gone"
            finally:
                with contextlib.suppress(OSError, ValueError):
                    self._view.close()
        returncode = self._process.poll() if self._process else None
        return Seen(self._state, self._status, self._left or "ended", self._asked, returncode)

    def _loop(self, inputs: Inputs) -> None:
        drawn = 0.0
        while self._left is None:
            self._look()
            ended = self._state.ended is not None or not is_running(self._status)
            now = time.monotonic()
            if ended or now - drawn >= REFRESH_SECONDS - POLL_SECONDS / 2:
                self._view.show(self._fresh, self._state, self._status)
                self._fresh = []
                drawn = now
            if ended:
                return
            self._press_on()
            for signum in inputs.wait(POLL_SECONDS):
                self._signalled(signum, inputs)
                drawn = 0.0
            for key in inputs.typed():
                self._pressed(key)
                drawn = 0.0

    def _look(self) -> None:
        if self._process is not None:
            self._process.poll()
        self._absorb()
        lives = self._run.lives(self._state)
        if not lives:
            self._absorb()  # what it said between our last look and its death
        self._status = status_of(self._state, lives, self._run.asked_to_stop)

    def _absorb(self) -> None:
        for event in self._tail.read():
            self._state = fold(self._state, event)
            self._fresh.append((event, self._state))

    def _signalled(self, signum: signal.Signals, inputs: Inputs) -> None:
        if signum in (signal.SIGINT, signal.SIGTERM):
            self._interrupted(signum)
        elif signum == signal.SIGHUP:
            self._left = "terminal gone"
        elif signum == signal.SIGTSTP:
            self._view.close()
            inputs.release()
            os.kill(os.getpid(), signal.SIGSTOP)
            inputs.take()
            self._view.open()
        else:
            self._view.redraw()

    def _interrupted(self, signum: signal.Signals) -> None:
        if self._process is None:
            self._left = "viewer left"
        elif self._asked is None:
            self._asked = signum
            self._ask("stop", "stopping after this step and saving; Ctrl-C again aborts")
        elif self._abort_at is None:
            self._abort_at = time.monotonic() + KILL_SECONDS
            self._view.say("aborting")
            self._kill(signal.SIGTERM)

    def _ask(self, what: control.Request, told: str) -> None:
        try:
            control.request(self._run, what)
        except LorakitError as error:
            told = error.message
        self._view.say(told)

    def _press_on(self) -> None:
        if self._abort_at is not None and time.monotonic() >= self._abort_at:
            self._abort_at = float("inf")
            self._kill(signal.SIGKILL)

    def _kill(self, signum: signal.Signals) -> None:
        """Signal the trainer and all that it started; its session is its process group."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signum)

    def _pressed(self, key: str) -> None:
        sure, self._sure_to_stop = self._sure_to_stop, False
        match key:
            case "":
                self._left = "terminal gone"
            case "d" | "q":
                self._left = "viewer left"
            case "s":
                self._ask("save", "asked for a checkpoint after this step")
            case "p":
                self._ask("sample", "asked for pictures after this step")
            case "x" if sure:
                self._ask("stop", "stopping after this step and saving")
            case "x":
                self._sure_to_stop = True
                self._view.say("x again stops the run after this step and saves it")
