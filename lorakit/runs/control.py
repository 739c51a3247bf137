"""Requests to a trainer: a file in `control/` that it looks at between steps and removes."""

from __future__ import annotations

import getpass
import json
import socket
import time
from typing import Literal

from lorakit import durable
from lorakit.errors import LorakitError
from lorakit.runs.directory import Run

Request = Literal["stop", "save", "sample"]


def myself() -> str:
    """`user@host`, the one who asks."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an id without a name, as in a container
        user = "someone"
    return f"{user}@{socket.gethostname()}"


def request(run: Run, what: Request, by: str | None = None) -> None:
    """Ask a trainer to stop after its step, to save, or to draw samples.

    `by` is user@host, by default whoever runs this. Raises LorakitError where it cannot be written.
    """
    body = {"by": by or myself(), "time": time.time()}
    try:
        run.control.mkdir(exist_ok=True)
        durable.write(run.control / what, f"{json.dumps(body)}\n".encode())
    except OSError as error:
        raise LorakitError(
            f"The request to {what} cannot be written in {run.control}: {error.strerror or error}.",
            "Ask from the account that started the run.",
        ) from error
