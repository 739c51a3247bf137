"""Machines as NVML answers, and a stand-in for its module that gives these answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml

from lorakit.hardware import nvml
from lorakit.hardware.detect import assemble
from lorakit.hardware.facts import Hardware
from lorakit.hardware.torch_build import build

UNSUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
"""Put in the place of a value, it is what the driver answers for it."""


class FakeNvml:
    """Answers as NVML does: an integer in the place of an answer is raised as that error."""

    NVMLError = pynvml.NVMLError

    def __init__(
        self,
        *cards: dict[str, Any] | int,
        driver: str = "",
        cuda: int = 0,
        init: int = 0,
    ) -> None:
        self._cards = cards
        self._driver = driver
        self._cuda = cuda
        self._init = init
        self.opened = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("NVML_"):
            return getattr(pynvml, name)
        key = name.removeprefix("nvmlDeviceGet")
        if key == name or not hasattr(pynvml, name):
            raise AttributeError(name)
        return lambda card, *_: self._answer(card.get(key, UNSUPPORTED))

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: Any, index: int) -> Any:
        part = dict(enumerate(card.get("parts", ()))).get(index)
        if part is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return part

    @staticmethod
    def _answer(value: Any) -> Any:
        if isinstance(value, int) and value in (UNSUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION):
            raise pynvml.NVMLError(value)
        return value

    def nvmlInit(self) -> None:
        if self._init:
            raise pynvml.NVMLError(self._init)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        card = self._cards[index]
        if isinstance(card, int):
            raise pynvml.NVMLError(card)
        return card

    def nvmlSystemGetDriverVersion(self) -> str:
        return self._driver

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return self._cuda


def card(
    name: Any,
    uuid: str,
    capability: tuple[int, int],
    total: int,
    used: int,
    limit: int = UNSUPPORTED,
    processes: tuple[tuple[int, int | None], ...] = (),
    bus: str = "00000000:01:00.0",
    cores: int = UNSUPPORTED,
    clock: int = UNSUPPORTED,
    display: int = 0,
) -> dict[str, Any]:
    """A card's answers: memory in bytes, the power limit in milliwatts, the clock in MHz."""
    memory = SimpleNamespace(total=total, used=used, free=total - used)
    return {
        "Name": name,
        "UUID": uuid,
        "CudaComputeCapability": capability,
        "MemoryInfo": memory if total else UNSUPPORTED,
        "EnforcedPowerLimit": limit,
        "PciInfo": SimpleNamespace(busId=bus),
        "NumGpuCores": cores,
        "MaxClockInfo": clock,
        "DisplayActive": display,
        "ComputeRunningProcesses": [
            SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in processes
        ],
    }


NAMES = {2113: "python", 977: "Xorg", 40122: "ollama"}
"""Processes that hold memory."""

RTX_4090 = card(
    "NVIDIA GeForce RTX 4090",
    "GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc",
    (8, 9),
    25_757_220_864,
    1_168_179_200,
    450_000,
    cores=16_384,
    clock=3_105,
    display=1,
)
T4 = card(
    "Tesla T4",
    "GPU-1f1e6fd1-3c1f-6f2b-0d27-c5d0ff7f1f43",
    (7, 5),
    16_106_127_360,
    471_859_200,
    70_000,
    bus="00000000:00:04.0",
    cores=2_560,
    clock=1_590,
)
GTX_745 = card(
    b"NVIDIA GeForce GTX 745",
    "GPU-9d0a1c5b-7b0e-4d57-8c5e-5a8e3b1f0c11",
    (5, 0),
    4_294_967_296,
    0,
    bus="00000000:01:00.0",
    cores=384,
    clock=1_033,
    display=1,
)
GTX_1080_TI = card(
    "NVIDIA GeForce GTX 1080 Ti",
    "GPU-9d5e77aa-02a2-4a0f-9c0e-6a1d2f6b0c22",
    (6, 1),
    11_811_160_064,
    6_442_450_944,
    250_000,
    ((2113, 5_905_580_032), (977, None)),
    bus="00000000:02:00.0",
    cores=3_584,
    clock=1_911,
)
GB10 = card(
    "NVIDIA GB10",
    "GPU-0c7a3b52-11aa-4d0e-b2d3-0d4a9b1f0c33",
    (12, 1),
    0,
    0,
    bus="0000000F:01:00.0",
    cores=6_144,
    clock=3_003,
)
A100_IN_PARTS = {
    **card(
        "NVIDIA A100-SXM4-80GB",
        "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77",
        (8, 0),
        85_899_345_920,
        42_949_672_960,
        400_000,
        bus="00000000:07:00.0",
        cores=6_912,
        clock=1_410,
    ),
    "MigMode": [1, 1],
    "MaxMigDeviceCount": 7,
    "parts": [
        {
            "Name": "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
            "UUID": f"MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3{number}",
            "MemoryInfo": SimpleNamespace(
                total=10_200_547_328, used=used, free=10_200_547_328 - used
            ),
            "ComputeRunningProcesses": [],
        }
        for number, used in ((0, 9_663_676_416), (1, 13_107_200))
    ],
}
"""In MIG mode, with two devices in its seven slots. These answer less than a card does."""

VERSION_PY = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '{version}'
debug = False
cuda: Optional[str] = {cuda!r}
git_version = 'cf30153c4c131c8164ee7798e5022d810682e2cb'
hip: Optional[str] = {hip!r}
rocm: Optional[str] = None
xpu: Optional[str] = None
"""
"""torch/version.py as a wheel has it."""


def torch(version: str, cuda: str | None = None, hip: str | None = None) -> Any:
    return build(version, VERSION_PY.format(version=version, cuda=cuda, hip=hip))


def machine(
    fake: FakeNvml | None,
    cpu: str,
    threads: int,
    ram: tuple[float, float],
    build: Any,
    **environ: str,
) -> Hardware:
    host = Hardware(
        system="Linux 6.8.0-45-generic x86_64",
        cpu_name=cpu,
        cpu_threads=threads,
        ram_total_gib=ram[0],
        ram_free_gib=ram[1],
        torch=build,
    )
    answer = nvml.ask(fake, named=lambda pid: NAMES.get(pid, "")) if fake else nvml.Answer()
    return assemble(host, answer, (), environ)


MACHINES = {
    "rtx4090": machine(
        FakeNvml(RTX_4090, driver="570.86.16", cuda=12080),
        "AMD Ryzen 9 7950X 16-Core Processor",
        32,
        (62.7, 54.1),
        torch("2.11.0+cu128", "12.8"),
    ),
    "t4": machine(
        FakeNvml(T4, driver="550.54.15", cuda=12040),
        "Intel(R) Xeon(R) CPU @ 2.00GHz",
        2,
        (12.7, 11.2),
        torch("2.11.0+cu126", "12.6"),
    ),
    "two-cards": machine(
        FakeNvml(GTX_745, GTX_1080_TI, driver="535.183.01", cuda=12020),
        "Intel(R) Core(TM) i7-4790 CPU @ 3.60GHz",
        8,
        (31.3, 20.0),
        torch("2.11.0+cu126", "12.6"),
        CUDA_VISIBLE_DEVICES="0",
    ),
    "cpu-only": machine(
        None, "Intel(R) Xeon(R) Processor", 2, (23.586, 21.604), torch("2.13.0+cpu")
    ),
    "rtx4090-cpu-torch": machine(
        FakeNvml(RTX_4090, driver="570.86.16", cuda=12080),
        "AMD Ryzen 9 7950X 16-Core Processor",
        32,
        (62.7, 54.1),
        torch("2.11.0+cpu"),
    ),
    "gb10": machine(
        FakeNvml(GB10, driver="580.95.05", cuda=13000),
        "Cortex-X925",
        20,
        (121.689, 113.074),
        torch("2.11.0+cu130", "13.0"),
    ),
}
