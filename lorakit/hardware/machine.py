"""Processor and memory of this machine, or of the container where it is given less."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lorakit.hardware.facts import GIB

CGROUP = Path("/sys/fs/cgroup")


def system() -> str:
    """Such as `Linux 6.8.0-45-generic x86_64`."""
    release = platform.release()
    wsl = " (WSL)" if is_wsl() else ""
    return f"{platform.system()} {release} {platform.machine()}{wsl}"


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the kernel has it; empty where it has none."""
    if platform.system() == "Darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.processor()
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":") for line in lines)
    names = [value.strip() for key, _, value in named if key.strip() == "model name"]
    return names[0] if names else platform.processor()


def _sysctl(name: str) -> str:
    try:
        said = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()


def cpu_threads(cgroup: Path = CGROUP) -> int:
    """Threads that this process may use: by its affinity and by the container's share of time."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota, _, period = _text(cgroup / "cpu.max").partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period):
        threads = min(threads or 1, max(1, round(int(quota) / int(period))))
    return threads or 1


def ram_gib(cgroup: Path = CGROUP) -> tuple[float, float]:
    """Total and available RAM."""
    import psutil

    memory = psutil.virtual_memory()
    total, free = memory.total, memory.available
    limit, used = _text(cgroup / "memory.max"), _text(cgroup / "memory.current")
    if limit.isdecimal() and int(limit) < total:
        total = int(limit)
        if used.isdecimal():
            free = min(free, max(0, total - int(used)))
    return total / GIB, min(free, total) / GIB


def is_wsl() -> bool:
    """Whether this is Linux inside Windows."""
    return "microsoft" in platform.release().lower()


def is_container(root: Path = Path("/")) -> bool:
    """Whether this is a container of Docker, Podman or Kubernetes."""
    signs = (".dockerenv", "run/.containerenv", "run/secrets/kubernetes.io")
    return any((root / name).exists() for name in signs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaSigns:
    """What speaks for an NVIDIA card on this machine, whatever its driver says."""

    on_bus: bool = False
    device_files: bool = False
    """Whether there is a file such as /dev/nvidia0, as in a container that was given a card."""
    wsl: bool = False
    container: bool = False


def nvidia_signs(root: Path = Path("/")) -> NvidiaSigns:
    """The signs on this machine."""
    return NvidiaSigns(
        on_bus=nvidia_on_bus(root / "sys/bus/pci/devices"),
        device_files=any((root / "dev").glob("nvidia[0-9]*")),
        wsl=is_wsl(),
        container=is_container(root),
    )


def process_name(pid: int) -> str:
    """Name of a process, or nothing where it is not ours to see."""
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except (psutil.Error, ValueError, OSError):
        return ""


def pci_address(text: str) -> str:
    """A place on the bus as the kernel writes it: `00000000:01:00.0` is `0000:01:00.0`."""
    found = re.fullmatch(r"(?:([0-9a-f]+):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", text.strip().lower())
    return f"{int(found[1] or '0', 16):04x}:{found[2]}" if found else ""


def nvidia_on_bus(pci: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Whether a graphics card of NVIDIA is plugged in, with a driver or without."""
    return any(
        _text(device / "vendor") == "0x10de" and _text(device / "class").startswith("0x03")
        for device in pci.glob("*")
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
