"""What is wrong or doubtful about a machine, from its facts alone."""

from __future__ import annotations

from collections.abc import Mapping

from lorakit.bundle.problems import Problem
from lorakit.errors import ExitCode
from lorakit.hardware.facts import Accelerator, Hardware

INDEX = "https://download.pytorch.org/whl/"

LEAST_GIB = 3.5
"""An AMD card with less is the graphics unit of a processor: nothing to train on."""

_WHEELS = ((13, 0, "cu130"), (12, 8, "cu128"), (12, 6, "cu126"))
"""CUDA version that a driver must know, and the folder of PyTorch builds for it."""


def of(hardware: Hardware, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """Doubts about how card, driver and PyTorch go together, each with its cure."""
    found = [
        *_torch(hardware),
        *_driver(hardware),
        *_memory(hardware),
        *_numbering(hardware, environ),
    ]
    return tuple(found)


def _warning(what: str, fix: str) -> Problem:
    return Problem(where="", what=what, fix=fix, severity="warning", code=ExitCode.NO_HARDWARE)


def _visible(hardware: Hardware, kind: str) -> list[Accelerator]:
    return [a for a in hardware.accelerators if a.visible and a.kind == kind]


def _torch(hardware: Hardware) -> list[Problem]:
    torch = hardware.torch
    nvidia = _visible(hardware, "cuda")
    amd = [a for a in _visible(hardware, "rocm") if (a.memory_total_gib or 0) >= LEAST_GIB]
    if torch is None:
        return [_warning("PyTorch is not installed.", "pip install torch")]
    if nvidia and torch.kind != "cuda":
        return [
            _warning(
                f"{nvidia[0].name} is here, but PyTorch {torch.version} has no CUDA: "
                "training would run on the CPU, tens to hundreds of times slower.",
                f"pip install --force-reinstall torch --index-url {_index(hardware.driver_cuda)}",
            )
        ]
    if amd and not nvidia and torch.kind != "rocm":
        return [
            _warning(
                f"{amd[0].name} is here, but PyTorch {torch.version} has no ROCm: "
                "training would run on the CPU, tens to hundreds of times slower.",
                "Install the ROCm build of PyTorch that pytorch.org names for this system.",
            )
        ]
    if torch.kind == "rocm" and not amd:
        return [
            _warning(
                f"PyTorch {torch.version} is built for AMD cards, and there is none.",
                f"pip install --force-reinstall torch --index-url {INDEX}cpu",
            )
        ]
    return []


def _index(driver_cuda: str | None) -> str:
    """Where the newest build lies that this driver can run; of an unknown driver the oldest."""
    known = _version(driver_cuda) or (0, 0)
    fitting = [name for major, minor, name in _WHEELS if known >= (major, minor)]
    return INDEX + (fitting[0] if fitting else _WHEELS[-1][2])


def _version(text: str | None) -> tuple[int, int] | None:
    major, _, rest = (text or "").partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def _driver(hardware: Hardware) -> list[Problem]:
    """A driver runs all builds of its own CUDA generation, and none of a newer one."""
    wanted = _version(hardware.torch.cuda if hardware.torch else None)
    known = _version(hardware.driver_cuda)
    if not wanted or not known or wanted[0] <= known[0]:
        return []
    return [
        _warning(
            f"PyTorch is built for CUDA {wanted[0]}.{wanted[1]}, and driver {hardware.driver} "
            f"knows CUDA up to {known[0]}.{known[1]}.",
            f"Update the driver, or pip install --force-reinstall torch --index-url "
            f"{_index(hardware.driver_cuda)}",
        )
    ]


def _memory(hardware: Hardware) -> list[Problem]:
    card = hardware.accelerator
    if card is None or card.memory_total_gib is None or card.memory_free_gib is None:
        return []
    held = card.memory_total_gib - card.memory_free_gib
    if card.unified or held < 0.25 * card.memory_total_gib:
        return []
    holders = ", ".join(
        f"process {p.pid}" + (f" ({p.memory_gib:.1f} GiB)" if p.memory_gib else "")
        for p in card.processes
    )
    return [
        _warning(
            f"{held:.1f} of {card.memory_total_gib:.1f} GiB of {card.name} are taken"
            f"{f' by {holders}' if holders else ''}; {card.memory_free_gib:.1f} GiB are free.",
            "End what holds the memory, or choose settings for what is free.",
        )
    ]


def _numbering(hardware: Hardware, environ: Mapping[str, str]) -> list[Problem]:
    """With cards of different speed CUDA's numbers are not the driver's, unless told so."""
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    cards = [a for a in hardware.accelerators if a.kind == "cuda"]
    by_number = setting is not None and any(part.strip().isdecimal() for part in setting.split(","))
    if (
        not by_number
        or len({a.name for a in cards}) < 2
        or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    ):
        return []
    return [
        _warning(
            f"CUDA_VISIBLE_DEVICES={setting} counts cards as CUDA does, fastest first, and "
            "nvidia-smi counts them by their place on the bus.",
            "Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the card by its UUID (nvidia-smi -L).",
        )
    ]
