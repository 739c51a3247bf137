"""`lorakit` and `lorakit new`: the wizard, where there is a terminal that can show it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lorakit.cli import streams
from lorakit.cli.machine import believed, say_judged
from lorakit.errors import LorakitError

if TYPE_CHECKING:
    from lorakit.wizard.outcome import Outcome


def wizard(source: Path | None = None, plain: bool = False, machine: Path | None = None) -> int:
    """Ask for a bundle, from the answers of another where one is given, and do what was chosen.

    `machine` is a file of a machine to ask for, in the place of this one.
    """
    if source is not None and not source.is_file():
        raise LorakitError(f"There is no bundle {source}.", "Give the path of a .toml file.")
    hardware = believed(machine)
    if plain:
        from lorakit.cli.plain import ask

        return conclude(ask(source, hardware), machine)
    if not terminal():
        raise LorakitError(
            "The wizard needs a terminal that can draw, and this is none.",
            "Use lorakit new --plain for questions line by line, lorakit train BUNDLE for a bundle "
            "you have, or ssh -t to get a terminal.",
        )
    from lorakit.tui.app import run

    return conclude(run(source, hardware), machine)


def terminal() -> bool:
    """Whether a full screen can be shown here."""
    drawn = sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
    return drawn and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def conclude(outcome: Outcome, machine: Path | None = None) -> int:
    """Do what the wizard ended with, and return the exit code."""
    if outcome.what in ("train", "detach") and outcome.bundle is not None:
        from lorakit.cli.train import start, start_detached
        from lorakit.runs.directory import create, runs_root
        from lorakit.wizard import draft

        run = create(outcome.bundle, runs_root(), outcome.folder, outcome.reasons)
        draft.remove()  # the run has all answers now
        say_judged(believed(machine), machine)
        return (start_detached if outcome.what == "detach" else start)(run, outcome.estimate)
    if outcome.what == "saved" and outcome.path is not None:
        streams.out(str(outcome.path))
        streams.err(f"Train it: lorakit train {shlex.quote(str(outcome.path))}")
    elif outcome.what == "kept":
        streams.err("Your answers are kept. Go on with them: lorakit")
    return 0
