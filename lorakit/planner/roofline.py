"""How long a device takes for a step, from what the step is made of and how fast the device is.

A host launches operations one by one and a device works through them. On a card the two go on side
by side, so that the slower one decides; on a CPU they are the same thing and add up. How fast a
device is was measured, or is published; the constants below are what remains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lorakit.families.costs import Work
from lorakit.hardware.cards import published
from lorakit.hardware.facts import Hardware, Speed
from lorakit.planner.estimate import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One optimizer step, with all its accumulation."""

    forward: Work
    backward: Work
    recomputed: Work
    """Of the forward pass, in the backward pass, for gradient checkpointing."""
    update: Work
    """Clipping and the optimizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What works through a step."""

    speed: Speed
    on_cpu: bool
    launch_factor: float
    """How far the launches may be off, up and down."""
    work_factor: float
    """How far computing and moving may be off."""


MEASURED_CPU, MEASURED_CARD, NAMED, GUESSED, ROUGH = (
    (1.25, 1.25), (1.5, 1.4), (2.0, 1.5), (2.5, 2.5), (2.0, 3.0),
)  # fmt: skip
"""Factors for launches and for work where the speed was measured, on a CPU and on a card; where it
is published for the card, or for its architecture; and for a CPU of which only the threads are
known."""

CPU_TFLOPS, CPU_GB_S, CPU_LAUNCH_US = 0.05, 20.0, 15.0
"""Of one thread, where nothing was measured. Bandwidth is shared from four threads on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a step goes on one kind of device, against what `train/speed.py` measures there."""

    forward: float
    """A launch of the forward pass in launches of the small network: Python's modules and an
    adapter's layers cost more than it has."""
    backward: float
    """The same of the backward pass, which is C++."""
    recomputed: float
    """The same of what is computed again: hooks watch over each tensor that is kept."""
    update: float
    """The same of the optimizer, which autograd does not watch."""
    compute: float
    """Share of the rate of a large matrix product that a UNet reaches."""
    move: float
    """Share of the bandwidth of a large copy that its operations reach."""
    update_move: float
    """The same of the optimizer's."""


CPU = Fit(forward=2.8, backward=2.0, recomputed=9.0, update=0.6, compute=1.0, move=0.19,
          update_move=0.4)  # fmt: skip
"""Fitted to steps of small and large UNets on one thread of a Xeon with PyTorch 2.13; see
examples/benchmarks/time.py. Elementwise operations compute more than they move; an optimizer is
one kernel, or works on tensors that stay in the cache."""

CARD = Fit(forward=2.8, backward=2.0, recomputed=4.0, update=0.6, compute=0.65, move=0.85,
           update_move=0.85)  # fmt: skip
"""The host is the same; what recomputing costs, and how a card works through a UNet, is taken from
published ratios: 1.7 to 1.8 for checkpointing at batch 1, and the gain of larger batches."""


def span(step: Step, device: Device, precision: str) -> Span | None:
    """Within what a device takes for a step, in seconds; None for a precision it does not have."""
    taken = parts(step, device, precision)
    if taken is None:
        return None
    host, work = taken
    join = _sum if device.on_cpu else math.hypot
    return Span(
        low=join(host / device.launch_factor, work / device.work_factor),
        high=join(host * device.launch_factor, work * device.work_factor),
    )


def parts(step: Step, device: Device, precision: str) -> tuple[float, float] | None:
    """Seconds that the host launches and that the device works; None: it lacks this precision."""
    speed, fit = device.speed, CPU if device.on_cpu else CARD
    if precision not in speed.tflops:
        return None
    launches = (
        fit.forward * step.forward.launches
        + fit.backward * step.backward.launches
        + fit.recomputed * step.recomputed.launches
        + fit.update * step.update.launches
    )
    work = step.forward + step.backward + step.recomputed + step.update
    computing = work.flops / (speed.tflops[precision] * 1e12 * fit.compute)
    passes, update = work.bytes - step.update.bytes, step.update.bytes
    moving = (passes / fit.move + update / fit.update_move) / (speed.bandwidth_gb_s * 1e9)
    return launches * speed.launch_us / 1e6, computing + moving


def device_of(hardware: Hardware) -> Device | None:
    """The device that training would use, with the best that is known of its speed."""
    card = hardware.accelerator
    if measured := speed_of(hardware):
        return device_of_speed(measured, on_cpu=card is None)
    if card is None:
        threads = hardware.cpu_threads
        rate = CPU_TFLOPS * threads
        rough = Speed(
            tflops={"fp32": rate, "fp16": rate / 4, "bf16": rate / 2},
            bandwidth_gb_s=CPU_GB_S * min(threads, 4),
            launch_us=CPU_LAUNCH_US,
        )
        return _device(rough, True, ROUGH)
    found = published(card)
    if found is None:
        return None
    return _device(found.speed, False, NAMED if found.by_name else GUESSED)


def device_of_speed(measured: Speed, on_cpu: bool) -> Device:
    """A device whose speed was measured."""
    return _device(measured, on_cpu, MEASURED_CPU if on_cpu else MEASURED_CARD)


def speed_of(hardware: Hardware) -> Speed | None:
    """The measured speed of the device that training would use."""
    tried = hardware.tried
    return tried.speed if tried and tried.speed else hardware.speed


def _device(speed: Speed, on_cpu: bool, factors: tuple[float, float]) -> Device:
    launch, work = factors
    return Device(speed=speed, on_cpu=on_cpu, launch_factor=launch, work_factor=work)


def _sum(one: float, other: float) -> float:
    return one + other
