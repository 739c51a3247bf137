"""`lorakit` and `lorakit new`: the wizard, where there is a terminal that can show it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lorakit.errors import LorakitError


def wizard(source: Path | None = None, plain: bool = False) -> int:
    """Ask for a bundle, from the answers of another where one is given."""
    if source is not None and not source.is_file():
        raise LorakitError(f"There is no bundle {source}.", "Give the path of a .toml file.")
    if plain:
        from lorakit.cli.plain import ask

        return ask(source)
    if not terminal():
        raise LorakitError(
            "The wizard needs a terminal that can draw, and this is none.",
            "Use lorakit new --plain for questions line by line, lorakit train BUNDLE for a bundle "
            "you have, or ssh -t to get a terminal.",
        )
    from lorakit.tui.app import run

    return run(prefill=source)


def terminal() -> bool:
    """Whether a full screen can be shown here."""
    drawn = sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
    return drawn and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
