"""The `lorakit` command, with a stand-in for its trainer."""

from __future__ import annotations

import sys
from pathlib import Path

from lorakit.runs import launch

launch.WORKER = (sys.executable, str(Path(__file__).with_name("stand_in.py")))

from lorakit.cli.app import main  # noqa: E402

if __name__ == "__main__":
    main()
