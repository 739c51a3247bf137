"""What can go wrong, and the exit code that says so."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """Exit codes of every command, and of the trainer's process."""

    OK = 0
    TRAINING_FAILED = 1
    USAGE = 2
    """A bad bundle or bad usage."""
    NO_HARDWARE = 3
    OUT_OF_MEMORY = 4
    DATA = 5
    """Something is wrong with the pictures, captions or the disk they live on."""
    INTERRUPTED = 130
    TERMINATED = 143


class LorakitError(Exception):
    """A failure that a person can act on: one sentence with numbers, one with the way out.

    Raised deep, printed once by the command line, without a traceback.
    """

    def __init__(self, message: str, hint: str = "", code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
