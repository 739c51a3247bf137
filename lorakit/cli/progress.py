"""How far a command is that takes a while: a line that stays in place, or one every few seconds."""

from __future__ import annotations

import os
import shutil
import sys
import time

from lorakit.runs.words import duration

SHOWN_SECONDS = 0.2
"""Between two versions of the line in a terminal."""
PRINTED_SECONDS = 5.0
"""Between two lines where there is none."""


class Progress:
    """Tells on stderr how many of how many are done: `looked at 120 of 2,000 pictures, 6 %`."""

    def __init__(self, what: str, noun: str = "pictures") -> None:
        self._what, self._noun = what, noun
        self._began = self._told = time.monotonic()
        self._places = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Told after each; most calls say nothing."""
        now = time.monotonic()
        if now - self._told < (SHOWN_SECONDS if self._places else PRINTED_SECONDS):
            return
        self._told = now
        line = self._line(done, total, now - self._began)
        if self._places:
            self.show(line)
        else:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def show(self, line: str) -> None:
        """Put a line in its place, where there is a terminal."""
        if self._places:
            columns = shutil.get_terminal_size().columns
            sys.stderr.write(f"\r{line[: columns - 1].ljust(columns - 1)}")
            sys.stderr.flush()
            self._shown = True

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write(f"\r{' ' * (shutil.get_terminal_size().columns - 1)}\r")
            sys.stderr.flush()
            self._shown = False

    def _line(self, done: int, total: int, seconds: float) -> str:
        share = f", {100 * done // total} %" if total else ""
        rate = done / seconds
        left = f", {duration((total - done) / rate)} left" if rate else ""
        return f"{self._what} {done:,} of {total:,} {self._noun}{share}, {rate:.0f}/s{left}"
