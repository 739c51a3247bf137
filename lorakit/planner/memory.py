"""What a training holds in memory at its worst moment, from a shipped table."""

from __future__ import annotations

from lorakit.bundle.models import PICO, Bundle
from lorakit.families.base_model import BaseFacts
from lorakit.families.families import FAMILIES
from lorakit.hardware.facts import Hardware
from lorakit.planner.disk import EXTENTS
from lorakit.planner.estimate import Part, Phase

GIB = 1024**3

ROUGH_GIB = {"sd1": (1.6, 0.8, 0.2), "sd2": (1.6, 0.8, 0.2), "sdxl": (4.9, 5.3, 0.5)}
"""Each family in 16 bits: its weights, and what one picture of its own resolution adds, without and
with checkpointing."""

SURCHARGE_GIB = {"sd1": 1.5, "sd2": 1.5, "sdxl": 7.0}


def phases(bundle: Bundle, base: BaseFacts | None, hardware: Hardware) -> tuple[Phase, ...] | None:
    """Each phase's parts. None: the table does not hold this, and a dry run has to say it."""
    family = FAMILIES[bundle.base.family]
    weights, without, full = ROUGH_GIB[family.name]
    native, small = family.resolution, bundle.base.model == PICO
    if base is not None:
        native = base.resolution
        small |= base.weight_bytes is not None and base.weight_bytes < 200_000_000
    if small:
        weights, without, full = 0.01, 0.01, 0.005
    wide = 2 if bundle.train.precision == "fp32" else 1
    pictures = (bundle.dataset.resolution / native) ** 2 * bundle.train.batch_size
    wanted = bundle.memory.checkpointing
    blocks = {"sd1": 38, "sd2": 38, "sdxl": 87}[family.name]
    kept = (
        1.0 if wanted == "none" else 0.0 if wanted == "full" else max(0, 1 - wanted / blocks) ** 2
    )
    picture = full + kept * (without - full)
    extent = EXTENTS[family.name][bundle.adapter.targets]
    if base is not None:
        extent = base.extents.get(bundle.adapter.targets, extent)
    adapter = 4 * bundle.adapter.rank * extent.weights_a_rank / GIB
    if small and not (base and base.extents):
        adapter /= 40
    states = 2.0 if bundle.train.optimizer == "adamw" else 0.05
    card = hardware.accelerator
    parts = [
        Part(name="base weights", gib=wide * weights),
        Part(name="adapter", gib=adapter),
        Part(name="gradients", gib=adapter),
        Part(name="optimizer", gib=states * adapter),
        Part(name="activations", gib=wide * picture * pictures),
        Part(name="context", gib=0.6 if card else 0.4),
    ]
    if card and card.kind == "rocm" and not small:
        parts.append(Part(name="ROCm surcharge", gib=SURCHARGE_GIB[family.name]))
    return (Phase(name="training", parts=tuple(parts)),)
