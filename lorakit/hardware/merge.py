"""Puts what PyTorch said of a machine beside what its drivers say, card by card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lorakit.hardware import findings
from lorakit.hardware.facts import Accelerator, Hardware, Probe, Tried
from lorakit.hardware.visible import cpu_wanted


def merged(hardware: Hardware, probe: Probe, environ: Mapping[str, str]) -> Hardware:
    """A machine with what PyTorch said of it.

    Devices are matched by UUID or by their place on the bus. What only PyTorch knows, such as the
    chips of Apple and Intel, is added; what it knows beyond the driver is filled in.
    """
    cards = list(hardware.accelerators)
    for tried in probe.devices:
        if tried.kind not in ("cuda", "rocm", "mps", "xpu"):
            continue
        place = match(cards, tried)
        if place is None:
            cards.append(replace(_added(tried), visible=not cpu_wanted(environ)))
        else:
            cards[place] = _filled(cards[place], tried)
    before = findings.of(hardware, environ)
    kept = tuple(f for f in hardware.findings if f not in before)
    whole = replace(hardware, accelerators=tuple(cards), probe=probe)
    found = (*kept, *findings.of(whole, environ), *findings.of_probe(whole, environ))
    return replace(whole, findings=tuple(dict.fromkeys(found)))


def match(cards: Sequence[Accelerator], tried: Tried) -> int | None:
    """Position of the card that PyTorch speaks of: by UUID, else by its place on the bus; Apple's
    chips have one only.

    Of the MIG devices of one card, which share that place, it is the first that is visible.
    """
    for n, card in enumerate(cards):
        if card.uuid and _bare(card.uuid) == _bare(tried.uuid):
            return n
    if tried.kind == "mps":
        return next((n for n, card in enumerate(cards) if card.kind == "mps"), None)
    here = [n for n, card in enumerate(cards) if tried.pci and card.pci == tried.pci]
    return next((n for n in here if cards[n].visible), here[0] if here else None)


def _bare(uuid: str) -> str:
    """Without what it is a UUID of: PyTorch does not tell a MIG device from a card."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()


def _capability(architecture: str) -> tuple[int, int] | None:
    digits = architecture.removeprefix("sm_")
    known = digits != architecture and digits.isdecimal() and len(digits) > 1
    return (int(digits[:-1]), int(digits[-1])) if known else None


def _added(tried: Tried) -> Accelerator:
    return Accelerator(
        kind=tried.kind,  # type: ignore[arg-type]
        name=tried.name,
        uuid=tried.uuid,
        pci=tried.pci,
        architecture=tried.architecture,
        memory_total_gib=tried.memory_total_gib,
        memory_free_gib=tried.memory_free_gib,
        unified=tried.kind == "mps",
        integrated=tried.integrated or tried.kind == "mps",
        capability=_capability(tried.architecture),
    )


def _filled(card: Accelerator, tried: Tried) -> Accelerator:
    """What the driver says comes first: it also counts what other processes hold."""
    known = card.memory_total_gib is not None
    return replace(
        card,
        pci=card.pci or tried.pci,
        architecture=card.architecture or tried.architecture,
        capability=card.capability or _capability(tried.architecture),
        memory_total_gib=card.memory_total_gib if known else tried.memory_total_gib,
        memory_free_gib=card.memory_free_gib if known else tried.memory_free_gib,
    )
