"""Asks the NVIDIA driver through NVML; whatever it cannot answer is None or a sentence."""

from __future__ import annotations

import queue
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lorakit.bundle.problems import Problem
from lorakit.errors import ExitCode
from lorakit.hardware.facts import GIB, Accelerator, Process
from lorakit.hardware.machine import NvidiaSigns, pci_address, process_name

NO_LIBRARY = "NVML_ERROR_LIBRARY_NOT_FOUND"
NOT_LOADED = "NVML_ERROR_DRIVER_NOT_LOADED"
STUCK = "stuck"
"""In the place of an error's name: there was no answer at all."""


SECONDS = 20.0
"""A driver that is stuck never answers. One of a server with many cards, which it wakes one by one,
may take most of this."""


_HANGING: list[threading.Thread] = []
"""Calls that hang in the driver cannot be ended, and are left behind. While one does, nobody waits
for another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the driver said."""

    accelerators: tuple[Accelerator, ...] = ()
    """In the order of their place on the PCI bus. Where a card is split into MIG devices, these
    stand in its place."""
    fastest_first: tuple[str, ...] = ()
    """Their UUIDs as CUDA counts cards unless it is told to count them by the bus."""
    driver: str | None = None
    driver_cuda: str | None = None
    findings: tuple[Problem, ...] = ()
    failure: str = ""
    """Name of the error where NVML could not be started, such as NVML_ERROR_NO_PERMISSION."""


_NONE = "No NVIDIA card can be used"

_FAILURES = {
    NO_LIBRARY: (
        "there is an NVIDIA card, and no driver is installed",
        "Install the NVIDIA driver.",
    ),
    NOT_LOADED: (
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

_NOT_HANDED_IN = (
    "this machine has one, and the container was not given it",
    "Start the container with --gpus all.",
)

_HANDED_IN = (
    "an NVIDIA card is handed into this container, and the driver's libraries are not",
    "Start the container with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility.",
)


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


def ask_in_time(nvml: Any, signs: NvidiaSigns, seconds: float = SECONDS) -> Answer:
    """What `ask` says, or that the driver is stuck where it says nothing within `seconds`."""
    answers: queue.SimpleQueue[Answer | Exception] = queue.SimpleQueue()

    def wait() -> None:
        try:
            answers.put(ask(nvml, signs))
        except Exception as error:
            answers.put(error)

    if any(call.is_alive() for call in _HANGING):
        return _stuck(seconds)
    call = threading.Thread(target=wait, daemon=True)
    call.start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        _HANGING.append(call)
        return _stuck(seconds)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _stuck(seconds: float) -> Answer:
    what = f"{_NONE}: the driver did not answer within {seconds:.0f} s."
    fix = "Run nvidia-smi: where it hangs too, reboot."
    return Answer(findings=(_warning(what, fix),), failure=STUCK)


def ask(
    nvml: Any,
    signs: NvidiaSigns | None = None,
    named: Callable[[int], str] = process_name,
) -> Answer:
    """Cards and driver through this NVML module. Never raises an NVML error.

    Where there is no sign of a card on this machine, a missing library is nothing to report.
    `named` gives the name of a process.
    """
    signs = signs or NvidiaSigns(on_bus=True)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        name = _name(nvml, error)
        if name in (NO_LIBRARY, NOT_LOADED) and not (signs.on_bus or signs.device_files):
            return Answer(failure=name)
        finding = _finding(nvml, error, _NONE)
        if signs.container and name == NO_LIBRARY and signs.device_files:
            finding = _warning(f"{_NONE}: {_HANDED_IN[0]}.", _HANDED_IN[1])
        elif signs.container and name in (NO_LIBRARY, NOT_LOADED) and not signs.device_files:
            finding = _warning(f"{_NONE}: {_NOT_HANDED_IN[0]}.", _NOT_HANDED_IN[1])
        return Answer(findings=(finding,), failure=name or "NVML_ERROR_UNKNOWN")
    try:
        # In WSL the numbers of processes are those of Windows, and name nobody here.
        return _cards(nvml, _nobody if signs.wsl else named)
    finally:
        _try(nvml, "nvmlShutdown")


def _cards(nvml: Any, named: Callable[[int], str]) -> Answer:
    cards: list[tuple[float, Accelerator]] = []
    findings: list[Problem] = []
    for index in range(_try(nvml, "nvmlDeviceGetCount") or 0):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            findings.append(_finding(nvml, error, f"NVIDIA card {index} cannot be used"))
            continue
        card = _card(nvml, handle, named)
        parts = [card]
        if (_try(nvml, "nvmlDeviceGetMigMode", handle) or [0])[0]:
            parts = list(_parts(nvml, handle, card, named))
            if not parts:
                findings.append(
                    _warning(
                        f"{card.name} is in MIG mode and has no MIG device: nothing can use it.",
                        "Make one (sudo nvidia-smi mig -cgi 19 -C), or leave the mode "
                        "(sudo nvidia-smi -mig 0).",
                    )
                )
        cards += [(_rate(nvml, handle), part) for part in parts]
    version = _try(nvml, "nvmlSystemGetCudaDriverVersion")
    return Answer(
        accelerators=tuple(card for _, card in cards),
        fastest_first=tuple(c.uuid or c.pci for _, c in sorted(cards, key=lambda c: -c[0])),
        driver=_text(_try(nvml, "nvmlSystemGetDriverVersion")) or None,
        driver_cuda=f"{version // 1000}.{version % 1000 // 10}" if version else None,
        findings=tuple(findings),
    )


def _card(nvml: Any, handle: Any, named: Callable[[int], str]) -> Accelerator:
    memory, shared = None, False
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError as error:
        # A board that shares the processor's memory has no answer of its own to give.
        shared = getattr(error, "value", None) == nvml.NVML_ERROR_NOT_SUPPORTED
    capability = _try(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    limit = _try(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    display = _try(nvml, "nvmlDeviceGetDisplayActive", handle)
    place = _try(nvml, "nvmlDeviceGetPciInfo", handle)
    known = memory if memory and memory.total else None
    return Accelerator(
        kind="cuda",
        name=_text(_try(nvml, "nvmlDeviceGetName", handle)) or "NVIDIA card",
        uuid=_text(_try(nvml, "nvmlDeviceGetUUID", handle)),
        pci=pci_address(_text(place.busId)) if place else "",
        architecture=f"sm_{capability[0]}{capability[1]}" if capability else "",
        memory_total_gib=known.total / GIB if known else None,
        memory_free_gib=known.free / GIB if known else None,
        unified=shared,
        display=None if display is None else bool(display),
        capability=(int(capability[0]), int(capability[1])) if capability else None,
        power_limit_w=limit / 1000 if limit else None,
        processes=tuple(_processes(nvml, handle, named)),
    )


def _parts(
    nvml: Any, handle: Any, card: Accelerator, named: Callable[[int], str]
) -> Iterator[Accelerator]:
    """The MIG devices of a card. What they do not answer is as the whole card has it."""
    for index in range(_try(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = _try(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if part is None:  # a slot without a device
            continue
        own = _card(nvml, part, named)
        yield replace(
            own,
            name=card.name if own.name == "NVIDIA card" else own.name,
            pci=card.pci,
            architecture=card.architecture,
            capability=card.capability,
            power_limit_w=card.power_limit_w,
            display=card.display,
        )


def _processes(nvml: Any, handle: Any, named: Callable[[int], str]) -> Iterator[Process]:
    """Who holds memory of a card, for computing or for drawing."""
    held: dict[int, int | None] = {}
    for query in (
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
    ):
        for process in _try(nvml, query, handle) or []:
            held[process.pid] = held.get(process.pid) or process.usedGpuMemory
    for pid, used in held.items():
        yield Process(pid=pid, name=named(pid), memory_gib=used / GIB if used else None)


def _nobody(pid: int) -> str:
    return ""


def _rate(nvml: Any, handle: Any) -> float:
    """How fast a card is by its data sheet: cores x clock. Zero where it does not say."""
    cores = _try(nvml, "nvmlDeviceGetNumGpuCores", handle) or 0
    clock = _try(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM) or 0
    return float(cores * clock)


def _try(nvml: Any, query: str, *args: Any) -> Any | None:
    """The answer, or None where this card, driver or version of the module has none."""
    try:
        return getattr(nvml, query)(*args)
    except (nvml.NVMLError, AttributeError):
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
    return _warning(f"{start}: {what}.", fix)


def _warning(what: str, fix: str) -> Problem:
    return Problem(where="", what=what, fix=fix, severity="warning", code=ExitCode.NO_HARDWARE)
