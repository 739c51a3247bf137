"""How long a step and a training take, from what a step computes and how fast a device is."""

from __future__ import annotations

from lorakit.bundle.models import PICO, Bundle
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.families.families import FAMILIES
from lorakit.hardware.facts import Hardware, Speed
from lorakit.planner.estimate import Span

TFLOP = {"sd1": 1.6, "sd2": 1.6, "sdxl": 12.0}
"""Forward and backward pass of one picture of the family's resolution."""

LAUNCHES = {"sd1": 12_000, "sd2": 12_000, "sdxl": 30_000}

CHECKPOINTED = 1.75


def step_seconds(bundle: Bundle, base: BaseFacts | None, hardware: Hardware) -> Span | None:
    """One optimizer step with all its accumulation. None: nobody measured this device."""
    speed = _speed(hardware)
    if speed is None or bundle.train.precision not in speed.tflops:
        return None
    family = FAMILIES[bundle.base.family]
    share = (bundle.dataset.resolution / family.resolution) ** 2
    small = 0.002 if bundle.base.model == PICO else 1.0
    work = small * TFLOP[family.name] * share * bundle.train.batch_size
    again = 1.0 if bundle.memory.checkpointing == "none" else CHECKPOINTED
    computed = work / (0.5 * speed.tflops[bundle.train.precision])
    launched = LAUNCHES[family.name] * speed.launch_us * 1e-6
    seconds = again * max(computed, launched) * bundle.train.accumulation
    return Span(low=0.8 * seconds, high=1.25 * seconds)


def total_seconds(
    bundle: Bundle, base: BaseFacts | None, report: DatasetReport | None, hardware: Hardware
) -> Span | None:
    """From start to end, with caching and samples."""
    step = step_seconds(bundle, base, hardware)
    if step is None:
        return None
    steps = bundle.train.steps
    return Span(low=step.low * steps, high=step.high * steps)


def _speed(hardware: Hardware) -> Speed | None:
    card = hardware.accelerator
    for tried in hardware.probe.devices if hardware.probe else ():
        same = tried.uuid == card.uuid if card and card.uuid else not card and tried.kind == "cpu"
        if same:
            return tried.speed
    return None
