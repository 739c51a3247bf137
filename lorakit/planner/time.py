"""How long a step and a whole training take: what a step is made of, on a device so fast.

A host launches operations one by one and a device works through them. On a card the two go on side
by side, so that the slower one decides; on a CPU they are the same thing and add up. What a step
computes, moves and launches is counted (`families/costs.py`), how fast a device is was measured or
is published (`hardware/`), and the constants below are what remains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lorakit.bundle.models import PICO, Bundle
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.families.costs import Costs, Work, costs, picture, update
from lorakit.hardware.cards import published
from lorakit.hardware.facts import Hardware, Speed
from lorakit.planner.disk import checkpoint_bytes, extent
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


MEASURED, NAMED, GUESSED, ROUGH = (1.25, 1.25), (2.0, 1.5), (2.5, 2.5), (2.0, 3.0)
"""Factors for a speed that was measured; published for the card, or for its architecture; and for a
CPU of which only the threads are known."""

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


CPU = Fit(forward=2.8, backward=2.0, recomputed=9.0, update=0.6, compute=1.0, move=0.19)
"""Fitted to steps of small and large UNets on one thread of a Xeon with PyTorch 2.13; see
examples/benchmarks/time.py. Elementwise operations compute more than they move."""

CARD = Fit(forward=2.8, backward=2.0, recomputed=4.0, update=0.6, compute=0.65, move=0.85)
"""The host is the same; what recomputing costs, and how a card works through a UNet, is taken from
published ratios: 1.7 to 1.8 for checkpointing at batch 1, and the gain of larger batches."""


def step_seconds(bundle: Bundle, base: BaseFacts | None, hardware: Hardware) -> Span | None:
    """One optimizer step; None where the base, or the speed of the card, is not known."""
    step, device = step_of(bundle, base), device_of(hardware)
    return span(step, device, bundle.train.precision) if step and device else None


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
    moving = work.bytes / (speed.bandwidth_gb_s * 1e9 * fit.move)
    return launches * speed.launch_us / 1e6, computing + moving


def step_of(bundle: Bundle, base: BaseFacts | None) -> Step | None:
    """What one step of a bundle is made of; None for a base whose UNet nobody has counted."""
    counted = _counted(bundle)
    known = _name(bundle) == PICO or extent(bundle, base) == extent(bundle, None)
    if counted is None or not known:
        return None
    area = _area(bundle, base)
    size, rank = bundle.train.batch_size, bundle.adapter.rank
    forward, backward = counted.forward.at(size, area, rank), counted.backward.at(size, area, rank)
    held = extent(bundle, base)
    passes = bundle.train.accumulation
    return Step(
        forward=forward * passes,
        backward=backward * passes,
        recomputed=forward.share(counted.recomputed) * (passes * recomputed_share(bundle)),
        update=update(bundle.train.optimizer).of(2 * held.layers, held.weights_a_rank * rank),
    )


START = Span(low=4.0, high=20.0)
"""Seconds until PyTorch and the libraries are loaded and a UNet has its adapter."""

DISK_GB_S = (0.3, 3.0)
"""Slow and fast disks, in 10^9 bytes a second."""

TEXTS = {
    "sd1": Work(flops=19e9, bytes=0.6e9, launches=300),
    "sd2": Work(flops=54e9, bytes=1.5e9, launches=550),
    "sdxl": Work(flops=126e9, bytes=3.5e9, launches=1000),
}
"""Reading one caption of 77 tokens in fp32: two operations for each weight of an encoder and token,
123 million weights in SD 1's, 340 in SD 2's, 123 and 695 in SDXL's."""


def total_seconds(
    bundle: Bundle, base: BaseFacts | None, report: DatasetReport | None, hardware: Hardware
) -> Span | None:
    """From the start of the trainer to its end, with caching, samples and checkpoints.

    The low end finds everything in the cache, the high end nothing. What has to be downloaded first
    is not in it. None where a step is not known, or the pictures are not.
    """
    step, device = step_seconds(bundle, base, hardware), device_of(hardware)
    if step is None or device is None or report is None:
        return None
    low, high = (
        START.low + bundle.train.steps * step.low,
        START.high + bundle.train.steps * step.high,
    )
    loaded = (base.weight_bytes if base else None) or 0
    writes = bundle.train.steps // bundle.save.every + 1 if bundle.save.every else 1
    written = loaded + writes * checkpoint_bytes(bundle, base)
    low, high = low + written / DISK_GB_S[1] / 1e9, high + written / DISK_GB_S[0] / 1e9
    if caching := span(_caching(bundle, report), device, "fp32"):
        high += caching.high
    if drawing := span(_drawing(bundle, base), device, bundle.train.precision):
        low, high = low + drawing.low, high + drawing.high
    return Span(low=low, high=high)


def _caching(bundle: Bundle, report: DatasetReport) -> Step:
    """Everything encoded once, one after the other."""
    each = picture(_name(bundle)).encode
    pixels = sum(p.fit.width * p.fit.height for p in report.pictures)
    pictures = each.share(Work(flops=pixels, bytes=pixels, launches=len(report.pictures)))
    texts = {p.caption for p in report.pictures} | {*bundle.sample.prompts, bundle.sample.negative}
    encoder = Work() if _name(bundle) == PICO else TEXTS[bundle.base.family]
    return _forward_only(pictures + encoder * len(texts))


def _drawing(bundle: Bundle, base: BaseFacts | None) -> Step:
    """All samples of a training: before it, on the way and after it."""
    sample, train = bundle.sample, bundle.train
    rounds = 2 + ((train.steps - 1) // sample.every if sample.every else 0)
    pictures = rounds * len(sample.prompts)
    counted, area = _counted(bundle), _area(bundle, base)
    if counted is None:
        return _forward_only(Work())
    denoised = counted.forward.at(2 if sample.guidance > 1 else 1, area, bundle.adapter.rank)
    pixels = bundle.dataset.resolution**2
    decoded = picture(_name(bundle)).decode.share(Work(flops=pixels, bytes=pixels, launches=1))
    return _forward_only((denoised * sample.steps + decoded) * pictures)


def _forward_only(work: Work) -> Step:
    return Step(forward=work, backward=Work(), recomputed=Work(), update=Work())


def _name(bundle: Bundle) -> str:
    return PICO if bundle.base.model == PICO else bundle.base.family


def _counted(bundle: Bundle) -> Costs | None:
    return costs(_name(bundle), bundle.adapter.targets, bundle.train.precision)


def _area(bundle: Bundle, base: BaseFacts | None) -> float:
    """Cells of a picture's latent; every bucket has about as many as the square."""
    factor = base.latent_factor if base else 4 if _name(bundle) == PICO else 8
    return (bundle.dataset.resolution / factor) ** 2


def recomputed_share(bundle: Bundle) -> float:
    """How much of what full checkpointing recomputes is recomputed, 0 to 1."""
    return 1.0 if bundle.memory.checkpointing == "full" else 0.0


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
    return _device(measured, on_cpu, MEASURED)


def speed_of(hardware: Hardware) -> Speed | None:
    """The measured speed of the device that training would use."""
    card = hardware.accelerator
    if hardware.speed or hardware.probe is None:
        return hardware.speed
    for tried in hardware.probe.devices:
        alike = tried.uuid == card.uuid if card and card.uuid else card and tried.name == card.name
        if alike or (card is None and tried.kind == "cpu"):
            return tried.speed
    return None


def _device(speed: Speed, on_cpu: bool, factors: tuple[float, float]) -> Device:
    launch, work = factors
    return Device(speed=speed, on_cpu=on_cpu, launch_factor=launch, work_factor=work)


def _sum(one: float, other: float) -> float:
    return one + other
