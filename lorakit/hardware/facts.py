"""What this machine is. Facts only: None is what nobody could tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lorakit.bundle.problems import Problem

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that holds memory of an accelerator."""

    pid: int
    memory_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One card. It is known by its `uuid`, never by a number: tools number cards differently."""

    kind: Literal["cuda", "rocm"]
    name: str
    uuid: str = ""
    """As NVML gives it, `GPU-…`; of an AMD card its PCI address."""
    memory_total_gib: float | None = None
    memory_free_gib: float | None = None
    """As the driver counts it, with what other processes hold."""
    unified: bool = False
    """Whether its memory is the machine's RAM."""
    capability: tuple[int, int] | None = None
    """Compute capability of an NVIDIA card, such as (8, 9)."""
    power_limit_w: float | None = None
    visible: bool = True
    """False: hidden from training by CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES."""
    processes: tuple[Process, ...] = ()

    @property
    def native_bf16(self) -> bool | None:
        """Whether it computes in bf16 itself; PyTorch says yes to older cards too, and emulates."""
        if self.kind == "rocm":
            return None
        return None if self.capability is None else self.capability >= (8, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """The PyTorch that is installed, without importing it."""

    version: str
    """Such as `2.11.0+cu128`."""
    cuda: str | None = None
    """CUDA version it is built for."""
    hip: str | None = None
    """ROCm version it is built for."""

    @property
    def kind(self) -> Literal["cuda", "rocm", "cpu"]:
        """What it computes on."""
        return "cuda" if self.cuda else "rocm" if self.hip else "cpu"


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
    findings: tuple[Problem, ...] = ()
    """What is wrong or doubtful about the machine, all warnings."""

    @property
    def accelerator(self) -> Accelerator | None:
        """The card to train on: of those that are visible and that the PyTorch build can use, the
        one with the most free memory; the first of equals. None: train on the CPU.
        """
        kind = self.torch.kind if self.torch else "cpu"
        usable = [a for a in self.accelerators if a.visible and a.kind == kind]
        return max(usable, key=_room, default=None)

    @property
    def device(self) -> str:
        """Where training runs, in words: `NVIDIA GeForce RTX 4090` or `CPU, 16 threads`."""
        card = self.accelerator
        return card.name if card else f"CPU, {self.cpu_threads} threads"


def _room(card: Accelerator) -> tuple[float, float]:
    return card.memory_free_gib or 0.0, card.memory_total_gib or 0.0
