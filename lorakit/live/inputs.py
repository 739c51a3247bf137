"""Signals and keys, waited for together, so that nothing is interrupted half done."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from types import TracebackType
from typing import Any

CAUGHT = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT,
)  # fmt: skip


class Inputs:
    """Inside it signals arrive as bytes in a pipe and keys one by one; after it all is as before.

    A signal that is ignored (nohup, a job in the background) stays ignored.
    """

    def __init__(self, keys: bool) -> None:
        self._typed: list[str] = []
        self._keyboard = _keyboard() if keys else None
        self._cooked: list[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Inputs:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._woken = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for signum in CAUGHT:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, lambda *_: None)
        self.take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._woken)
        os.close(self._read_end)
        os.close(self._write_end)

    def take(self) -> None:
        """Have the keyboard give each key at once and show none."""
        if self._keyboard is not None:
            try:
                self._cooked = termios.tcgetattr(self._keyboard)
                tty.setcbreak(self._keyboard, termios.TCSANOW)
            except (OSError, termios.error):
                self._keyboard = None

    def release(self) -> None:
        """Set the keyboard as it was."""
        if self._keyboard is not None and self._cooked is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._keyboard, termios.TCSANOW, self._cooked)

    def wait(self, seconds: float) -> list[signal.Signals]:
        """Signals that came within a time; sooner back if one or a key comes."""
        watched = [self._read_end] + ([self._keyboard] if self._keyboard is not None else [])
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._keyboard is not None and self._keyboard in ready:
            self._read_keys(self._keyboard)
        if self._read_end not in ready:
            return []
        return [signal.Signals(n) for n in os.read(self._read_end, 64) if n in CAUGHT]

    def typed(self) -> list[str]:
        """Keys pressed since the last time; an empty one means that the terminal is gone."""
        typed, self._typed = self._typed, []
        return typed

    def _read_keys(self, keyboard: int) -> None:
        try:
            read = os.read(keyboard, 64)
        except OSError:
            read = b""
        if not read:
            self._typed.append("")
        elif not read.startswith(b"\x1b"):  # an arrow is no key of ours, nor are its letters
            self._typed += read.decode("ascii", errors="ignore")


def _keyboard() -> int | None:
    """The terminal that we are in front of, to read keys from."""
    try:
        keyboard = sys.stdin.fileno()
        front = os.isatty(keyboard) and os.tcgetpgrp(keyboard) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return None
    return keyboard if front else None
