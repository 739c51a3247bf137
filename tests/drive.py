"""The `lorakit` command, with stand-ins for the processes that load torch."""

from __future__ import annotations

import sys
from pathlib import Path

from lorakit.cli import replay, sample
from lorakit.runs import launch

STAND_IN = str(Path(__file__).with_name("stand_in.py"))
launch.WORKER = (sys.executable, STAND_IN)
replay.LOCK = (sys.executable, STAND_IN, "--lock")
sample.DRAW = (sys.executable, STAND_IN, "--draw")

from lorakit.cli.app import main  # noqa: E402

if __name__ == "__main__":
    main()
