"""`lorakit hardware`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from lorakit.cli import streams
from lorakit.cli.machine import believed
from lorakit.errors import LorakitError
from lorakit.hardware.detect import detect
from lorakit.hardware.facts import Accelerator, Hardware
from lorakit.runs.words import UNKNOWN, clean, number


def hardware(as_json: bool, save: Path | None, machine: Path | None) -> int:
    """Print the facts of this machine or of one in a file, and what is doubtful about it."""
    found = believed(machine) or detect()
    if save is not None:
        _save(found, save)
    if as_json:
        streams.out_json(dataclasses.asdict(found))
        return 0
    streams.out(*(clean(line) for line in _lines(found)))
    streams.problems(found.findings)
    return 0


def _save(found: Hardware, path: Path) -> None:
    from lorakit.hardware.files import save

    try:
        save(found, path)
    except OSError as error:
        raise LorakitError(f"{path} cannot be written: {error.strerror or error}.") from error
    streams.err(f"written to {path}")


def _lines(found: Hardware) -> Iterator[str]:
    yield f"system   {found.system or UNKNOWN}"
    yield f"cpu      {found.cpu_name or UNKNOWN}, {found.cpu_threads} threads"
    free, total = number(found.ram_free_gib), number(found.ram_total_gib, ".1f", "GiB")
    yield f"ram      {free} of {total} free"
    yield f"torch    {_torch(found)}"
    if found.driver:
        yield f"driver   {found.driver}, CUDA up to {found.driver_cuda or UNKNOWN}"
    for card in found.accelerators:
        yield f"card     {_card(card)}"
    yield f"trains on {found.device}"


def _torch(found: Hardware) -> str:
    if found.torch is None:
        return "not installed"
    return f"{found.torch.version}, built for {found.torch.kind}"


def _card(card: Accelerator) -> str:
    free, total = number(card.memory_free_gib), number(card.memory_total_gib, ".1f", "GiB")
    hidden = "" if card.visible else ", hidden by the environment"
    return f"{card.name}, {free} of {total} free{hidden}"
