"""How long a step and a whole training of a bundle take on a machine.

What a step computes, moves and launches is counted (`families/costs.py`); `roofline.py` makes
seconds of it.
"""

from __future__ import annotations

import itertools

from lorakit.bundle.models import PICO, Bundle
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.families.blocks import units
from lorakit.families.costs import Costs, Work, costs, picture, update
from lorakit.hardware.facts import Hardware
from lorakit.planner.disk import cached, checkpoint_bytes, extent
from lorakit.planner.estimate import Span
from lorakit.planner.roofline import Step, device_of, span


def step_seconds(bundle: Bundle, base: BaseFacts | None, hardware: Hardware) -> Span | None:
    """One optimizer step, with the encoding of what is not cached; None where the base, or the
    speed of the card, is not known."""
    step, device = step_of(bundle, base), device_of(hardware)
    made = span(step, device, bundle.train.precision) if step and device else None
    if made is None or device is None:
        return None
    seen = bundle.train.batch_size * bundle.train.accumulation
    more = Work()
    if not bundle.memory.cache_latents:
        more = more + _pictures(bundle, seen, seen * bundle.dataset.resolution**2)
    if not bundle.memory.cache_text:
        more = more + _text(bundle) * seen
    encoding = span(_forward_only(more), device, "fp32")
    if not more.launches or encoding is None:
        return made
    return Span(low=made.low + encoding.low, high=made.high + encoding.high)


def unknown(
    bundle: Bundle, base: BaseFacts | None, report: DatasetReport | None, hardware: Hardware
) -> str:
    """Why time cannot be told, in words that end a sentence; empty: it can."""
    device = device_of(hardware)
    if step_of(bundle, base) is None:
        return "nobody has counted the work of a base of this shape"
    if device is None:
        return f"nobody has measured how fast {hardware.device} is"
    if bundle.train.precision not in device.speed.tflops:
        return f"nobody has measured {hardware.device} in {bundle.train.precision}"
    return "" if report else "the pictures could not be looked at"


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
        recomputed=forward.share(counted.recomputed) * (passes * recomputed_share(bundle, base)),
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
    kept = cached(bundle, report)
    return _forward_only(_pictures(bundle, kept.pictures, kept.pixels) + _text(bundle) * kept.texts)


def _pictures(bundle: Bundle, count: int, pixels: int) -> Work:
    """Encoding pictures."""
    each = picture(_name(bundle)).encode
    return each.share(Work(flops=pixels, bytes=pixels, launches=count))


def _text(bundle: Bundle) -> Work:
    """Reading a caption."""
    return Work() if _name(bundle) == PICO else TEXTS[bundle.base.family]


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


def recomputed_share(bundle: Bundle, base: BaseFacts | None) -> float:
    """How much of what full checkpointing recomputes is recomputed, 0 to 1."""
    wanted = bundle.memory.checkpointing
    if isinstance(wanted, int):
        shares = recomputed_shares(bundle, base)
        return shares[min(wanted, len(shares) - 1)]
    return 1.0 if wanted == "full" else 0.0


def recomputed_shares(bundle: Bundle, base: BaseFacts | None) -> list[float]:
    """For 0, 1, 2 and so on blocks that recompute, up to all: their share of what all compute."""
    blocks = units(base.unet, bundle.adapter.targets) if base and base.unet else ()
    if not blocks:
        return [0.0, 1.0]
    total = sum(block.flops_share for block in blocks)
    return [0.0, *(x / total for x in itertools.accumulate(b.flops_share for b in blocks))]
