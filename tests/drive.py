"""The `lorakit` command, with stand-ins for the processes that load torch."""

from __future__ import annotations

import sys
from pathlib import Path

STAND_IN = str(Path(__file__).with_name("stand_in.py"))
WORKER = (sys.executable, STAND_IN)
LOCK = (sys.executable, STAND_IN, "--lock")
DRAW = (sys.executable, STAND_IN, "--draw")

if __name__ == "__main__":
    from lorakit.cli import replay, sample
    from lorakit.cli.app import main
    from lorakit.runs import launch

    launch.WORKER, replay.LOCK, sample.DRAW = WORKER, LOCK, DRAW
    main()
