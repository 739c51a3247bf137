"""How much a run writes, as an upper bound."""

from __future__ import annotations

from dataclasses import dataclass

from lorakit.bundle.models import Bundle
from lorakit.dataset import views, wording
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts, Extent

EXTENTS = {
    "sd1": {
        "attention": Extent(layers=128, weights_a_rank=199_296),
        "linear": Extent(layers=192, weights_a_rank=423_936),
    },
    "sd2": {
        "attention": Extent(layers=128, weights_a_rank=207_488),
        "linear": Extent(layers=192, weights_a_rank=432_128),
    },
    "sdxl": {
        "attention": Extent(layers=560, weights_a_rank=1_451_520),
        "linear": Extent(layers=722, weights_a_rank=2_659_840),
    },
}
"""Of each family's real configuration, for a base that is not here to be looked at."""

ADAPTER_HEADER_BYTES = 470
OPTIMIZER_HEADER_BYTES = 450
"""What one layer's tensors take in the header of either file."""

NOTES_BYTES = 5_000
"""What the header says besides; the tags of many captions may be more."""

PICTURE_BYTES = 1_000_000
"""A sample picture as PNG."""

LATENT_BYTES = 2 * 4 * 4
"""Of one cell in the cache: mean and deviation of four channels, fp32."""

MASK_BYTES = 4
"""Of one cell more, where a picture has a mask."""

TEXT_BYTES = {"sd1": 77 * 768 * 4, "sd2": 77 * 1024 * 4, "sdxl": (77 * 2048 + 1280) * 4}
"""What the text encoders say of a caption, fp32."""

RESERVE_BYTES = 50_000_000
"""For events, the log, contact sheets and tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a run that goes on has on the disk already."""

    step: int = 0
    """It goes on after this one."""
    checkpoints: int = 0


def adapter_bytes(bundle: Bundle, base: BaseFacts | None) -> int:
    """Size of an adapter file, whose weights are fp32."""
    held = extent(bundle, base)
    return _weights(bundle, held) + held.layers * ADAPTER_HEADER_BYTES + NOTES_BYTES


def checkpoint_bytes(bundle: Bundle, base: BaseFacts | None) -> int:
    """Size of a checkpoint: an adapter and the optimizer's two numbers for each of its weights."""
    held = extent(bundle, base)
    optimizer = 2 * _weights(bundle, held) + held.layers * OPTIMIZER_HEADER_BYTES
    return adapter_bytes(bundle, base) + optimizer


NOTHING = Written()


def needed_bytes(bundle: Bundle, base: BaseFacts | None, written: Written = NOTHING) -> int:
    """The most that the run directory of this bundle grows by; `base` None: it is not here.

    One checkpoint more than is kept is on disk while the oldest is removed, and two files come out:
    both also where a run goes on that has some `written`, since the new ones are there first.
    """
    steps, every = bundle.train.steps, bundle.save.every
    to_come = max(0, -(-steps // every) - written.step // every) if every else 0
    most = max(written.checkpoints, min(bundle.save.keep, written.checkpoints + to_come)) + 1
    rounds = 2
    if bundle.sample.every:
        rounds += max(0, steps // bundle.sample.every - written.step // bundle.sample.every)
    pictures = rounds * len(bundle.sample.prompts)
    return (
        (most - written.checkpoints) * checkpoint_bytes(bundle, base)
        + 2 * adapter_bytes(bundle, base)
        + pictures * PICTURE_BYTES
        + RESERVE_BYTES
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached:
    """What a cache holds for a bundle, as an upper bound."""

    pictures: int
    pixels: int
    """Of all of them together."""
    masked: int
    """Of these pixels, those of pictures with a mask."""
    texts: int


def cached(bundle: Bundle, report: DatasetReport) -> Cached:
    """All versions of pictures and captions that are cached, and the prompts, which always are."""
    shape, memory = bundle.dataset, bundle.memory
    pictures = pixels = masked = texts = 0
    for p in report.pictures if memory.cache_latents else ():
        versions = shape.variants if views.varies(p, shape) else 1
        pictures += versions
        area = versions * p.fit.width * p.fit.height
        pixels += area
        masked += area if p.mask else 0
    if memory.cache_text:
        varied = [p for p in report.pictures if wording.varies(shape.captions, p.captions)]
        plain = {p.caption for p in report.pictures} if len(varied) < len(report.pictures) else ()
        texts = len(plain) + shape.variants * len(varied)
    prompts = {*bundle.sample.prompts, bundle.sample.negative}
    texts += len(prompts)
    return Cached(pictures=pictures, pixels=pixels, masked=masked, texts=texts)


def cache_bytes(bundle: Bundle, base: BaseFacts | None, report: DatasetReport) -> int:
    """What latents and captions take in the cache, all of them new to it."""
    kept, factor = cached(bundle, report), base.latent_factor if base else 8
    latents = (kept.pixels * LATENT_BYTES + kept.masked * MASK_BYTES) // factor**2
    return latents + kept.texts * TEXT_BYTES[bundle.base.family]


def extent(bundle: Bundle, base: BaseFacts | None) -> Extent:
    """How much the adapter of a bundle is; of its family where the base is not here."""
    usual = EXTENTS[bundle.base.family][bundle.adapter.targets]
    return base.extents.get(bundle.adapter.targets, usual) if base else usual


def _weights(bundle: Bundle, extent: Extent) -> int:
    return 4 * bundle.adapter.rank * extent.weights_a_rank
