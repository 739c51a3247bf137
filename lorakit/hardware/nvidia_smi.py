"""Asks nvidia-smi, for where NVML's library cannot be loaded and the tool can be run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from lorakit.hardware.facts import Accelerator
from lorakit.hardware.machine import pci_address
from lorakit.hardware.nvml import Answer

FIELDS = (
    "uuid",
    "name",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.free",
    "compute_cap",
    "display_active",
    "power.limit",
)
"""What is asked, in the order of the columns."""

WSL = Path("/usr/lib/wsl/lib/nvidia-smi")
"""Where Windows puts it, which is not always on the path."""

SECONDS = 5.0
"""A driver that is stuck lets nvidia-smi hang for ever."""

_UNKNOWN = re.compile(r"^\[.*\]$|^ERR!$|^N/?A$|^$", re.IGNORECASE)

_NO_MEMORY = ("[N/A]", "[Not Supported]")
"""What a board says that shares the processor's memory."""


def ask() -> Answer:
    """Cards and driver as nvidia-smi tells them; nothing where there is none or it fails."""
    tool = shutil.which("nvidia-smi") or (str(WSL) if WSL.exists() else None)
    if tool is None:
        return Answer()
    command = [tool, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return Answer()
    return parse(said.decode("utf-8", "replace"))


def parse(text: str) -> Answer:
    """The cards in this answer, one a line, known by UUID.

    A value that is none, such as `[N/A]` or `ERR!`, is unknown; a line without a UUID, such as a
    header, is no card.
    """
    cards: dict[str, Accelerator] = {}
    driver = None
    for line in text.splitlines():
        raw = dict(zip(FIELDS, (value.strip() for value in line.split(",")), strict=False))
        said = {key: None if _UNKNOWN.match(value) else value for key, value in raw.items()}
        uuid = said.get("uuid") or ""
        if not uuid.startswith(("GPU-", "MIG-")):
            continue
        capability = _capability(said.get("compute_cap"))
        total, free = _number(said.get("memory.total")), _number(said.get("memory.free"))
        display = said.get("display_active")
        driver = driver or said.get("driver_version")
        cards[uuid] = Accelerator(
            kind="cuda",
            name=said.get("name") or "NVIDIA card",
            uuid=uuid,
            pci=pci_address(said.get("pci.bus_id") or ""),
            architecture=f"sm_{capability[0]}{capability[1]}" if capability else "",
            memory_total_gib=total / 1024 if total else None,
            memory_free_gib=free / 1024 if total and free is not None else None,
            unified=raw.get("memory.total", "") in _NO_MEMORY,
            display=None if display is None else display.lower() in ("enabled", "yes"),
            capability=capability,
            power_limit_w=_number(said.get("power.limit")),
        )
    # Without the number of cores, the newer and then the larger card stands for the faster one.
    order = sorted(cards.values(), key=lambda c: (c.capability or (0, 0), c.memory_total_gib or 0))
    return Answer(
        accelerators=tuple(cards.values()),
        fastest_first=tuple(card.uuid for card in reversed(order)),
        driver=driver,
    )


def _number(text: str | None) -> float | None:
    """A number, with or without a unit behind it; None where it is none, or is written in parts
    (`1 234`): what a part means nobody knows."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?: ?(?:MiB|W|%))?", text or "")
    return float(found[1]) if found else None


def _capability(text: str | None) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d+)\.(\d+)", text or "")
    return (int(found[1]), int(found[2])) if found else None
