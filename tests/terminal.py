"""A Python command in a real terminal of 80 x 24 cells, and what that shows."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pexpect
import pyte


class Terminal:
    """`python` with some words, started at once; `env` is added to the environment."""

    def __init__(self, *words: str | Path, **env: str) -> None:
        self.child = pexpect.spawn(
            sys.executable,
            [str(word) for word in words],
            env={**os.environ, **env},
            dimensions=(24, 80),
            timeout=30,
        )
        self.child.delaybeforesend = None
        self._began = time.monotonic()
        self._up_seconds: float | None = None
        self.screen = pyte.Screen(80, 24)
        self._feed = pyte.ByteStream(self.screen)
        self.sent = b""

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    @property
    def soon(self) -> float:
        """Two seconds, or on a machine that is busy as long as the start took."""
        return max(2.0, self._up_seconds or 0)

    def until(self, words: str) -> str:
        """Wait until the screen shows this."""
        while words not in self.text:
            self.read()
        if self._up_seconds is None:
            self._up_seconds = time.monotonic() - self._began
        return self.text

    def read(self) -> None:
        """Wait for more output, and show it."""
        try:
            part = self.child.read_nonblocking(65536, timeout=30)
        except pexpect.TIMEOUT:
            raise AssertionError(f"it did not come; the screen shows:\n{self.text}") from None
        self.sent += part
        self._feed.feed(part)

    def end(self) -> int:
        """Read to the end, and return the exit code."""
        try:
            while True:
                self.read()
        except pexpect.EOF:
            self.child.close()
        assert self.child.exitstatus is not None, f"killed by signal {self.child.signalstatus}"
        return int(self.child.exitstatus)

    def hang_up(self) -> float:
        """Let the terminal go, as a broken line does; returns seconds until the process ended."""
        started = time.monotonic()
        # Not by number: this object would close the number again, which is another file's by then.
        self.child.ptyproc.fileobj.close()
        self.child.closed = self.child.ptyproc.closed = True
        self.child.child_fd = self.child.ptyproc.fd = -1
        self.child.ptyproc.wait()
        return time.monotonic() - started

    def close(self) -> None:
        """End it if it still runs."""
        if not self.child.closed:
            self.child.close(force=True)
