"""The machines in tests/data/hardware. `python tests/hardware/machine_files.py` writes them all.

Those with NVIDIA cards are what lorakit makes of the driver's answers; AMD's, Apple's and Intel's
are written down as its facts. What PyTorch tried on each is written down for both.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from cards import CARDS, SHARE, Card, uuid_of
from nvidia_machines import ROWS, driver_updated, mig, recorded
from parts import (
    ALL,
    ARCH,
    COMPILES,
    INVALID,
    MAC,
    ROCM,
    ROCM72,
    RYZEN_5,
    THREADRIPPER,
    TOO_OLD,
    UBUNTU_22,
    UBUNTU_24,
    bare,
    probed,
    tried_card,
    tried_cpu,
)
from recorded_machines import MACHINES as RECORDED
from recorded_machines import torch

from lorakit.hardware import nvml
from lorakit.hardware.detect import assemble
from lorakit.hardware.facts import Accelerator, Hardware, Speed, TorchBuild, Tried
from lorakit.hardware.files import save

FOLDER = Path(__file__).resolve().parent.parent / "data" / "hardware"


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
    launch_us: float = 12.0,
    modules: dict[str, str] | None = None,
    failures: dict[str, str] | None = None,
) -> Hardware:
    found = assemble(host, nvml.Answer(), tuple(seen for seen, _ in cards), {})
    devices = [
        tried_card(
            seen, model, launch_us, modules or {}, (failures or {}).get(seen.architecture, "")
        )
        for seen, model in cards
    ]
    return probed(found, *devices, kernels=kernels)


def amd_machines() -> dict[str, Hardware]:
    """Machines with AMD cards, as sysfs, rocm-smi and PyTorch show them."""
    works = {"bitsandbytes": "", "compile": ""}
    return {
        "w7900": _amd(
            bare(UBUNTU_22, THREADRIPPER, 64, (251.5, 241.0), ROCM72),
            _radeon("w7900", 610, "0000:43:00.0", True),
            kernels=ROCM,
            modules=works,
        ),
        "rx7900xtx": _amd(
            bare(UBUNTU_24, "AMD Ryzen 7 7700X 8-Core Processor", 16, (30.5, 24.1), ROCM72),
            _radeon("7900xtx", 1150, "0000:03:00.0", True),
            kernels=ROCM,
            modules=works,
        ),
        "rx6600": _amd(
            bare(UBUNTU_22, RYZEN_5, 12, (15.5, 11.0), ROCM72),
            _radeon("rx6600", 720, "0000:0b:00.0", True),
            kernels=ROCM,
            failures={"gfx1032": INVALID},
        ),
        "igpu-first": _amd(
            bare(ARCH, "AMD Ryzen 7 9700X 8-Core Processor", 16, (30.4, 25.9), ROCM72),
            _radeon("raphael", 31, "0000:11:00.0", True, integrated=True),
            _radeon("9070xt", 24, "0000:03:00.0", False),
            kernels=ROCM,
            modules=works,
            failures={"gfx1036": INVALID},
        ),
        "strix-halo": _amd(
            bare(ARCH, "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", 32, (125.0, 110.3), ROCM72),
            _radeon("8060s", 980, "0000:c3:00.0", True, integrated=True, unified=True),
            kernels=ROCM,
            modules={"compile": ""},
        ),
        "mi300x": _amd(
            bare(UBUNTU_22, "AMD EPYC 9534 64-Core Processor", 24, (235.0, 226.8), ROCM72),
            _radeon("mi300x", 286, "0000:05:00.0", False),
            kernels=ROCM,
            launch_us=22.0,
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
            launch_us=26.0,
        ),
    )
    host = bare(MAC, "Apple M3 Max", 16, (48.0, 31.4), torch("2.13.0"))
    return probed(dataclasses.replace(host, accelerators=(seen,)), device, tried_cpu(2.0, 200))


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
            tflops={"fp32": 10.3, "fp16": 81.6, "bf16": 81.6}, bandwidth_gb_s=388, launch_us=16.0
        ),
    )
    host = bare(
        UBUNTU_24,
        "Intel(R) Core(TM) i5-14600K",
        20,
        (31.1, 25.0),
        TorchBuild(version="2.13.0+xpu", xpu="20250302"),
    )
    return probed(dataclasses.replace(host, accelerators=(seen,)), device, tried_cpu(1.1, 60))


def machines() -> dict[str, Hardware]:
    """All of them, by the name of the file."""
    return {
        "cpu-only": probed(RECORDED["cpu-only"], tried_cpu(0.15, 25)),
        "rtx4090": recorded("rtx4090", "4090", launch_us=9.5, modules=ALL),
        "rtx4090-cpu-torch": recorded("rtx4090-cpu-torch", "4090", launch_us=9.5, modules={}),
        "t4": recorded("t4", "t4", launch_us=26.0, modules={}),
        "gb10": recorded("gb10", "gb10", launch_us=14.0, modules=COMPILES),
        "two-cards": recorded("two-cards", "745", "1080ti", launch_us=18.0, modules=TOO_OLD),
        "h100-mig": mig(),
        "driver-updated": driver_updated(),
        **{name: row.machine(name) for name, row in ROWS.items()},
        **amd_machines(),
        "m3max": apple(),
        "arc-b580": arc(),
    }


if __name__ == "__main__":
    for name, found in machines().items():
        save(found, FOLDER / f"{name}.toml")
