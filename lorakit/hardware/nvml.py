"""Asks the NVIDIA driver through NVML; whatever it cannot answer is None or a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lorakit.bundle.problems import Problem
from lorakit.errors import ExitCode
from lorakit.hardware.facts import GIB, Accelerator, Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the driver said."""

    accelerators: tuple[Accelerator, ...] = ()
    """In the order of their place on the PCI bus."""
    driver: str | None = None
    driver_cuda: str | None = None
    findings: tuple[Problem, ...] = ()


_FAILURES = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": (
        "there is an NVIDIA card, and no driver is installed",
        "Install the NVIDIA driver; in a container, start it with --gpus all.",
    ),
    "NVML_ERROR_DRIVER_NOT_LOADED": (
        "the NVIDIA driver is not loaded",
        "Load it (sudo modprobe nvidia), or reboot after installing it.",
    ),
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": (
        "the NVIDIA driver was updated and the old one is still running",
        "Reboot.",
    ),
    "NVML_ERROR_NO_PERMISSION": (
        "this user may not ask the NVIDIA driver",
        "Join the group that owns /dev/nvidia0 (often video or render).",
    ),
    "NVML_ERROR_INSUFFICIENT_POWER": (
        "an NVIDIA card has too little power",
        "Check its power cables.",
    ),
    "NVML_ERROR_GPU_IS_LOST": (
        "an NVIDIA card has fallen off the bus",
        "Reboot; if it happens again, check its power and its seat.",
    ),
}
"""Names of NVML's errors: what is the matter in words, and the cure."""


def module() -> Any | None:
    """NVML's Python module, or None where it is not installed."""
    try:
        with warnings.catch_warnings():
            # The older package of the same module name warns at import, across any screen.
            warnings.simplefilter("ignore")
            import pynvml
    except ImportError:
        return None
    return pynvml


def ask(nvml: Any, card_on_bus: bool = True) -> Answer:
    """Cards and driver through this NVML module. Never raises an NVML error.

    Where no NVIDIA card is on the bus, a missing library is nothing to report.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        name = _name(nvml, error)
        if not card_on_bus and name in (
            "NVML_ERROR_LIBRARY_NOT_FOUND",
            "NVML_ERROR_DRIVER_NOT_LOADED",
        ):
            return Answer()
        return Answer(findings=(_finding(nvml, error, "No NVIDIA card can be used"),))
    try:
        return _cards(nvml)
    finally:
        _try(nvml, nvml.nvmlShutdown)


def _cards(nvml: Any) -> Answer:
    cards: list[Accelerator] = []
    findings: list[Problem] = []
    for index in range(_try(nvml, nvml.nvmlDeviceGetCount) or 0):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            findings.append(_finding(nvml, error, f"NVIDIA card {index} cannot be used"))
            continue
        cards.append(_card(nvml, handle))
    version = _try(nvml, nvml.nvmlSystemGetCudaDriverVersion)
    return Answer(
        accelerators=tuple(cards),
        driver=_text(_try(nvml, nvml.nvmlSystemGetDriverVersion)) or None,
        driver_cuda=f"{version // 1000}.{version % 1000 // 10}" if version else None,
        findings=tuple(findings),
    )


def _card(nvml: Any, handle: Any) -> Accelerator:
    memory = _try(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    capability = _try(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    limit = _try(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    running = _try(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
    return Accelerator(
        kind="cuda",
        name=_text(_try(nvml, nvml.nvmlDeviceGetName, handle)) or "NVIDIA card",
        uuid=_text(_try(nvml, nvml.nvmlDeviceGetUUID, handle)),
        memory_total_gib=memory.total / GIB if memory and memory.total else None,
        memory_free_gib=memory.free / GIB if memory and memory.total else None,
        capability=(int(capability[0]), int(capability[1])) if capability else None,
        power_limit_w=limit / 1000 if limit else None,
        processes=tuple(
            Process(pid=p.pid, memory_gib=p.usedGpuMemory / GIB if p.usedGpuMemory else None)
            for p in running
        ),
    )


def _try(nvml: Any, query: Callable[..., Any], *args: Any) -> Any | None:
    """The answer, or None where this card or driver has none."""
    try:
        return query(*args)
    except nvml.NVMLError:
        return None


def _text(value: Any) -> str:
    """Older versions of the module answer in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _name(nvml: Any, error: Any) -> str:
    code = getattr(error, "value", None)
    return next((n for n in _FAILURES if getattr(nvml, n, object()) == code), "")


def _finding(nvml: Any, error: Any, start: str) -> Problem:
    what, fix = _FAILURES.get(
        _name(nvml, error), (f"NVML says {error}", "Run nvidia-smi to see what the driver says.")
    )
    return Problem(
        where="",
        what=f"{start}: {what}.",
        fix=fix,
        severity="warning",
        code=ExitCode.NO_HARDWARE,
    )
