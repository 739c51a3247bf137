"""Starts the trainer as a process of its own, which outlives the terminal it was started from."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import platform
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from lorakit import __version__, durable
from lorakit.errors import ExitCode, LorakitError
from lorakit.hardware.detect import detect
from lorakit.hardware.environment import for_training
from lorakit.hardware.facts import Hardware
from lorakit.planner.estimate import Estimate
from lorakit.runs.control import myself
from lorakit.runs.directory import Run
from lorakit.runs.events import Doing, Failed, Log, Predicted, Tail
from lorakit.runs.identity import identify
from lorakit.runs.state import RunState, replay
from lorakit.runs.status import is_running
from lorakit.runs.words import clean

WORKER: tuple[str, ...] = (sys.executable, "-P", "-m", "lorakit.train.worker")
"""The trainer's command, before the run. -P: files in the run directory are never imported."""

LOCK = ".trainer"
"""A file that the trainer holds locked while it lives."""

TAIL_LINES = 8
"""Lines of `train.log` shown for a trainer that died without a word."""


def refuse_running(run: Run) -> None:
    """Raise LorakitError where a run is already being trained."""
    if run.process and is_running(run.status()):
        raise _taken(run)


def launch(run: Run, estimate: Estimate | None = None) -> subprocess.Popen[bytes]:
    """Start the trainer in a session of its own and write `run.json`.

    Its output goes to `train.log`, its environment is ours, with the card to train on where there
    are several. What earlier processes of the run have said no longer holds from here on. What the
    estimate predicts is written for viewers to show beside what is measured. Raises LorakitError
    where the run is already being trained, and where its directory cannot be written.
    """
    refuse_running(run)
    machine = detect()
    try:
        with (run.path / LOCK).open("ab") as lock:
            _take(lock, run)
            process = _begin(run, machine, estimate, lock)
        try:
            _introduce(run, machine, process)
        except OSError:
            process.kill()  # nobody could tell that it lives
            process.wait()
            raise
    except OSError as error:
        raise LorakitError(
            f"The trainer of {run.name} cannot be started: {error.strerror or error}.",
            f"Is there room in {run.path}, and may you write there?",
            ExitCode.DATA,
        ) from error
    return process


def _begin(
    run: Run, machine: Hardware, estimate: Estimate | None, lock: IO[bytes]
) -> subprocess.Popen[bytes]:
    """The trainer's process, which holds the lock until it is gone, however it goes."""
    for stale in run.control.glob("*"):
        with contextlib.suppress(OSError):
            stale.unlink()
    with contextlib.closing(Log(run.events)) as events:
        events.append(Doing(phase="starting"))
        if estimate is not None:
            events.append(predicted(estimate))
    with run.log.open("ab") as log:
        return subprocess.Popen(
            [*WORKER, str(run.path)],
            cwd=run.path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(machine),
            start_new_session=True,
            close_fds=True,
            pass_fds=(lock.fileno(),),
        )


def _introduce(run: Run, machine: Hardware, process: subprocess.Popen[bytes]) -> None:
    """Write who trains the run, and on what, into `run.json`."""
    identity = identify(process.pid)
    facts = {
        **(dataclasses.asdict(identity) if identity else {"host": socket.gethostname()}),
        "user": myself().partition("@")[0],
        "time": time.time(),
        "lorakit": __version__,
        "python": platform.python_version(),
        "argv": process.args,
        "device": machine.device,
        "card": machine.accelerator.uuid if machine.accelerator else "",
    }
    durable.write(run.path / "run.json", f"{json.dumps(facts, indent=2)}\n".encode())


def environment(machine: Hardware | None = None) -> dict[str, str]:
    """The environment for a process that trains or draws: ours, and what names its card.

    `machine` is this one, which is looked at where it is not given.
    """
    return {**os.environ, **for_training(machine or detect(), os.environ)}


def predicted(estimate: Estimate) -> Predicted:
    """An estimate as the event that viewers read."""
    step, total = estimate.step_seconds, estimate.total_seconds
    return Predicted(
        peak_gib=estimate.peak_gib,
        step_seconds_low=step.low if step else None,
        step_seconds_high=step.high if step else None,
        total_seconds_low=total.low if total else None,
        total_seconds_high=total.high if total else None,
    )


START_SECONDS = 60
"""A trainer that is not up after this long may still come; nobody has to wait for it."""


def _take(lock: IO[bytes], run: Run) -> None:
    """Take a run for one trainer alone, so that two that start at once cannot both have it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _taken(run) from None
    except OSError:  # a file system without locks
        return


def _taken(run: Run) -> LorakitError:
    return LorakitError(
        f"The run {run.name} is already being trained, by process {run.process.get('pid')}.",
        f"Look at it with: lorakit watch {shlex.quote(run.name)}",
    )


def await_started(
    run: Run, process: subprocess.Popen[bytes], seconds: float = START_SECONDS
) -> bool:
    """Wait until the trainer has read its bundle and is up, or for `seconds`: whether it is up.

    Raises LorakitError where it fails or dies before.
    """
    tail, state = Tail(run.events), RunState()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended = process.poll()
        state = replay(tail.read(), state)
        if isinstance(state.ended, Failed):
            raise failure(run, state.ended)
        if state.up or state.ended:
            return True
        if ended is not None:
            raise death(run, ended)
        time.sleep(0.05)
    return False


def death(run: Run, returncode: int | None) -> LorakitError:
    """The error for a trainer that is gone without a last word."""
    how, hint = _how(returncode)
    lines = log_tail(run.log)
    said = "\n".join(["Its last lines:", *(f"  {line}" for line in lines)]) if lines else ""
    where = f"All it printed is in {run.log}."
    return LorakitError(
        f"The trainer of {run.name} {how}.",
        "\n".join(part for part in (hint, where, said) if part),
        ExitCode.TRAINING_FAILED,
    )


def failure(run: Run, event: Failed) -> LorakitError:
    """The error for a run that failed, as its trainer told it."""
    hint = "\n".join(part for part in (event.hint, f"All it printed is in {run.log}.") if part)
    try:
        code = ExitCode(event.exit_code)
    except ValueError:
        code = ExitCode.TRAINING_FAILED
    return LorakitError(event.message, hint, code)


def _how(returncode: int | None) -> tuple[str, str]:
    if returncode is None:
        return "is gone without saying why", ""
    if returncode >= 0:
        return f"ended with exit code {returncode} and said no more", ""
    name = signal_name(-returncode)
    hint = "The system kills what asks for too much memory; its log tells (dmesg)."
    return f"was killed by {name}", hint if name == "SIGKILL" else ""


def signal_name(number: int) -> str:
    """`SIGKILL`, or `signal 77` for one that has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def log_tail(path: Path, lines: int = TAIL_LINES) -> list[str]:
    """The last lines of a log that say something, safe to show."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 16_384))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    told = [clean(line.rstrip().rpartition("\r")[2]) for line in text.split("\n") if line.strip()]
    return told[-lines:]
