"""Finds out what this machine is: one call, well under a second, without importing PyTorch."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lorakit.bundle.problems import Problem
from lorakit.hardware import amd, amd_smi, findings, machine, nvidia_smi, nvml, torch_build
from lorakit.hardware.facts import Accelerator, Hardware
from lorakit.hardware.visible import cpu_wanted, hip_visible, visible


def detect() -> Hardware:
    """The facts of this machine. Raises nothing: what cannot be found out is None or a finding."""
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
        _nvidia(),
        _amd(),
        os.environ,
        amd.denied(),
    )


def assemble(
    host: Hardware,
    answer: nvml.Answer,
    amd_cards: Sequence[Accelerator],
    environ: Mapping[str, str],
    denied: Sequence[str] = (),
) -> Hardware:
    """The machine with its cards, those hidden by the environment marked, and its findings.

    `denied` are the device files of AMD's cards that this user may not open.
    """
    nvidia = [_with_ram(card, host) for card in answer.accelerators]
    whole = replace(
        host,
        accelerators=(
            *_shown(nvidia, _cuda_visible(nvidia, answer, environ), environ),
            *_shown(amd_cards, _hip_visible(amd_cards, environ), environ),
            *(replace(chip, visible=not cpu_wanted(environ)) for chip in apple(host)),
        ),
        driver=answer.driver,
        driver_cuda=answer.driver_cuda,
    )
    found: list[Problem] = [*answer.findings, *findings.of(whole, environ, denied)]
    return replace(whole, findings=tuple(found))


def _nvidia() -> nvml.Answer:
    """The driver's answer; that of nvidia-smi where its library cannot be loaded."""
    driver = nvml.module()
    answer = nvml.Answer(failure=nvml.NO_LIBRARY)
    if driver:
        answer = nvml.ask_in_time(driver, machine.nvidia_signs())
    if answer.failure == nvml.NO_LIBRARY:
        told = nvidia_smi.ask()
        return told if told.accelerators else answer
    return answer


def apple(host: Hardware) -> tuple[Accelerator, ...]:
    """The graphics unit of Apple's chips: each has one, which works in the machine's memory, and
    every PyTorch for macOS uses it."""
    if not (host.system.startswith("Darwin") and "arm64" in host.system):
        return ()
    return (
        Accelerator(
            kind="mps",
            name=host.cpu_name or "Apple chip",
            memory_total_gib=host.ram_total_gib,
            memory_free_gib=host.ram_free_gib,
            unified=True,
            integrated=True,
        ),
    )


def _amd() -> tuple[Accelerator, ...]:
    """What the kernel says; AMD's tools take long and are asked only for what it lacks."""
    cards = amd.cards()
    if any(amd_smi.nameless(card) for card in cards):
        return amd_smi.completed(cards, _names())
    if not cards and machine.is_wsl():  # there the kernel has no files for them
        return amd_smi.ask()
    return cards


_names = functools.cache(amd_smi.ask)
"""The names of cards do not change while a command runs, and the tools take a second."""


def _with_ram(card: Accelerator, host: Hardware) -> Accelerator:
    """A board that shares its memory with the processor has the machine's."""
    if not card.unified or card.memory_total_gib is not None:
        return card
    return replace(card, memory_total_gib=host.ram_total_gib, memory_free_gib=host.ram_free_gib)


def _cuda_visible(
    cards: Sequence[Accelerator], answer: nvml.Answer, environ: Mapping[str, str]
) -> set[str]:
    """UUIDs, or places on the bus where there are none, of the cards that CUDA would show."""
    order = [_key(card) for card in cards]
    if environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and answer.fastest_first:
        order = list(answer.fastest_first)
    return {order[n] for n in visible(order, environ.get("CUDA_VISIBLE_DEVICES"))}


def _hip_visible(cards: Sequence[Accelerator], environ: Mapping[str, str]) -> set[str]:
    """The same of those that HIP would show."""
    usable = [card for card in cards if card.visible]
    return {_key(usable[n]) for n in hip_visible([card.uuid for card in usable], environ)}


def _key(card: Accelerator) -> str:
    return card.uuid or card.pci


def _shown(
    cards: Sequence[Accelerator], shown: set[str], environ: Mapping[str, str]
) -> list[Accelerator]:
    on_cpu = cpu_wanted(environ)
    return [replace(c, visible=not on_cpu and _key(c) in shown) for c in cards]
