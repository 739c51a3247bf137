"""What this machine is. Facts only: None is what nobody could tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lorakit.bundle.problems import Problem
from lorakit.hardware.kernels import left_behind

GIB = 1024**3

LEAST_GIB, LEAST_INTEGRATED_GIB = 3.5, 8.0
"""Memory below which nobody trains on a card, and on the graphics unit of a processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that holds memory of an accelerator."""

    pid: int
    name: str = ""
    memory_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One card. It is known by its `uuid`, never by a number: tools number cards differently."""

    kind: Literal["cuda", "rocm", "mps", "xpu"]
    """As PyTorch's builds are called: NVIDIA, AMD, Apple and Intel."""
    name: str
    uuid: str = ""
    """As the driver gives it, `GPU-…`, or `MIG-…` for a part of a card."""
    pci: str = ""
    """Its place on the bus, such as `0000:01:00.0`."""
    architecture: str = ""
    """Such as `sm_89` or `gfx1100`: what kernels have to be compiled for."""
    memory_total_gib: float | None = None
    memory_free_gib: float | None = None
    """As the driver counts it, with what other processes hold."""
    unified: bool = False
    """Whether its memory is the machine's RAM."""
    integrated: bool = False
    """Whether it is the graphics unit of a processor."""
    display: bool | None = None
    """Whether a screen is driven by it."""
    capability: tuple[int, int] | None = None
    """Compute capability of an NVIDIA card, such as (8, 9)."""
    power_limit_w: float | None = None
    visible: bool = True
    """False: hidden from training, by CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or
    ROCR_VISIBLE_DEVICES, by LORAKIT_CPU, or because this user may not open it."""
    processes: tuple[Process, ...] = ()

    @property
    def native_bf16(self) -> bool | None:
        """Whether it computes in bf16 itself; PyTorch says yes to older cards too, and emulates."""
        if self.kind == "rocm":
            return None
        return None if self.capability is None else self.capability >= (8, 0)

    @property
    def trainable(self) -> bool:
        """Whether it is worth training on: no small card, no graphics unit with a small share."""
        least = LEAST_INTEGRATED_GIB if self.integrated else LEAST_GIB
        return self.memory_total_gib is None or self.memory_total_gib >= least


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """The PyTorch that is installed, without importing it."""

    version: str
    """Such as `2.11.0+cu128`."""
    cuda: str | None = None
    """CUDA version it is built for."""
    hip: str | None = None
    """ROCm version it is built for."""
    xpu: str | None = None
    """Version of Intel's compiler it is built with, where it computes on Intel cards."""

    @property
    def kind(self) -> Literal["cuda", "rocm", "xpu", "cpu"]:
        """What it computes on. The builds for macOS say `cpu` and compute on Apple's chips too."""
        return "cuda" if self.cuda else "rocm" if self.hip else "xpu" if self.xpu else "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a device works, as measured by `python -m lorakit.train.speed` or as published."""

    tflops: dict[str, float] = field(default_factory=dict)
    """Large matrix products by precision (`fp32`, `fp16`, `bf16`), in 10^12 operations a second."""
    bandwidth_gb_s: float
    """Memory read and written by a large copy, in 10^9 bytes a second."""
    launch_us: float
    """A small operation with what Python and autograd do around it, in microseconds: the mean of
    a small network, forward and backward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One device as PyTorch sees it, each thing tried by doing it once."""

    kind: str
    """`cuda`, `rocm`, `mps`, `xpu` or `cpu`."""
    name: str
    uuid: str = ""
    pci: str = ""
    architecture: str = ""
    memory_total_gib: float | None = None
    memory_free_gib: float | None = None
    integrated: bool = False
    failure: str = ""
    """What the first operation said, in one line. Empty: it works."""
    precisions: tuple[str, ...] = ()
    """Those of fp32, fp16, bf16 and fp8 that computed the right thing."""
    attention: str = ""
    """Kernel behind PyTorch's attention: flash, efficient, cudnn or math."""
    kernels: tuple[str, ...] = ()
    """Those of them that computed the right thing when they were asked for alone."""
    modules: dict[str, str] = field(default_factory=dict)
    """xformers, bitsandbytes and compile: empty where it was used and worked, else what it said.
    What is not installed is not here."""
    speed: Speed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What PyTorch said in a process of its own, which may crash or hang without harm."""

    devices: tuple[Tried, ...] = ()
    architectures: tuple[str, ...] = ()
    """What the installed PyTorch has kernels for."""
    failure: str = ""
    """How the process ended, where it did not end well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One machine as training sees it."""

    system: str = ""
    """Such as `Linux 6.8.0 x86_64`, with `WSL` where it is one."""
    cpu_name: str = ""
    cpu_threads: int = 1
    """Threads that this process may use."""
    ram_total_gib: float | None = None
    """Of the machine, or of the container where that is less."""
    ram_free_gib: float | None = None
    driver: str | None = None
    """Version of the NVIDIA driver."""
    driver_cuda: str | None = None
    """Newest CUDA version that the driver knows, such as `12.8`."""
    torch: TorchBuild | None = None
    """None: PyTorch is not installed."""
    accelerators: tuple[Accelerator, ...] = ()
    probe: Probe | None = None
    """None: nobody has tried."""
    speed: Speed | None = None
    """Measured, of the device that training uses. None: nobody has, see `hardware/speed.py`."""
    findings: tuple[Problem, ...] = ()
    """What is wrong or doubtful about the machine, all warnings."""

    @property
    def accelerator(self) -> Accelerator | None:
        """The card to train on: of those that are visible and that the PyTorch build can use, the
        one with the most free memory; the first of equals, and the graphics unit of a processor,
        or one too old for the build, only where there is no other. None: train on the CPU.
        """
        kinds = {self.torch.kind, "mps"} if self.torch else set()
        cuda = self.torch.cuda if self.torch else None
        usable = [
            a
            for a in self.accelerators
            if a.visible and a.kind in kinds and not self._unseen(a.kind)
        ]
        served = [a for a in usable if not left_behind(cuda, a.capability)]
        return max(served or usable, key=_room, default=None)

    def _unseen(self, kind: str) -> bool:
        """Whether PyTorch was tried to the end and sees no such card, whatever its driver says."""
        seen = self.probe
        if seen is None or seen.failure or not seen.devices:
            return False
        return all(device.kind != kind for device in seen.devices)

    @property
    def idle(self) -> Accelerator | None:
        """The card that another build of PyTorch, or a better driver, would train on, where only
        the CPU is left.

        None: there is no such card, or it is used, or it is hidden on purpose.
        """
        if self.accelerator is not None:
            return None
        fit = [a for a in self.accelerators if a.visible and a.trainable]
        return max(fit, key=_room, default=None)

    @property
    def tried(self) -> Tried | None:
        """What PyTorch said of the device that training runs on. None: it was not tried."""
        if self.accelerator is not None:
            return self.tried_on(self.accelerator)
        devices = self.probe.devices if self.probe else ()
        return next((d for d in devices if d.kind == "cpu"), None)

    def tried_on(self, card: Accelerator) -> Tried | None:
        """What PyTorch said of one card. None: it was not tried, or nobody can tell which it is."""
        same = [d for d in (self.probe.devices if self.probe else ()) if d.kind == card.kind]
        for key in ("uuid", "pci", "name"):
            found = [d for d in same if getattr(d, key) and _bare(d, key) == _bare(card, key)]
            if len(found) == 1:
                return found[0]
        return None

    @property
    def device(self) -> str:
        """Where training runs, in words: `NVIDIA GeForce RTX 4090` or `CPU, 16 threads`."""
        card = self.accelerator
        return card.name if card else f"CPU, {self.cpu_threads} threads"


def _bare(device: Accelerator | Tried, key: str) -> str:
    """A name without what only one of driver and PyTorch puts before it."""
    return str(getattr(device, key)).lower().removeprefix("gpu-").removeprefix("mig-")


def _room(card: Accelerator) -> tuple[bool, float, float]:
    return not card.integrated, card.memory_free_gib or 0.0, card.memory_total_gib or 0.0
