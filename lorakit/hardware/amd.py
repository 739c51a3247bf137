"""Finds AMD cards in the kernel's own files; needs no ROCm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lorakit.hardware.facts import GIB, LEAST_GIB, Accelerator, Process
from lorakit.hardware.machine import process_name

_AMD = "0x1002"

_PROCESSORS = (
    *("gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1037"),
    *("gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"),
)
"""The graphics units that are part of a processor."""

LARGE_UNITS = 16
"""A graphics unit with as many compute units is worth training on, in the machine's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A device as ROCm's kernel driver tells it."""

    gpu_id: str
    pci: str
    architecture: str
    uuid: str
    compute_units: int
    bank_bytes: int
    """Memory that ROCm can have of it, of its own or of the machine."""
    render: int
    """Number of the device file that it is used through."""
    usable: bool
    """Whether this user may open that, and the one of ROCm."""


def cards(root: Path = Path("/")) -> tuple[Accelerator, ...]:
    """AMD cards with memory, as HIP counts them, and behind them those that ROCm does not know.

    A graphics unit inside the processor is among them, marked as integrated. `root` is where the
    files of the system begin.
    """
    nodes = _nodes(root)
    order = [node.pci for node in nodes]
    found = list(_drm(root, {node.pci: node for node in nodes}))
    found.sort(key=lambda c: order.index(c.pci) if c.pci in order else len(order))
    return tuple(found)


def denied(root: Path = Path("/")) -> tuple[str, ...]:
    """The device files that ROCm needs for the cards it knows, and that this user may not open."""
    needed = [f"dev/dri/renderD{node.render}" for node in _nodes(root)]
    return tuple(f"/{p}" for p in (["dev/kfd"] if needed else []) + needed if not _open(root / p))


def target_name(version: int) -> str:
    """A target as the kernel writes it, such as 110501 or 90010, by its name: gfx1151, gfx90a."""
    if version <= 0:
        return ""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _drm(root: Path, nodes: dict[str, _Node]) -> Iterator[Accelerator]:
    folder = root / "sys/class/drm"
    for entry in sorted(folder.glob("card[0-9]*"), key=lambda p: (len(p.name), p.name)):
        device = entry / "device"
        own = _number(device / "mem_info_vram_total")
        if "-" in entry.name or _text(device / "vendor") != _AMD or not own:
            continue
        pci = device.resolve().name
        node = nodes.get(pci)
        screens = [_text(p / "status") for p in folder.glob(f"{entry.name}-*")]
        card = Accelerator(
            kind="rocm",
            name=_text(device / "product_name") or _name(root, device),
            uuid=node.uuid if node else _uuid(_hex(device / "unique_id")),
            pci=pci if ":" in pci else "",
            architecture=node.architecture if node else "",
            display="connected" in screens if screens else None,
            visible=node.usable if node else not nodes,
            processes=tuple(_processes(root, node)) if node else (),
        )
        yield _with_memory(card, device, own, node)


def _with_memory(card: Accelerator, device: Path, own: int, node: _Node | None) -> Accelerator:
    """Its memory: its own, or where a large graphics unit works in that of the machine, that."""
    used = _number(device / "mem_info_vram_used")
    small = own < LEAST_GIB * GIB
    integrated = card.architecture in _PROCESSORS if card.architecture else small
    total, unified = own, False
    shared = _number(device / "mem_info_gtt_total") or 0
    if integrated and node and node.compute_units >= LARGE_UNITS:
        # The kernel lends ROCm the larger of what the firmware set aside and what it may map.
        larger = max(shared, node.bank_bytes)
        if larger > own:
            total, unified = larger, True
            used = _number(device / "mem_info_gtt_used")
    return replace(
        card,
        memory_total_gib=total / GIB,
        memory_free_gib=None if used is None else max(0, total - used) / GIB,
        integrated=integrated,
        unified=unified,
    )


def _nodes(root: Path) -> list[_Node]:
    """The devices that ROCm can see, in its order."""
    folder = root / "sys/class/kfd/kfd/topology/nodes"
    found = []
    for entry in sorted(folder.glob("[0-9]*"), key=lambda p: (len(p.name), p.name)):
        said = _properties(entry / "properties")
        version = said.get("gfx_target_version", 0)
        if not version or not said.get("simd_count"):  # the processor itself
            continue
        place = said.get("location_id", 0)
        render = said.get("drm_render_minor", 0)
        banks = (_properties(p) for p in entry.glob("mem_banks/*/properties"))
        found.append(
            _Node(
                gpu_id=_text(entry / "gpu_id"),
                pci=f"{said.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:"
                f"{place >> 3 & 0x1F:02x}.{place & 7}",
                architecture=target_name(version),
                uuid=_uuid(said.get("unique_id", 0)),
                compute_units=said["simd_count"] // (said.get("simd_per_cu") or 2),
                bank_bytes=sum(b.get("size_in_bytes", 0) for b in banks),
                render=render,
                usable=_open(root / "dev/kfd") and _open(root / f"dev/dri/renderD{render}"),
            )
        )
    return found


def _open(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


def _processes(root: Path, node: _Node) -> Iterator[Process]:
    """Who computes on it and how much memory that takes. What only draws is not told."""
    for entry in sorted((root / "sys/class/kfd/kfd/proc").glob("[0-9]*")):
        held = _number(entry / f"vram_{node.gpu_id}")
        if held:
            pid = int(entry.name)
            yield Process(pid=pid, name=process_name(pid), memory_gib=held / GIB)


def _name(root: Path, device: Path) -> str:
    """Its name by the list that comes with the system's graphics library."""
    model = _text(device / "device").removeprefix("0x").upper()
    revision = _text(device / "revision").removeprefix("0x").upper()
    for line in _text(root / "usr/share/libdrm/amdgpu.ids").splitlines():
        known = [part.strip() for part in line.split(",", 2)]
        if len(known) == 3 and known[:2] == [model, revision]:
            return known[2]
    return f"AMD graphics card {model.lower()}".rstrip()


def _uuid(number: int) -> str:
    """As ROCm writes it. Parts of processors have none."""
    return f"GPU-{number:016x}" if number else ""


def _properties(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _text(path).splitlines())
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def _hex(path: Path) -> int:
    try:
        return int(_text(path) or "0", 16)
    except ValueError:
        return 0
