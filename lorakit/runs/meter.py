"""The process that measures steps: asked in lines of JSON, and started anew where it died."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from lorakit.runs.launch import signal_name

METER: tuple[str, ...] = (sys.executable, "-P", "-m", "lorakit.train.bench")
"""The command that measures."""

START_SECONDS = 180.0
"""Importing torch and diffusers takes a few seconds, and from a cold disk much longer."""


class Died(Exception):
    """The process that measures is gone, or does not answer; in words."""


class Killed(Died):
    """The system ended it, as it does with what asks for too much memory of the machine."""


class Silent(Died):
    """It did not answer in time, and was ended."""


class Meter:
    """The process that measures. It is started when it is first asked, and again after it died."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._read = b""

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._log.close()

    def start(self) -> dict[str, Any]:
        """Start it and return what it says of the machine. Raises Died."""
        self._read = b""
        self._log.seek(0)
        self._log.truncate()  # the last words of one before are not those of this one
        self._process = subprocess.Popen(
            METER,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is ours, and we end it
        )
        return self._answer(START_SECONDS)

    def ask(self, case: dict[str, Any], patience_seconds: float) -> dict[str, Any]:
        """What a case took, or its `failure`. Raises Died."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(case).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None
        answer = self._answer(patience_seconds)
        if "failure" in answer and "hint" not in answer:
            self._end()  # it ends by itself after these, and is not asked again
        return answer

    def _answer(self, patience_seconds: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        until = time.monotonic() + patience_seconds
        while b"\n" not in self._read:
            left = until - time.monotonic()
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, left))
            if not ready:
                self._end()
                raise Silent(f"gave no answer in {patience_seconds:.0f} seconds")
            more = os.read(self._process.stdout.fileno(), 65536)
            if not more:
                raise self._death()
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told

    def _death(self) -> Died:
        """How the process ended."""
        assert self._process is not None
        code = self._process.wait()
        if code == -signal.SIGKILL:
            return Killed("was killed by SIGKILL, as the system does where memory runs out")
        if code < 0:
            return Died(f"was killed by {signal_name(-code)}")
        return Died(f"ended with exit code {code}{self._last_words()}")

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f": {said[-1][:300]}" if said else ""

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None
