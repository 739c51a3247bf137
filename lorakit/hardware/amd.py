"""Finds AMD cards in the kernel's own files; needs no ROCm."""

from __future__ import annotations

from pathlib import Path

from lorakit.hardware.facts import GIB, Accelerator

DRM = Path("/sys/class/drm")

_AMD = "0x1002"


def cards(drm: Path = DRM) -> tuple[Accelerator, ...]:
    """AMD cards with memory of their own, in the kernel's order.

    A graphics unit inside the processor is among them, with its little memory.
    """
    found = []
    for card in sorted(drm.glob("card[0-9]*"), key=lambda p: (len(p.name), p.name)):
        device = card / "device"
        total = _number(device / "mem_info_vram_total")
        if "-" in card.name or _text(device / "vendor") != _AMD or not total:
            continue
        used = _number(device / "mem_info_vram_used")
        model = _text(device / "device").removeprefix("0x")
        found.append(
            Accelerator(
                kind="rocm",
                name=_text(device / "product_name") or f"AMD graphics card {model}".rstrip(),
                uuid=device.resolve().name,
                memory_total_gib=total / GIB,
                memory_free_gib=None if used is None else (total - used) / GIB,
            )
        )
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None
