"""What machines are made of: builds of PyTorch, systems, and what PyTorch says of a card."""

from __future__ import annotations

import dataclasses

from cards import Card
from recorded_machines import torch

from lorakit.hardware import findings
from lorakit.hardware.facts import Accelerator, Hardware, Probe, Speed, TorchBuild, Tried

CUDA = {
    "12.6": ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"),
    "12.8": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"),
    "13.0": ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"),
}
"""`torch.cuda.get_arch_list()` of PyTorch 2.11 and newer, by the CUDA version of the build."""

ROCM = (
    "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102",
    "gfx1200", "gfx1201", "gfx950", "gfx1150", "gfx1151",
)  # fmt: skip
"""The same of the builds for ROCm 7.2."""

CU126 = torch("2.13.0+cu126", "12.6")
CU128 = torch("2.11.0+cu128", "12.8")
CU130 = torch("2.13.0+cu130", "13.0")
ROCM72 = torch("2.13.0+rocm7.2", hip="7.2.26015-fc0010cf6a")

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


INVALID = "HIP error: invalid device function"
NO_IMAGE = "CUDA error: no kernel image is available for execution on the device"

RYZEN_5 = "AMD Ryzen 5 5600X 6-Core Processor"
RYZEN_9 = "AMD Ryzen 9 7950X 16-Core Processor"
THREADRIPPER = "AMD Ryzen Threadripper PRO 5975WX 32-Cores"
EPYC = "AMD EPYC 9354 32-Core Processor"
XEON = "Intel(R) Xeon(R) Platinum 8480C"


def bare(
    system: str, processor: str, threads: int, ram: tuple[float, float], build: TorchBuild | None
) -> Hardware:
    return Hardware(
        system=system,
        cpu_name=processor,
        cpu_threads=threads,
        ram_total_gib=ram[0],
        ram_free_gib=ram[1],
        torch=build,
    )


def tried_card(
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


def tried_cpu(tflops: float = 0.9, bandwidth_gb_s: float = 40) -> Tried:
    return Tried(
        kind="cpu",
        name="CPU",
        precisions=("fp32", "fp16", "bf16"),
        attention="flash",
        kernels=("flash", "math"),
        speed=Speed(
            tflops={"fp32": tflops, "fp16": round(tflops * 0.8, 2), "bf16": tflops},
            bandwidth_gb_s=bandwidth_gb_s,
            launch_us=8.5,
        ),
    )


def probed(machine: Hardware, *devices: Tried, kernels: tuple[str, ...] = ()) -> Hardware:
    whole = dataclasses.replace(machine, probe=Probe(devices=devices, architectures=kernels))
    before = findings.of(machine, {})
    kept = tuple(f for f in machine.findings if f not in before)
    return dataclasses.replace(whole, findings=(*kept, *findings.of(whole, {})))
