"""Machines with NVIDIA cards, one row each: what lorakit makes of the driver's answers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pynvml
from cards import CARDS, Card, uuid_of
from parts import (
    ALL,
    ARCH,
    COMPILES,
    CU126,
    CU128,
    CU130,
    CUDA,
    EPYC,
    NO_IMAGE,
    NO_TRITON,
    RYZEN_5,
    RYZEN_9,
    THREADRIPPER,
    UBUNTU_22,
    UBUNTU_24,
    WINDOWS,
    WSL,
    XEON,
    bare,
    probed,
    tried_card,
    tried_cpu,
)
from recorded_machines import MACHINES as RECORDED
from recorded_machines import UNSUPPORTED, FakeNvml, card

from lorakit.hardware import nvml
from lorakit.hardware.detect import assemble
from lorakit.hardware.facts import Hardware, TorchBuild
from lorakit.hardware.machine import NvidiaSigns

MIB = 1024**2

OTHER = 48_211
"""A process that holds memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A card in a machine."""

    card: Card
    used_mib: int
    screen: bool
    bus: str = "01:00.0"
    processes: tuple[tuple[int, int | None], ...] = ()
    limit: bool = True

    def answers(self, seed: str) -> dict[str, Any]:
        """What NVML says of it."""
        return card(
            self.card.name,
            f"GPU-{uuid_of(seed + self.bus)}",
            self.card.capability,
            self.card.mib * MIB,
            self.used_mib * MIB,
            self.card.watts * 1000 if self.limit else UNSUPPORTED,
            self.processes,
            bus=f"00000000:{self.bus}".upper(),
            display=int(self.screen),
        )


def _slot(name: str, used_mib: int, screen: bool, **more: Any) -> Slot:
    return Slot(card=CARDS[name], used_mib=used_mib, screen=screen, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A machine with NVIDIA cards."""

    slots: tuple[Slot, ...]
    cpu: str
    threads: int
    ram: tuple[float, float]
    """Total and free GiB."""
    driver: tuple[str, int]
    """Version, and the CUDA version that NVML gives for it."""
    torch: TorchBuild | None
    system: str = UBUNTU_24
    launch_us: float = 14.0
    """Of the host with its PyTorch: a desktop of these years has about 10, a server's slow cores 20
    and more."""
    modules: dict[str, str] = dataclasses.field(default_factory=dict)
    failure: str = ""
    environ: dict[str, str] = dataclasses.field(default_factory=dict)

    def machine(self, seed: str) -> Hardware:
        """What lorakit makes of it."""
        fake = FakeNvml(
            *(slot.answers(seed) for slot in self.slots),
            driver=self.driver[0],
            cuda=self.driver[1],
        )
        answer = nvml.ask(fake, NvidiaSigns(on_bus=True, wsl=self.system == WSL), _name)
        host = bare(self.system, self.cpu, self.threads, self.ram, self.torch)
        found = assemble(host, answer, (), self.environ)
        if self.torch is None or self.torch.cuda is None:
            return probed(found, tried_cpu())
        tried = [
            tried_card(a, s.card, self.launch_us, self.modules, self.failure)
            for a, s in zip(found.accelerators, self.slots, strict=True)
            if a.visible
        ]
        return probed(found, *tried, kernels=CUDA[self.torch.cuda])


def _name(pid: int) -> str:
    return "python3" if pid == OTHER else ""


# fmt: off
ROWS = {
    "gtx1080ti": Row(
        slots=(_slot("1080ti", 412, True),), cpu="Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz",
        threads=12, ram=(31.3, 26.0), driver=("570.195.03", 12080), torch=CU128,
        failure=NO_IMAGE),
    "gtx1660s": Row(
        slots=(_slot("1660s", 534, True),), cpu="AMD Ryzen 5 3600 6-Core Processor", threads=12,
        ram=(15.5, 11.9), driver=("550.163.01", 12040), torch=CU126, launch_us=14.0),
    "rtx2060": Row(
        slots=(_slot("2060", 601, True),), cpu="Intel(R) Core(TM) i5-9400F CPU @ 2.90GHz",
        threads=6, ram=(15.6, 11.2), driver=("535.274.02", 12020), torch=CU126, launch_us=14.0),
    "rtx2080ti": Row(
        slots=(_slot("2080ti", 356, True),), cpu="Intel(R) Core(TM) i9-9900K CPU @ 3.60GHz",
        threads=16, ram=(62.7, 56.8), driver=("570.195.03", 12080), torch=CU128, launch_us=13.0,
        modules=ALL),
    "v100": Row(
        slots=(_slot("v100", 6, False, bus="1a:00.0"),),
        cpu="Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", threads=10, ram=(92.9, 88.1),
        driver=("550.144.03", 12040), torch=CU126, system="Linux 4.18.0-553.el8_10.x86_64 x86_64",
        launch_us=24.0),
    "rtx3060": Row(
        slots=(_slot("3060", 824, True),), cpu=RYZEN_5, threads=12, ram=(31.2, 25.3),
        driver=("580.95.05", 13000), torch=CU130, launch_us=11.0,
        modules={"bitsandbytes": "", "compile": ""}),
    "rtx3080": Row(
        slots=(_slot("3080", 1390, True),), cpu="Intel(R) Core(TM) i7-12700K", threads=20,
        ram=(31.8, 22.6), driver=("581.57", 13000), torch=CU130, system=WINDOWS, launch_us=16.0,
        modules=NO_TRITON),
    "rtx4060-laptop": Row(
        slots=(_slot("4060m", 14, False, limit=False),), cpu="AMD Ryzen 7 7840HS", threads=16,
        ram=(14.9, 10.4), driver=("575.64.03", 12090), torch=CU128, launch_us=12.0, system=ARCH,
        modules=COMPILES),
    "rtx4070tis": Row(
        slots=(_slot("4070tis", 933, True),), cpu="AMD Ryzen 7 7800X3D 8-Core Processor",
        threads=16, ram=(30.9, 24.7), driver=("580.82.07", 13000), torch=CU130, launch_us=10.0,
        modules=COMPILES),
    "rtx5090": Row(
        slots=(_slot("5090", 1208, True),), cpu="AMD Ryzen 9 9950X 16-Core Processor", threads=32,
        ram=(91.8, 83.0), driver=("580.105.08", 13000), torch=CU130, system=ARCH, launch_us=9.0,
        modules=ALL),
    "a4000": Row(
        slots=(_slot("a4000", 287, True, bus="65:00.0"),),
        cpu="Intel(R) Xeon(R) W-2245 CPU @ 3.90GHz", threads=16, ram=(62.5, 55.0),
        driver=("560.35.05", 12060), torch=CU126, system=UBUNTU_22, launch_us=14.0,
        modules=COMPILES),
    "a6000": Row(
        slots=(_slot("a6000", 318, True, bus="41:00.0"),), cpu=THREADRIPPER, threads=64,
        ram=(251.5, 240.2), driver=("570.133.20", 12080), torch=CU128, system=UBUNTU_22,
        launch_us=14.0, modules=ALL),
    "rtx5000ada": Row(
        slots=(_slot("5000ada", 472, True, bus="52:00.0"),), cpu="Intel(R) Xeon(R) w5-3435X",
        threads=32, ram=(125.5, 117.3), driver=("570.195.03", 12080), torch=CU128, launch_us=15.0,
        modules=ALL),
    "rtx6000ada": Row(
        slots=(_slot("6000ada", 390, True, bus="c1:00.0"),), cpu=THREADRIPPER, threads=64,
        ram=(251.5, 243.9), driver=("580.95.05", 13000), torch=CU130, launch_us=14.0, modules=ALL),
    "l40s": Row(
        slots=(_slot("l40s", 1, False, bus="3d:00.0"),), cpu=EPYC, threads=16, ram=(125.8, 121.6),
        driver=("570.172.08", 12080), torch=CU128, launch_us=22.0, modules=ALL),
    "a100-40gb": Row(
        slots=(_slot("a100-40", 5, False, bus="07:00.0"),),
        cpu="Intel(R) Xeon(R) CPU @ 2.20GHz", threads=12, ram=(83.5, 80.0),
        driver=("550.90.07", 12040), torch=CU126, launch_us=26.0, modules=ALL),
    "a100-80gb": Row(
        slots=(_slot("a100-80", 5, False, bus="c7:00.0"),), cpu="AMD EPYC 7763 64-Core Processor",
        threads=32, ram=(251.7, 238.4), driver=("570.172.08", 12080), torch=CU128,
        system=UBUNTU_22, launch_us=23.0, modules=ALL),
    "h100": Row(
        slots=(_slot("h100", 4, False, bus="19:00.0"),), cpu=XEON, threads=26, ram=(221.3, 214.0),
        driver=("570.195.03", 12080), torch=CU128, launch_us=22.0, modules=ALL),
    "h200": Row(
        slots=(_slot("h200", 4, False, bus="ab:00.0"),), cpu="INTEL(R) XEON(R) PLATINUM 8568Y+",
        threads=24, ram=(235.9, 228.7), driver=("580.105.08", 13000), torch=CU130, launch_us=20.0,
        modules=ALL),
    "two-unequal": Row(
        slots=(_slot("4090", 2, False, bus="01:00.0"), _slot("3060", 911, True, bus="05:00.0")),
        cpu=RYZEN_9, threads=32, ram=(62.7, 55.3), driver=("580.95.05", 13000), torch=CU130,
        launch_us=10.0, modules=ALL),
    "rtx4090-shared": Row(
        slots=(_slot("4090", 14_913, False, bus="81:00.0",
                     processes=((OTHER, 14_470 * MIB),)),),
        cpu=EPYC, threads=32, ram=(251.6, 190.0), driver=("570.195.03", 12080), torch=CU128,
        launch_us=22.0, modules=ALL),
    "t4-container": Row(
        slots=(_slot("t4", 2, False, bus="00:04.0"),), cpu="Intel(R) Xeon(R) CPU @ 2.00GHz",
        threads=4, ram=(15.0, 13.9), driver=("550.54.15", 12040), torch=CU126,
        system="Linux 6.1.123+ x86_64", launch_us=26.0),
    "wsl-rtx3070": Row(
        slots=(_slot("3070", 1104, True, limit=False),),
        cpu="Intel(R) Core(TM) i7-10700K CPU @ 3.80GHz", threads=16,
        ram=(15.5, 14.2), driver=("581.57", 13000), torch=CU130, system=WSL,
        launch_us=18.0, modules=COMPILES),
}
# fmt: on


def mig() -> Hardware:
    """A seventh of an H100 as NVML tells it: what the part does not answer, the whole card does."""
    model = CARDS["h100-1g"]
    total, used = model.mib * MIB, 15 * MIB
    whole = {
        **_slot("h100", 4, False, bus="19:00.0").answers("h100-mig"),
        "MigMode": [1, 1],
        "MaxMigDeviceCount": 7,
        "parts": [
            {
                "Name": model.name,
                "UUID": f"MIG-{uuid_of('h100-mig')}",
                "MemoryInfo": SimpleNamespace(total=total, used=used, free=total - used),
                "ComputeRunningProcesses": [],
            }
        ],
    }
    answer = nvml.ask(FakeNvml(whole, driver="570.195.03", cuda=12080))
    found = assemble(bare(UBUNTU_22, XEON, 8, (62.8, 60.1), CU128), answer, (), {})
    device = tried_card(found.accelerators[0], model, 22.0, COMPILES)
    return probed(found, device, kernels=CUDA["12.8"])


def driver_updated() -> Hardware:
    """Before the reboot NVML does not start, and CUDA finds no card."""
    answer = nvml.ask(FakeNvml(init=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH))
    host = bare(UBUNTU_24, RYZEN_9, 32, (62.7, 57.0), CU128)
    return probed(assemble(host, answer, (), {}), tried_cpu(1.4, 60), kernels=CUDA["12.8"])


def recorded(name: str, *models: str, launch_us: float, modules: dict[str, str]) -> Hardware:
    """One of the recorded machines, with the model of each card."""
    found = RECORDED[name]
    assert found.torch is not None
    if found.torch.cuda is None:
        return probed(found, tried_cpu())
    devices = [
        tried_card(a, CARDS[model], launch_us, modules)
        for a, model in zip(found.accelerators, models, strict=True)
        if a.visible
    ]
    return probed(found, *devices, kernels=CUDA[found.torch.cuda])
