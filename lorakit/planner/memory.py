"""How much memory a training takes, from the table of dry runs that is shipped: no torch, at once.

A moment of a step is a sum of bytes that grow with the batch, the area of a picture and the rank.
The table holds those few moments of a phase that are the worst for some setting; which of them is
the worst for this one, is looked up. `python -m lorakit.train.table` makes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from lorakit.bundle.models import PICO, Bundle
from lorakit.families.base_model import ASSETS, BaseFacts
from lorakit.hardware.facts import Accelerator, Hardware, Tried
from lorakit.planner.disk import EXTENTS
from lorakit.planner.estimate import Part, Phase
from lorakit.planner.overheads import with_overheads

GIB = 1024**3

MAX_SIDE, MAX_BATCH = 2048, 64
"""Largest picture, in pixels, and batch that the table was made for."""

FLASH_ON_ROCM = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1200", "gfx1201")
"""AMD architectures that PyTorch's fused attention is built for; others compute it in plain
operators."""

Kernel = Literal["flash", "efficient", "cpu", "math"]
"""What computes attention: fused kernels of a card or the CPU, or plain operators, which keep a
matrix of all pairs of pixels."""


def phases(bundle: Bundle, base: BaseFacts | None, hardware: Hardware) -> tuple[Phase, ...] | None:
    """Memory in parts at the worst moment of each phase, on the device of this machine.

    None where the table does not know: a base of other sizes, or settings out of its range. Then
    `runs.dryrun` counts the step itself.
    """
    table = _table()
    shape = table["bases"].get(_name(bundle, base))
    side = bundle.dataset.resolution
    if shape is None or side > MAX_SIDE or bundle.train.batch_size > MAX_BATCH:
        return None
    bits = "32" if bundle.train.precision == "fp32" else "16"
    entry = shape["training"].get(f"{bundle.adapter.targets} {bits}")
    kind = "math" if kernel(bundle, hardware) == "math" else "fused"
    step = entry and _step(entry[kind]["training"], bundle.memory.checkpointing)
    update = entry and entry.get(bundle.train.optimizer)
    if not step or not update:
        return None
    factor = base.latent_factor if base else 8
    terms = _Terms(table["terms"], (side // factor) ** 2, bundle.adapter.rank)

    adapter = entry["adapter_bytes_a_rank"] * bundle.adapter.rank
    state = update[0] + update[1] * bundle.adapter.rank
    static = {"base weights": entry["base_bytes"], "adapter": adapter, "optimizer": state}
    training = _training(step, update, bundle, terms, adapter)
    found = [
        _phase("caching", _caching(shape["encoders"], kind, terms)),
        _phase("training", static | training),
    ]
    if bundle.sample.prompts:
        guided = 2 if bundle.sample.guidance > 1 else 1
        denoising = terms.worst(entry[kind]["denoising"], guided)
        # The VAE draws in the precision of the UNet, but never in fp16.
        drawn = "16" if bundle.train.precision == "bf16" else "32"
        decoding = terms.worst(shape["encoders"][f"decode {kind} {drawn}"], 1)
        parts = {
            "VAE": shape["encoders"][f"vae_bytes {drawn}"],
            "activations": max(denoising, decoding),
        }
        found.append(_phase("sampling", static | parts))
    return with_overheads(tuple(found), bundle, hardware)


def _name(bundle: Bundle, base: BaseFacts | None) -> str:
    """The table's entry for a base, or one that it does not have."""
    if bundle.base.model == PICO:
        return PICO
    family = base.family if base else bundle.base.family
    known = EXTENTS.get(family)
    if base and base.extents and dict(base.extents) != known:
        return ""
    return family


class _Terms:
    """Evaluates rows of the table for one area and rank."""

    def __init__(self, powers: Sequence[Sequence[int]], area: int, rank: int) -> None:
        self._powers, self._area, self._rank = powers, area, rank

    def at(self, pictures: int) -> list[float]:
        """The value of each term for a batch of pictures."""
        return [pictures**i * self._area**j * self._rank**k for i, j, k in self._powers]

    def bytes_of(self, row: Sequence[float], pictures: int) -> float:
        """One row."""
        return sum(a * b for a, b in zip(row, self.at(pictures), strict=True))

    def worst(self, rows: Sequence[Sequence[float]], pictures: int) -> float:
        """The most that any of the rows gives."""
        at = self.at(pictures)
        return max(sum(a * b for a, b in zip(row, at, strict=True)) for row in rows)


def _training(
    step: Mapping[str, Any],
    update: Sequence[float],
    bundle: Bundle,
    terms: _Terms,
    adapter: float,
) -> dict[str, float]:
    """Gradients, activations and workspace at the worst moment of a step."""
    pictures, rank = bundle.train.batch_size, bundle.adapter.rank
    gathered = bundle.train.accumulation > 1  # then all gradients are there from the beginning
    at = terms.at(pictures)
    moments = [
        (
            adapter if gathered else moment[0] * rank,
            sum(a * b for a, b in zip(moment[1:], at, strict=True)),
        )
        for moment in step["moments"]
    ]
    moments.append((adapter, update[2] * rank))
    gradients, rest = max(moments, key=sum)
    activations = min(terms.bytes_of(step["kept"], pictures), rest)
    return {
        "gradients": gradients,
        "activations": activations,
        "workspace": rest - activations,
    }


def _caching(encoders: Mapping[str, Any], kind: str, terms: _Terms) -> dict[str, float]:
    """The text encoders with a caption, or the VAE with a picture: the larger of the two."""
    texts: dict[str, float] = encoders["text"]
    activations = terms.worst(encoders[f"encode {kind} 32"], 1)
    pictures = {"VAE": encoders["vae_bytes 32"], "activations": activations}
    return max(pictures, texts, key=lambda parts: sum(parts.values()))


def _step(known: Sequence[Mapping[str, Any]], checkpointing: str | int) -> Any:
    """The entry for a value of `memory.checkpointing`; None: there is none."""
    return next((entry for entry in known if entry["checkpointing"] == checkpointing), None)


def _phase(name: Literal["caching", "training", "sampling"], parts: Mapping[str, float]) -> Phase:
    return Phase(
        name=name, parts=tuple(Part(name=part, gib=size / GIB) for part, size in parts.items())
    )


def kernel(bundle: Bundle, hardware: Hardware) -> Kernel:
    """What will compute attention: what the probe saw, else what PyTorch is known to choose."""
    card = hardware.accelerator
    if card is None:
        return "cpu"
    if bundle.memory.attention == "xformers":
        return "efficient"
    tried = _tried(hardware, card)
    fused = tried.attention if tried and tried.attention else _usual(card)
    if fused == "math":
        return "math"
    # No flash kernel computes in fp32.
    return "efficient" if fused == "efficient" or bundle.train.precision == "fp32" else "flash"


def _usual(card: Accelerator) -> Kernel:
    if card.kind == "cuda":
        return "flash" if card.capability is None or card.capability >= (8, 0) else "efficient"
    if card.kind == "rocm":
        return "flash" if card.architecture.split(":")[0] in FLASH_ON_ROCM else "math"
    return "math"


def _tried(hardware: Hardware, card: Accelerator) -> Tried | None:
    """What the probe said of a card."""
    devices = hardware.probe.devices if hardware.probe else ()
    same = [d for d in devices if d.kind == card.kind]
    named = [d for d in same if (d.uuid, d.pci) != ("", "") and d.uuid == card.uuid]
    return next(iter(named or (same if len(same) == 1 else [])), None)


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ASSETS / "memory.json").read_text(encoding="utf-8"))
    return found
