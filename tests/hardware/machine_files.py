"""The machines in tests/data/hardware. `python tests/hardware/machine_files.py` writes them all.

Those with NVIDIA cards are what lorakit makes of the driver's answers; AMD's, Apple's and Intel's
are written down as its facts. What PyTorch tried on each is written down for both.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
from cards import CARDS, SHARE, Card, uuid_of
from recorded_machines import MACHINES as RECORDED
from recorded_machines import UNSUPPORTED, FakeNvml, card, torch

from lorakit.hardware import nvml
from lorakit.hardware.detect import assemble
from lorakit.hardware.facts import Accelerator, Hardware, Probe, Speed, TorchBuild, Tried
from lorakit.hardware.files import save
from lorakit.hardware.machine import NvidiaSigns

FOLDER = Path(__file__).resolve().parent.parent / "data" / "hardware"

MIB = 1024**2

CUDA = {
    "12.6": ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"),
    "12.8": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
    "13.0": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"),
}
"""`torch.cuda.get_arch_list()` of PyTorch 2.11 and newer, by the CUDA version of the build."""

ROCM_6_4 = (
    "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102",
    "gfx1200", "gfx1201",
)  # fmt: skip
ROCM_7 = (*ROCM_6_4, "gfx950", "gfx1150", "gfx1151")

CU126 = torch("2.13.0+cu126", "12.6")
CU128 = torch("2.11.0+cu128", "12.8")
CU130 = torch("2.13.0+cu130", "13.0")
ROCM64 = torch("2.11.0+rocm6.4", hip="6.4.43484-123eb5128")
ROCM71 = torch("2.13.0+rocm7.1", hip="7.1.25424-4179531dcd")
CPU = torch("2.13.0+cpu")

UBUNTU_22 = "Linux 5.15.0-139-generic x86_64"
UBUNTU_24 = "Linux 6.8.0-85-generic x86_64"
ARCH = "Linux 6.17.1-arch1-1 x86_64"
WSL = "Linux 6.6.87.2-microsoft-standard-WSL2 x86_64 (WSL)"
WINDOWS = "Windows 11 AMD64"
MAC = "Darwin 24.6.0 arm64"

COMPILES = {"compile": ""}
ALL = {"xformers": "", "bitsandbytes": "", "compile": ""}
NO_TRITON = {
    "bitsandbytes": "",
    "compile": "Cannot find a working triton installation. Either the package is not installed or "
    "it is too old.",
}
TOO_OLD = {
    "compile": "Found NVIDIA GeForce GTX 1080 Ti which is too old to be supported by the triton "
    "GPU compiler, which is used as the backend."
}


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
    launch_us: float = 5.0
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
        host = _host(self.system, self.cpu, self.threads, self.ram, self.torch)
        found = assemble(host, answer, (), self.environ)
        if self.torch is None or self.torch.cuda is None:
            return _tried(found, _cpu())
        tried = [
            _device(a, s.card, self.launch_us, self.modules, self.failure)
            for a, s in zip(found.accelerators, self.slots, strict=True)
            if a.visible
        ]
        return _tried(found, *tried, kernels=CUDA[self.torch.cuda])


def _name(pid: int) -> str:
    return "python3" if pid == OTHER else ""


def _host(
    system: str, cpu: str, threads: int, ram: tuple[float, float], build: TorchBuild | None
) -> Hardware:
    return Hardware(
        system=system,
        cpu_name=cpu,
        cpu_threads=threads,
        ram_total_gib=ram[0],
        ram_free_gib=ram[1],
        torch=build,
    )


def _device(
    seen: Accelerator,
    model: Card,
    launch_us: float,
    modules: dict[str, str],
    failure: str = "",
) -> Tried:
    """A device as PyTorch sees it. One that fails at its first operation is asked no more."""
    held = (seen.memory_total_gib or 0) - (seen.memory_free_gib or 0)
    plain = Tried(
        kind=seen.kind,
        name=seen.name,
        uuid=seen.uuid,
        pci=seen.pci,
        architecture=seen.architecture,
        memory_total_gib=model.torch_gib,
        memory_free_gib=max(0.0, min(model.torch_gib, seen.memory_total_gib or 0) - held),
        integrated=seen.integrated,
        failure=failure,
    )
    if failure:
        return plain
    return dataclasses.replace(
        plain,
        precisions=model.precisions,
        attention=model.attention,
        kernels=model.kernels,
        modules=modules,
        speed=model.speed(launch_us),
    )


def _cpu(tflops: float = 0.9, bandwidth_gb_s: float = 40) -> Tried:
    return Tried(
        kind="cpu",
        name="CPU",
        precisions=("fp32", "fp16", "bf16"),
        attention="flash",
        kernels=("flash", "math"),
        speed=Speed(tflops={"fp32": tflops}, bandwidth_gb_s=bandwidth_gb_s, launch_us=2.0),
    )


def _tried(machine: Hardware, *devices: Tried, kernels: tuple[str, ...] = ()) -> Hardware:
    return dataclasses.replace(machine, probe=Probe(devices=devices, architectures=kernels))


OTHER = 48_211
"""A process that holds memory."""

INVALID = "HIP error: invalid device function"
NO_IMAGE = "CUDA error: no kernel image is available for execution on the device"

RYZEN_5 = "AMD Ryzen 5 5600X 6-Core Processor"
RYZEN_9 = "AMD Ryzen 9 7950X 16-Core Processor"
THREADRIPPER = "AMD Ryzen Threadripper PRO 5975WX 32-Cores"
EPYC = "AMD EPYC 9354 32-Core Processor"
XEON = "Intel(R) Xeon(R) Platinum 8480C"

# fmt: off
NVIDIA_MACHINES = {
    "gtx1080ti": Row(
        slots=(_slot("1080ti", 412, True),), cpu="Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz",
        threads=12, ram=(31.3, 26.0), driver=("570.195.03", 12080), torch=CU128,
        failure=NO_IMAGE),
    "gtx1660s": Row(
        slots=(_slot("1660s", 534, True),), cpu="AMD Ryzen 5 3600 6-Core Processor", threads=12,
        ram=(15.5, 11.9), driver=("550.163.01", 12040), torch=CU126, launch_us=7.0),
    "rtx2060": Row(
        slots=(_slot("2060", 601, True),), cpu="Intel(R) Core(TM) i5-9400F CPU @ 2.90GHz",
        threads=6, ram=(15.6, 11.2), driver=("535.274.02", 12020), torch=CU126, launch_us=7.0),
    "rtx2080ti": Row(
        slots=(_slot("2080ti", 356, True),), cpu="Intel(R) Core(TM) i9-9900K CPU @ 3.60GHz",
        threads=16, ram=(62.7, 56.8), driver=("570.195.03", 12080), torch=CU128, launch_us=6.0,
        modules=ALL),
    "v100": Row(
        slots=(_slot("v100", 6, False, bus="1a:00.0"),),
        cpu="Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", threads=10, ram=(92.9, 88.1),
        driver=("550.144.03", 12040), torch=CU126, system="Linux 4.18.0-553.el8_10.x86_64 x86_64",
        launch_us=8.0),
    "rtx3060": Row(
        slots=(_slot("3060", 824, True),), cpu=RYZEN_5, threads=12, ram=(31.2, 25.3),
        driver=("580.95.05", 13000), torch=CU130, modules={"bitsandbytes": "", "compile": ""}),
    "rtx3080": Row(
        slots=(_slot("3080", 1390, True),), cpu="Intel(R) Core(TM) i7-12700K", threads=20,
        ram=(31.8, 22.6), driver=("581.57", 13000), torch=CU130, system=WINDOWS, launch_us=9.0,
        modules=NO_TRITON),
    "rtx4060-laptop": Row(
        slots=(_slot("4060m", 14, False, limit=False),), cpu="AMD Ryzen 7 7840HS", threads=16,
        ram=(14.9, 10.4), driver=("575.64.03", 12090), torch=CU128, system=ARCH,
        modules=COMPILES),
    "rtx4070tis": Row(
        slots=(_slot("4070tis", 933, True),), cpu="AMD Ryzen 7 7800X3D 8-Core Processor",
        threads=16, ram=(30.9, 24.7), driver=("580.82.07", 13000), torch=CU130, modules=COMPILES),
    "rtx5090": Row(
        slots=(_slot("5090", 1208, True),), cpu="AMD Ryzen 9 9950X 16-Core Processor", threads=32,
        ram=(91.8, 83.0), driver=("580.105.08", 13000), torch=CU130, system=ARCH, launch_us=4.0,
        modules=ALL),
    "a4000": Row(
        slots=(_slot("a4000", 287, True, bus="65:00.0"),),
        cpu="Intel(R) Xeon(R) W-2245 CPU @ 3.90GHz", threads=16, ram=(62.5, 55.0),
        driver=("560.35.05", 12060), torch=CU126, system=UBUNTU_22, launch_us=6.0,
        modules=COMPILES),
    "a6000": Row(
        slots=(_slot("a6000", 318, True, bus="41:00.0"),), cpu=THREADRIPPER, threads=64,
        ram=(251.5, 240.2), driver=("570.133.20", 12080), torch=CU128, system=UBUNTU_22,
        launch_us=6.0, modules=ALL),
    "rtx5000ada": Row(
        slots=(_slot("5000ada", 472, True, bus="52:00.0"),), cpu="Intel(R) Xeon(R) w5-3435X",
        threads=32, ram=(125.5, 117.3), driver=("570.195.03", 12080), torch=CU128, modules=ALL),
    "rtx6000ada": Row(
        slots=(_slot("6000ada", 390, True, bus="c1:00.0"),), cpu=THREADRIPPER, threads=64,
        ram=(251.5, 243.9), driver=("580.95.05", 13000), torch=CU130, modules=ALL),
    "l40s": Row(
        slots=(_slot("l40s", 1, False, bus="3d:00.0"),), cpu=EPYC, threads=16, ram=(125.8, 121.6),
        driver=("570.172.08", 12080), torch=CU128, modules=ALL),
    "a100-40gb": Row(
        slots=(_slot("a100-40", 5, False, bus="07:00.0"),),
        cpu="Intel(R) Xeon(R) CPU @ 2.20GHz", threads=12, ram=(83.5, 80.0),
        driver=("550.90.07", 12040), torch=CU126, launch_us=8.0, modules=ALL),
    "a100-80gb": Row(
        slots=(_slot("a100-80", 5, False, bus="c7:00.0"),), cpu="AMD EPYC 7763 64-Core Processor",
        threads=32, ram=(251.7, 238.4), driver=("570.172.08", 12080), torch=CU128,
        system=UBUNTU_22, launch_us=6.5, modules=ALL),
    "h100": Row(
        slots=(_slot("h100", 4, False, bus="19:00.0"),), cpu=XEON, threads=26, ram=(221.3, 214.0),
        driver=("570.195.03", 12080), torch=CU128, launch_us=5.5, modules=ALL),
    "h200": Row(
        slots=(_slot("h200", 4, False, bus="ab:00.0"),), cpu="INTEL(R) XEON(R) PLATINUM 8568Y+",
        threads=24, ram=(235.9, 228.7), driver=("580.105.08", 13000), torch=CU130,
        modules=ALL),
    "two-unequal": Row(
        slots=(_slot("4090", 2, False, bus="01:00.0"), _slot("3060", 911, True, bus="05:00.0")),
        cpu=RYZEN_9, threads=32, ram=(62.7, 55.3), driver=("580.95.05", 13000), torch=CU130,
        modules=ALL),
    "rtx4090-shared": Row(
        slots=(_slot("4090", 14_913, False, bus="81:00.0",
                     processes=((OTHER, 14_470 * MIB),)),),
        cpu=EPYC, threads=32, ram=(251.6, 190.0), driver=("570.195.03", 12080), torch=CU128,
        modules=ALL),
    "t4-container": Row(
        slots=(_slot("t4", 2, False, bus="00:04.0"),), cpu="Intel(R) Xeon(R) CPU @ 2.00GHz",
        threads=4, ram=(15.0, 13.9), driver=("550.54.15", 12040), torch=CU126,
        system="Linux 6.1.123+ x86_64", launch_us=10.0),
    "wsl-rtx3070": Row(
        slots=(_slot("3070", 1104, True, limit=False),),
        cpu="Intel(R) Core(TM) i7-10700K CPU @ 3.80GHz", threads=16,
        ram=(15.5, 14.2), driver=("581.57", 13000), torch=CU130, system=WSL,
        launch_us=9.0, modules=COMPILES),
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
    found = assemble(_host(UBUNTU_22, XEON, 8, (62.8, 60.1), CU128), answer, (), {})
    device = _device(found.accelerators[0], model, 5.5, COMPILES)
    return _tried(found, device, kernels=CUDA["12.8"])


def driver_updated() -> Hardware:
    """Before the reboot NVML does not start, and CUDA finds no card."""
    answer = nvml.ask(FakeNvml(init=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH))
    host = _host(UBUNTU_24, RYZEN_9, 32, (62.7, 57.0), CU128)
    return _tried(assemble(host, answer, (), {}), _cpu(1.4, 60), kernels=CUDA["12.8"])


def _radeon(
    name: str,
    used_mib: int,
    pci: str,
    screen: bool,
    integrated: bool = False,
    unified: bool = False,
) -> tuple[Accelerator, Card]:
    model = CARDS[name]
    seen = Accelerator(
        kind="rocm",
        name=model.name,
        uuid="" if integrated else f"GPU-{uuid_of(name + pci).replace('-', '')[:16]}",
        pci=pci,
        architecture=model.architecture,
        memory_total_gib=model.mib / 1024,
        memory_free_gib=(model.mib - used_mib) / 1024,
        unified=unified,
        integrated=integrated,
        display=screen,
        power_limit_w=None if integrated else float(model.watts),
    )
    return seen, model


def _amd(
    host: Hardware,
    *cards: tuple[Accelerator, Card],
    kernels: tuple[str, ...],
    launch_us: float = 7.0,
    modules: dict[str, str] | None = None,
    failures: dict[str, str] | None = None,
) -> Hardware:
    found = assemble(host, nvml.Answer(), tuple(seen for seen, _ in cards), {})
    devices = [
        _device(seen, model, launch_us, modules or {}, (failures or {}).get(seen.architecture, ""))
        for seen, model in cards
    ]
    return _tried(found, *devices, kernels=kernels)


def amd_machines() -> dict[str, Hardware]:
    """Machines with AMD cards, as sysfs, rocm-smi and PyTorch show them."""
    works = {"bitsandbytes": "", "compile": ""}
    return {
        "w7900": _amd(
            _host(UBUNTU_22, THREADRIPPER, 64, (251.5, 241.0), ROCM71),
            _radeon("w7900", 610, "0000:43:00.0", True),
            kernels=ROCM_7,
            modules=works,
        ),
        "rx7900xtx": _amd(
            _host(UBUNTU_24, "AMD Ryzen 7 7700X 8-Core Processor", 16, (30.5, 24.1), ROCM71),
            _radeon("7900xtx", 1150, "0000:03:00.0", True),
            kernels=ROCM_7,
            modules=works,
        ),
        "rx6600": _amd(
            _host(UBUNTU_22, RYZEN_5, 12, (15.5, 11.0), ROCM64),
            _radeon("rx6600", 720, "0000:0b:00.0", True),
            kernels=ROCM_6_4,
            failures={"gfx1032": INVALID},
        ),
        "igpu-first": _amd(
            _host(ARCH, "AMD Ryzen 7 9700X 8-Core Processor", 16, (30.4, 25.9), ROCM71),
            _radeon("raphael", 31, "0000:11:00.0", True, integrated=True),
            _radeon("9070xt", 24, "0000:03:00.0", False),
            kernels=ROCM_7,
            modules=works,
            failures={"gfx1036": INVALID},
        ),
        "strix-halo": _amd(
            _host(ARCH, "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", 32, (125.0, 110.3), ROCM71),
            _radeon("8060s", 980, "0000:c3:00.0", True, integrated=True, unified=True),
            kernels=ROCM_7,
            modules={"compile": ""},
        ),
        "mi300x": _amd(
            _host(UBUNTU_22, "AMD EPYC 9534 64-Core Processor", 24, (235.0, 226.8), ROCM71),
            _radeon("mi300x", 286, "0000:05:00.0", False),
            kernels=ROCM_7,
            launch_us=6.5,
            modules=works,
        ),
    }


def apple() -> Hardware:
    """An M3 Max with 40 graphics cores: its memory is the machine's."""
    seen = Accelerator(
        kind="mps",
        name="Apple M3 Max",
        architecture="",
        memory_total_gib=48.0,
        memory_free_gib=31.4,
        unified=True,
        integrated=True,
        display=True,
    )
    fp32, half, bandwidth = SHARE["mps"]
    device = Tried(
        kind="mps",
        name="Apple M3 Max",
        memory_total_gib=36.0,
        memory_free_gib=31.4,
        precisions=("fp32", "fp16", "bf16"),
        attention="math",
        kernels=("math",),
        speed=Speed(
            tflops={
                "fp32": round(14.2 * fp32, 1),
                "fp16": round(16.4 * half, 1),
                "bf16": round(16.4 * half, 1),
            },
            bandwidth_gb_s=round(400 * bandwidth),
            launch_us=18.0,
        ),
    )
    host = _host(MAC, "Apple M3 Max", 16, (48.0, 31.4), torch("2.13.0"))
    return _tried(dataclasses.replace(host, accelerators=(seen,)), device, _cpu(2.0, 200))


def arc() -> Hardware:
    """A B580 as PyTorch's build for Intel shows it."""
    seen = Accelerator(
        kind="xpu",
        name="Intel(R) Arc(TM) B580 Graphics",
        uuid="",
        pci="0000:03:00.0",
        architecture="bmg-g21",
        memory_total_gib=11.605,
        memory_free_gib=10.914,
        display=True,
        power_limit_w=190.0,
    )
    device = Tried(
        kind="xpu",
        name=seen.name,
        pci=seen.pci,
        architecture=seen.architecture,
        memory_total_gib=11.605,
        memory_free_gib=10.914,
        precisions=("fp32", "fp16", "bf16"),
        attention="flash",
        kernels=("flash", "math"),
        speed=Speed(
            tflops={"fp32": 10.3, "fp16": 81.6, "bf16": 81.6}, bandwidth_gb_s=388, launch_us=11.0
        ),
    )
    host = _host(
        UBUNTU_24,
        "Intel(R) Core(TM) i5-14600K",
        20,
        (31.1, 25.0),
        TorchBuild(version="2.13.0+xpu", xpu="20250302"),
    )
    return _tried(dataclasses.replace(host, accelerators=(seen,)), device, _cpu(1.1, 60))


def recorded(name: str, *models: str, launch_us: float, modules: dict[str, str]) -> Hardware:
    """One of the recorded machines, with the model of each card."""
    found = RECORDED[name]
    assert found.torch is not None
    if found.torch.cuda is None:
        return _tried(found, _cpu())
    devices = [
        _device(a, CARDS[model], launch_us, modules)
        for a, model in zip(found.accelerators, models, strict=True)
        if a.visible
    ]
    return _tried(found, *devices, kernels=CUDA[found.torch.cuda])


def machines() -> dict[str, Hardware]:
    """All of them, by the name of the file."""
    return {
        "cpu-only": _tried(RECORDED["cpu-only"], _cpu(0.15, 12)),
        "rtx4090": recorded("rtx4090", "4090", launch_us=4.5, modules=ALL),
        "rtx4090-cpu-torch": recorded("rtx4090-cpu-torch", "4090", launch_us=4.5, modules={}),
        "t4": recorded("t4", "t4", launch_us=10.0, modules={}),
        "gb10": recorded("gb10", "gb10", launch_us=6.0, modules=COMPILES),
        "two-cards": recorded("two-cards", "745", "1080ti", launch_us=9.0, modules=TOO_OLD),
        "h100-mig": mig(),
        "driver-updated": driver_updated(),
        **{name: row.machine(name) for name, row in NVIDIA_MACHINES.items()},
        **amd_machines(),
        "m3max": apple(),
        "arc-b580": arc(),
    }


if __name__ == "__main__":
    for name, found in machines().items():
        save(found, FOLDER / f"{name}.toml")
