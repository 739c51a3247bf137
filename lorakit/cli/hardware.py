"""`lorakit hardware`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from lorakit.cli import streams
from lorakit.cli.machine import believed
from lorakit.errors import LorakitError
from lorakit.hardware.detect import detect
from lorakit.hardware.facts import Accelerator, Hardware, Probe, Tried
from lorakit.runs.words import UNKNOWN, clean, number

LABEL = 9
"""Columns before what is said of each thing."""

HOLDERS = 5
"""Processes shown of those that hold memory of a card, the largest."""


def hardware(
    as_json: bool,
    save: Path | None,
    probe: bool,
    compile_too: bool,
    machine: Path | None = None,
) -> int:
    """Print the facts of this machine or of one in a file, and what is doubtful about it."""
    given = believed(machine)
    found = given or detect()
    if probe or compile_too:
        if given is not None:
            streams.err("nothing was tried: the machine of a file is not this one")
        elif found.torch is not None:
            found = probed(found, compile_too)
    if save is not None:
        _save(found, save)
    if as_json:
        streams.out_json(dataclasses.asdict(found))
        return 0
    for line in _lines(found):
        label, text = line[:LABEL], clean(line[LABEL:])
        streams.out(*streams.folded(text, label, " " * LABEL, whole=False))
    streams.problems(found.findings)
    return 0


def probed(found: Hardware, compile_too: bool = False) -> Hardware:
    """This machine with what PyTorch says of it; how fast it is, later commands remember."""
    from lorakit.hardware.merge import merged
    from lorakit.hardware.probe import probe
    from lorakit.hardware.speed import remember

    streams.err(f"trying PyTorch: this takes some {'minutes' if compile_too else 'seconds'}")
    whole = merged(found, probe(compile_too=compile_too, speed=True), os.environ)
    if whole.tried and whole.tried.speed:
        remember(whole, whole.tried.speed)
    return whole


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
        yield from _card(card)
    if found.probe:
        yield from _probe(found.probe)
    yield f"trains on {found.device}"


def _torch(found: Hardware) -> str:
    if found.torch is None:
        return "not installed"
    return f"{found.torch.version}, built for {found.torch.kind}"


def _card(card: Accelerator) -> Iterator[str]:
    free, total = number(card.memory_free_gib), number(card.memory_total_gib, ".1f", "GiB")
    marks = [
        card.architecture,
        "integrated" if card.integrated else "",
        "memory shared with the system" if card.unified else "",
        "drives a screen" if card.display else "",
        "" if card.visible else "hidden",
    ]
    yield f"card     {', '.join([card.name, f'{free} of {total} free', *filter(None, marks)])}"
    if card.uuid or card.pci:
        yield f"         {'  '.join(filter(None, (card.uuid, card.pci)))}"
    largest = sorted(card.processes, key=lambda p: -(p.memory_gib or 0))
    for process in largest[:HOLDERS]:
        held = number(process.memory_gib, ".1f", "GiB")
        yield f"         {held} held by process {process.pid} {process.name}".rstrip()
    if len(largest) > HOLDERS:
        yield f"         and {len(largest) - HOLDERS} more processes"


def _probe(probe: Probe) -> Iterator[str]:
    for tried in probe.devices:
        yield f"tried    {tried.name}: {tried.failure or ', '.join(tried.precisions)}"
        if not tried.failure:
            yield from _worked(tried)


def _worked(tried: Tried) -> Iterator[str]:
    others = [name for name in tried.kernels if name != tried.attention]
    also = f", can do {', '.join(others)}" if others else ""
    yield f"         attention by {tried.attention or UNKNOWN}{also}"
    for name, said in tried.modules.items():
        yield f"         {name} {'works' if not said else f'does not work: {said}'}"
    if tried.speed:
        rates = ", ".join(f"{k} {v:.3g}" for k, v in tried.speed.tflops.items())
        yield f"         {rates} TFLOP/s, {tried.speed.bandwidth_gb_s:.3g} GB/s, " + (
            f"{tried.speed.launch_us:.3g} us a launch"
        )
