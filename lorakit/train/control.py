"""Requests to a running trainer: files in the run's `control/`, and signals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from types import FrameType

from lorakit.errors import ExitCode
from lorakit.runs.events import Log, Requested

FOLDER = "control"


class Control:
    """What has been asked for. Looking costs one directory listing a step."""

    def __init__(self, run: Path, log: Log) -> None:
        self._folder = run / FOLDER
        self._folder.mkdir(exist_ok=True)
        self._log = log
        self.signal: int | None = None
        self._stop = False

    def listen(self) -> None:
        """First SIGINT or SIGTERM: stop after this step, saved. Second: leave at once.

        A hang-up is ignored: the terminal may go, the training stays.
        """
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signalled)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self.stopping():
            os._exit(128 + number)
        self.signal = number

    @property
    def exit_code(self) -> ExitCode:
        """What a stopped run ends with."""
        codes = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
        return codes.get(self.signal, ExitCode.OK)  # type: ignore[call-overload]

    def stopping(self) -> bool:
        """Whether to stop now. Once asked for, a stop is final."""
        self._stop = self._stop or self.signal is not None or (self._folder / "stop").exists()
        return self._stop

    def take(self) -> set[str]:
        """Requests other than stop that came since the last look, each announced and taken away."""
        found: set[str] = set()
        try:
            names = os.listdir(self._folder)
        except OSError:  # somebody removed the folder: nobody can ask for anything
            return found
        for name in names:
            if name in ("save", "sample"):
                self._announce(name)
                found.add(name)
        return found

    def finish(self) -> None:
        """Announce a stop and take its request away."""
        if (self._folder / "stop").exists():
            self._announce("stop")
        elif self.signal is not None:
            self._log.append(Requested(what="stop", by=signal.Signals(self.signal).name))

    def _announce(self, name: str) -> None:
        path = self._folder / name
        try:
            by = str(json.loads(path.read_text(encoding="utf-8")).get("by", ""))
        except (OSError, ValueError, AttributeError):
            by = ""
        with contextlib.suppress(OSError):
            path.unlink()
        self._log.append(Requested(what=name, by=by))
