"""Finds out what this machine is: one call, well under a second, without importing PyTorch."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from lorakit.hardware import amd, findings, machine, nvml, torch_build
from lorakit.hardware.facts import Accelerator, Hardware
from lorakit.hardware.visible import visible


def detect() -> Hardware:
    """The facts of this machine. Raises nothing: what cannot be found out is None or a finding."""
    driver = nvml.module()
    answer = nvml.ask(driver, machine.nvidia_on_bus()) if driver else nvml.Answer()
    total, free = machine.ram_gib()
    return assemble(
        Hardware(
            system=machine.system(),
            cpu_name=machine.cpu_name(),
            cpu_threads=machine.cpu_threads(),
            ram_total_gib=total,
            ram_free_gib=free,
            torch=torch_build.installed(),
        ),
        answer,
        amd.cards(),
        os.environ,
    )


def assemble(
    host: Hardware,
    answer: nvml.Answer,
    amd_cards: tuple[Accelerator, ...],
    environ: Mapping[str, str],
) -> Hardware:
    """The machine with its cards, those hidden by the environment marked, and its findings."""
    nvidia = [_unified(card, host) for card in answer.accelerators]
    hip = environ.get("HIP_VISIBLE_DEVICES", environ.get("ROCR_VISIBLE_DEVICES"))
    whole = dataclasses.replace(
        host,
        accelerators=(
            *_marked(nvidia, environ.get("CUDA_VISIBLE_DEVICES")),
            *_marked(amd_cards, hip),
        ),
        driver=answer.driver,
        driver_cuda=answer.driver_cuda,
    )
    return dataclasses.replace(whole, findings=answer.findings + findings.of(whole, environ))


def _unified(card: Accelerator, host: Hardware) -> Accelerator:
    """A board that shares its memory with the processor has no answer of its own to give."""
    if card.memory_total_gib is not None:
        return card
    return dataclasses.replace(
        card,
        memory_total_gib=host.ram_total_gib,
        memory_free_gib=host.ram_free_gib,
        unified=True,
    )


def _marked(cards: Any, setting: str | None) -> list[Accelerator]:
    shown = visible([c.uuid for c in cards], setting)
    return [dataclasses.replace(c, visible=n in shown) for n, c in enumerate(cards)]
