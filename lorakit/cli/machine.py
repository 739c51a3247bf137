"""The machine that a command judges by: this one, or one in a file."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lorakit.cli import streams

if TYPE_CHECKING:
    from lorakit.hardware.facts import Hardware


def believed(file: Path | None) -> Hardware | None:
    """The machine in a file. None where no file is given: then this machine is looked at.

    Raises LorakitError for a file that holds no machine.
    """
    if file is None:
        return None
    from lorakit.hardware.files import load
    from lorakit.hardware.visible import cpu_wanted

    found = load(file)
    if not cpu_wanted(os.environ):
        return found
    cards = tuple(dataclasses.replace(card, visible=False) for card in found.accelerators)
    return dataclasses.replace(found, accelerators=cards)


def say_judged(hardware: Hardware | None, file: Path | None) -> None:
    """Say that a file was believed and that the training runs here all the same."""
    if hardware is None:
        return
    from lorakit.runs.words import clean

    streams.err(
        clean(f"judged by {file}: {hardware.device}. The training itself runs on this machine.")
    )
