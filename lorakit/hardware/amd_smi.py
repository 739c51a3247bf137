"""Asks amd-smi, its library or rocm-smi for what the kernel does not tell about AMD cards."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lorakit.hardware.facts import GIB, Accelerator
from lorakit.hardware.machine import pci_address

SECONDS = 3.0
"""Both tools are Python programs that take most of a second; longer, and something is stuck."""

_LIBRARY = """
import json
import amdsmi as a
a.amdsmi_init()
print(json.dumps([
    {
        "asic": a.amdsmi_get_gpu_asic_info(card),
        "bus": {"bdf": a.amdsmi_get_gpu_device_bdf(card)},
        "vram": {"size": a.amdsmi_get_gpu_vram_usage(card)["vram_total"]},
    }
    for card in a.amdsmi_get_processor_handles()
]))
"""
"""The library loads a driver's and is used in a process of its own, which may be given up."""

_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("amd-smi", "static", "--asic", "--bus", "--vram", "--json"),
    (sys.executable, "-P", "-c", _LIBRARY),
    (
        *("rocm-smi", "--showproductname", "--showuniqueid", "--showbus"),
        *("--showmeminfo", "vram", "--json"),
    ),
)


def ask() -> tuple[Accelerator, ...]:
    """The cards as the first of the tools tells them that is here and answers."""
    for name, *words in _COMMANDS:
        if name == sys.executable and not importlib.util.find_spec("amdsmi"):
            continue
        tool = shutil.which(name) or shutil.which(f"/opt/rocm/bin/{name}")
        if tool is None:
            continue
        try:
            said = subprocess.run(
                [tool, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        found = parse(said.decode("utf-8", "replace"))
        if found:
            return found
    return ()


def parse(text: str) -> tuple[Accelerator, ...]:
    """The cards in the JSON of either tool, in any of the shapes that their versions have had.

    What is not there, or is `N/A`, is unknown. Warnings before the JSON are passed over.
    """
    said = _json(text)
    if isinstance(said, dict) and isinstance(said.get("gpu_data"), list):
        said = said["gpu_data"]
    if isinstance(said, list):
        found = [_of_amd_smi(card) for card in said if isinstance(card, dict)]
    elif isinstance(said, dict):
        cards = [v for k, v in said.items() if re.fullmatch(r"card\d+", k) and isinstance(v, dict)]
        found = [_of_rocm_smi(card) for card in cards]
    else:
        return ()
    return tuple(card for card in found if card)


def _json(text: str) -> Any:
    """The value that begins at a line's start, or None."""
    for found in re.finditer(r"^\s*[\[{]", text, re.MULTILINE):
        with contextlib.suppress(ValueError):
            return json.loads(text[found.start() :])
    return None


def completed(cards: Iterable[Accelerator], told: Iterable[Accelerator]) -> tuple[Accelerator, ...]:
    """Cards with what the tools know beyond the kernel, matched by UUID or place on the bus."""
    return tuple(_completed(card, tuple(told)) for card in cards)


def nameless(card: Accelerator) -> bool:
    """Whether the system has no name for this card but that of its chip."""
    return card.name.startswith("AMD graphics card")


def _completed(card: Accelerator, told: tuple[Accelerator, ...]) -> Accelerator:
    same = next(
        (t for t in told if (t.uuid and t.uuid == card.uuid) or (t.pci and t.pci == card.pci)), None
    )
    if same is None:
        return card
    return replace(
        card,
        name=same.name if nameless(card) and same.name else card.name,
        uuid=card.uuid or same.uuid,
        architecture=card.architecture or same.architecture,
        memory_total_gib=card.memory_total_gib or same.memory_total_gib,
    )


def _of_amd_smi(card: dict[str, Any]) -> Accelerator | None:
    asic, bus, vram = (_table(card.get(key)) for key in ("asic", "bus", "vram"))
    name = _told(asic, "market_name")
    if not name:
        return None
    size = vram.get("size")
    amount = _table(size).get("value") if isinstance(size, dict) else size
    mib = _amount(amount)
    return Accelerator(
        kind="rocm",
        name=name,
        uuid=_uuid(_told(asic, "asic_serial")),
        pci=pci_address(_told(bus, "bdf")),
        architecture=_told(asic, "target_graphics_version"),
        memory_total_gib=mib / 1024 if mib else None,
    )


def _of_rocm_smi(card: dict[str, Any]) -> Accelerator | None:
    plain = {key.lower(): value for key, value in card.items()}
    name = _told(plain, "card series") or _told(plain, "card model")
    if not name:
        return None
    total, used = (
        _amount(plain.get(f"vram total {what} (b)")) for what in ("memory", "used memory")
    )
    return Accelerator(
        kind="rocm",
        name=name,
        uuid=_uuid(_told(plain, "unique id")),
        pci=pci_address(_told(plain, "pci bus")),
        architecture=_told(plain, "gfx version"),
        memory_total_gib=total / GIB if total else None,
        memory_free_gib=(total - used) / GIB if total and used is not None else None,
    )


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _told(table: dict[str, Any], key: str) -> str:
    """A text, or nothing where the tool says in one of its ways that it does not know."""
    text = str(table.get(key) or "").strip()
    return "" if text.upper() in ("N/A", "NONE", "UNKNOWN") else text


def _amount(value: Any) -> float | None:
    found = re.match(r"\d+(\.\d+)?", str(value).strip())
    return float(found[0]) if found else None


def _uuid(serial: str) -> str:
    """As ROCm writes it, from a serial number such as `0x43cc6de9b1f2d9a8`."""
    try:
        number = int(serial, 16)
    except ValueError:
        return ""
    return f"GPU-{number:016x}" if number else ""
