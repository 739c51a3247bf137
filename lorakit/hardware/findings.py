"""What is wrong or doubtful about a machine, from its facts alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lorakit.bundle.problems import Problem
from lorakit.errors import ExitCode
from lorakit.hardware import allocator, kernels
from lorakit.hardware.facts import Hardware, Process
from lorakit.hardware.visible import cpu_wanted, hip_visible

INDEX = "https://download.pytorch.org/whl/"

_WHEELS = ((13, 0, "cu130"), (12, 8, "cu128"), (12, 6, "cu126"))
"""CUDA version that a driver must know, and the folder of PyTorch builds for it."""

HOLDERS = 3
"""Processes that are named where many hold memory, the largest."""

CHOOSING = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}
"""The variables that hide cards, by what they are for."""

_NO_DEVICE = ("none", "void", "nodevfiles")
"""What people and job schedulers write for no card at all, on purpose."""

_OLD = (7, 5)
"""Cards below this capability are left out of the builds for CUDA 12.8 and newer."""


def of(
    hardware: Hardware, environ: Mapping[str, str], denied: Sequence[str] = ()
) -> tuple[Problem, ...]:
    """Doubts about how card, driver, PyTorch and environment go together, each with its cure."""
    return (
        *_torch(hardware),
        *_driver(hardware),
        *_too_old(hardware),
        *_denied(hardware, denied),
        *_memory(hardware),
        *_numbering(hardware, environ),
        *_no_card(hardware, environ),
        *_override(hardware, environ),
        *_allocator(environ),
    )


def of_probe(hardware: Hardware, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """Doubts from what PyTorch said of the machine when it was tried."""
    probe = hardware.probe
    if probe is None:
        return ()
    found = list(_kernels(hardware, environ))
    if probe.failure:
        what = f"Trying PyTorch did not end well: {probe.failure}."
        found.append(_warning(what, "python -m lorakit.train.probe shows all that it says."))
    for tried in probe.devices:
        if tried.failure and kernels.served(tried.architecture, probe.architectures):
            what = f"{tried.name} failed its first operation: {tried.failure}."
            found.append(_warning(what, "Update its driver and PyTorch, or choose another card."))
    return tuple(found)


def _warning(what: str, fix: str) -> Problem:
    return Problem(where="", what=what, fix=fix, severity="warning", code=ExitCode.NO_HARDWARE)


def _torch(hardware: Hardware) -> Iterator[Problem]:
    torch, idle = hardware.torch, hardware.idle
    slow = "training would run on the CPU, tens to hundreds of times slower."
    if torch is None:
        where = ""
        if idle is not None and idle.kind == "cuda":
            where = f" --index-url {index(hardware.driver_cuda, idle.capability)}"
        yield _warning("PyTorch is not installed.", f"pip install torch{where}")
    elif idle is not None and idle.kind == torch.kind:
        yield _warning(
            f"{idle.name} is here, and PyTorch {torch.version} does not see it: {slow}",
            'python -c "import torch; torch.cuda.init()" says why.',
        )
    elif idle is not None and idle.kind == "cuda":
        yield _warning(
            f"{idle.name} is here, but PyTorch {torch.version} has no CUDA: {slow}",
            f"pip install --force-reinstall torch --index-url "
            f"{index(hardware.driver_cuda, idle.capability)}",
        )
    elif idle is not None and idle.kind == "rocm":
        yield _warning(
            f"{idle.name} is here, but PyTorch {torch.version} has no ROCm: {slow}",
            "Install the ROCm build of PyTorch that pytorch.org names for this system.",
        )
    elif idle is not None and idle.kind == "xpu":
        yield _warning(
            f"{idle.name} is here, but PyTorch {torch.version} has no XPU: {slow}",
            f"pip install --force-reinstall torch --index-url {INDEX}xpu",
        )
    elif torch.kind == "xpu" and not any(a.kind == "xpu" for a in hardware.accelerators):
        yield _warning(
            f"PyTorch {torch.version} is built for Intel cards, and "
            + ("none works." if hardware.probe else "only PyTorch itself can tell if one is here."),
            "Update the driver."
            if hardware.probe
            else "lorakit hardware --probe --save intel.toml finds it, and --hardware intel.toml "
            "makes every command plan for it.",
        )
    elif torch.kind == "rocm" and not any(a.kind == "rocm" for a in hardware.accelerators):
        yield _warning(
            f"PyTorch {torch.version} is built for AMD cards, and there is none.",
            f"pip install --force-reinstall torch --index-url {INDEX}cpu",
        )


def index(driver_cuda: str | None, capability: tuple[int, int] | None = None) -> str:
    """Where the newest build lies that driver and card can run; of an unknown driver the oldest."""
    known = _version(driver_cuda) or (0, 0)
    fitting = [name for major, minor, name in _WHEELS if known >= (major, minor)]
    if capability is not None and capability < _OLD:
        fitting = []
    return INDEX + (fitting[0] if fitting else _WHEELS[-1][2])


def _version(text: str | None) -> tuple[int, int] | None:
    major, _, rest = (text or "").partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def _driver(hardware: Hardware) -> Iterator[Problem]:
    """A driver runs all builds of its own CUDA generation, and none of a newer one."""
    wanted = _version(hardware.torch.cuda if hardware.torch else None)
    known = _version(hardware.driver_cuda)
    if wanted and known and wanted[0] > known[0]:
        yield _warning(
            f"PyTorch is built for CUDA {wanted[0]}.{wanted[1]}, and driver {hardware.driver} "
            f"knows CUDA up to {known[0]}.{known[1]}.",
            f"Update the driver, or pip install --force-reinstall torch --index-url "
            f"{index(hardware.driver_cuda)}",
        )


def _too_old(hardware: Hardware) -> Iterator[Problem]:
    """What the probe says better, where there was one."""
    torch, card = hardware.torch, hardware.accelerator
    if torch is None or card is None or (hardware.probe and hardware.probe.architectures):
        return
    if kernels.left_behind(torch.cuda, card.capability):
        yield _warning(
            f"{card.name} ({card.architecture}) is too old for PyTorch's builds for CUDA "
            f"{torch.cuda}: they have no kernels for it.",
            f"pip install --force-reinstall torch --index-url "
            f"{index(hardware.driver_cuda, card.capability)}",
        )


def _denied(hardware: Hardware, denied: Sequence[str]) -> Iterator[Problem]:
    """ROCm is silent about cards that the user may not open."""
    if denied and hardware.torch and hardware.torch.kind == "rocm":
        yield _warning(
            f"ROCm needs {' and '.join(denied)}, which this user may not open or is not here.",
            "sudo usermod -aG render,video $USER, and log in again; a container takes "
            "--device /dev/kfd --device /dev/dri.",
        )


def _memory(hardware: Hardware) -> Iterator[Problem]:
    card = hardware.accelerator
    if card is None or card.memory_total_gib is None or card.memory_free_gib is None:
        return
    held = card.memory_total_gib - card.memory_free_gib
    if card.unified or held < 0.25 * card.memory_total_gib:
        return
    largest = sorted(card.processes, key=lambda p: -(p.memory_gib or 0))
    holders = ", ".join(map(holder, largest[:HOLDERS]))
    if len(largest) > HOLDERS:
        holders += f" and {len(largest) - HOLDERS} more"
    yield _warning(
        f"{held:.1f} of {card.memory_total_gib:.1f} GiB of {card.name} are taken"
        f"{f' by {holders}' if holders else ''}; {card.memory_free_gib:.1f} GiB are free.",
        "End what holds the memory, or choose settings for what is free.",
    )


def holder(process: Process) -> str:
    """Who holds memory, in words: `python (process 2113, 5.5 GiB)`."""
    held = f"{process.memory_gib:.1f} GiB" if process.memory_gib else ""
    if not process.name:
        return f"process {process.pid}" + (f" ({held})" if held else "")
    return f"{process.name} ({', '.join(filter(None, (f'process {process.pid}', held)))})"


def _numbering(hardware: Hardware, environ: Mapping[str, str]) -> Iterator[Problem]:
    """With cards of different speed CUDA's numbers are not the driver's, unless told so."""
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    cards = [a for a in hardware.accelerators if a.kind == "cuda"]
    by_number = setting is not None and any(part.strip().isdecimal() for part in setting.split(","))
    if (
        not by_number
        or len({a.name for a in cards}) < 2
        or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    ):
        return
    shown = ", ".join(a.name for a in cards if a.visible)
    if not shown:
        return  # which is told in other words
    yield _warning(
        f"CUDA_VISIBLE_DEVICES={setting} counts cards as CUDA does, fastest first, and nvidia-smi "
        f"counts them by their place on the bus. It is taken to mean {shown}.",
        "Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the card by its UUID (nvidia-smi -L).",
    )


def _no_card(hardware: Hardware, environ: Mapping[str, str]) -> Iterator[Problem]:
    """A slip in a variable that chooses cards hides all of them without a word."""
    kind = hardware.torch.kind if hardware.torch else ""
    cards = [a for a in hardware.accelerators if a.kind == kind and a.trainable]
    if not cards or any(a.visible for a in cards) or cpu_wanted(environ):
        return
    if kind == "rocm" and hip_visible([a.uuid for a in cards], environ):
        return  # hidden because this user may not open it
    for name in CHOOSING.get(kind, ()):
        first = environ.get(name, "").partition(",")[0].strip()
        if first and not first.startswith("-") and first.lower() not in _NO_DEVICE:
            yield _warning(
                f"{name}={environ[name]} leaves no card in sight, and {cards[0].name} is here: "
                "training would run on the CPU.",
                f"unset {name}, or name one: {name}={cards[0].uuid or 0} is {cards[0].name}.",
            )
            return


def _override(hardware: Hardware, environ: Mapping[str, str]) -> Iterator[Problem]:
    value = environ.get(kernels.OVERRIDE)
    cards = [a for a in hardware.accelerators if a.kind == "rocm" and a.visible and a.trainable]
    if value is None or not cards:
        return
    fault = kernels.fault(value, [a.architecture for a in cards])
    if fault:
        right = kernels.override(cards[0].architecture) if cards[0].architecture else ""
        yield _warning(
            f"{kernels.OVERRIDE}={value} {fault}.",
            f"Unset it{f', or try {kernels.OVERRIDE}={right}' if right else ''}.",
        )


def _allocator(environ: Mapping[str, str]) -> Iterator[Problem]:
    for name, right in allocator.faults(environ):
        yield _warning(
            f"{name}={environ[name]} is not as PyTorch reads it, and may end a training.",
            f"export {name}={right}" if right else f"unset {name}",
        )


def _kernels(hardware: Hardware, environ: Mapping[str, str]) -> Iterator[Problem]:
    """PyTorch is built for the card."""
    known = hardware.probe.architectures if hardware.probe else ()
    kind = hardware.torch.kind if hardware.torch else ""
    for card in hardware.accelerators:
        fit = card.kind == kind and card.visible and card.trainable
        tried = hardware.tried_on(card)
        works = tried is not None and tried.precisions and not tried.failure
        if not fit or works or kernels.served(card.architecture, known):
            continue
        what = (
            f"This PyTorch has no kernels for {card.architecture} ({card.name}); "
            f"it has {', '.join(map(kernels.plain, known))}."
        )
        if card.kind == "cuda":
            where = index(hardware.driver_cuda, card.capability)
            yield _warning(what, f"pip install --force-reinstall torch --index-url {where}")
            continue
        right = kernels.override(card.architecture, known)
        if right and environ.get(kernels.OVERRIDE) == right:
            continue
        yield _warning(
            what,
            f"Try export {kernels.OVERRIDE}={right} before lorakit; it makes {card.architecture} "
            "use the kernels of its nearest relative."
            if right
            else "Install a build of PyTorch for this card; AMD's own pages list them.",
        )


def by_topic(hardware: Hardware, environ: Mapping[str, str]) -> dict[str, tuple[Problem, ...]]:
    """All doubts, by what they are about, for whoever tells each on a line of its own."""
    about_kernels = tuple(_kernels(hardware, environ))
    return {
        "pytorch": tuple(_torch(hardware)),
        "driver": tuple(_driver(hardware)),
        "cards": (*_numbering(hardware, environ), *_no_card(hardware, environ)),
        "memory": tuple(_memory(hardware)),
        "override": tuple(_override(hardware, environ)),
        "allocator": tuple(_allocator(environ)),
        "kernels": (*_too_old(hardware), *about_kernels),
        "trials": tuple(p for p in of_probe(hardware, environ) if p not in about_kernels),
    }
