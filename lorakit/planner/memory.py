"""How much memory a training takes, from the table of dry runs that is shipped: no torch, at once.

A moment of a step is a sum of bytes that grow with the batch, the area of a picture and the rank.
The table holds those few moments of a phase that are the worst for some setting; which of them is
the worst for this one is looked up. `python -m lorakit.train.table` makes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, Literal

from lorakit.bundle.models import PICO, Bundle
from lorakit.families import residents
from lorakit.families.base_model import BaseFacts
from lorakit.families.blocks import units
from lorakit.families.shipped import ASSETS, published
from lorakit.hardware.facts import Accelerator, Hardware
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

PhaseName = Literal["caching", "training", "sampling"]

Row = Sequence[float]
"""Bytes for one of each of the table's terms."""


def phases(bundle: Bundle, base: BaseFacts | None, hardware: Hardware) -> tuple[Phase, ...] | None:
    """Memory in parts at the worst moment of each phase, on the device of this machine.

    None where the table does not know: a base of other sizes, or settings out of its range. Then
    `runs.dryrun` counts the step itself.
    """
    shape = _table()["bases"].get(_name(bundle, base))
    if shape is None or bundle.dataset.resolution > MAX_SIDE or bundle.train.batch_size > MAX_BATCH:
        return None
    entry = shape["training"].get(f"{bundle.adapter.targets} {_bits(bundle)}")
    update = entry and entry.get(bundle.train.optimizer)
    wanted = bundle.memory.checkpointing
    if not update or (isinstance(wanted, int) and wanted > entry["blocks"]):
        return None
    used = kernel(bundle, hardware)
    kind = used if used in entry else "fused"
    rank = bundle.adapter.rank
    area = (bundle.dataset.resolution // (base.latent_factor if base else shape["factor"])) ** 2
    terms = _Terms(_table()["terms"], area, rank)

    adapter = entry["adapter_bytes_a_rank"] * rank
    state, work = update[0] + update[1] * rank, update[2] * rank
    kept = {"base weights": entry["base_bytes"], "adapter": adapter, "optimizer": state}
    step = _step(entry[kind]["training"], _recomputed(entry, bundle), bundle, terms, adapter)
    if sum(step.values()) < adapter + work:
        step = {"gradients": adapter, "activations": 0.0, "workspace": work}
    encoders = shape["encoders"]
    pictures, captions, memory = _picture(encoders, kind, terms), encoders["text"], bundle.memory
    found: dict[PhaseName, Mapping[str, float]] = {
        "caching": residents.caching(memory, pictures, captions),
        "training": residents.training(memory, kept | step, kept, pictures, captions),
    }
    if bundle.sample.prompts:
        drawn = _sampling(encoders, entry[kind]["denoising"], kind, terms, bundle)
        staying = residents.resident(memory, pictures, captions)
        # The VAE that draws is another one than that which stays.
        found["sampling"] = kept | staying | drawn | {"VAE": drawn["VAE"] + staying.get("VAE", 0)}
    made = tuple(
        Phase(name=name, parts=tuple(Part(name=p, gib=size / GIB) for p, size in parts.items()))
        for name, parts in found.items()
    )
    return with_overheads(made, bundle, hardware)


def _bits(bundle: Bundle) -> str:
    return "32" if bundle.train.precision == "fp32" else "16"


def _name(bundle: Bundle, base: BaseFacts | None) -> str:
    """The table's entry for a base, or one that it does not have."""
    if bundle.base.model == PICO:
        return PICO
    family = base.family if base else bundle.base.family
    if base is None:
        return family
    known = {k: v for k, v in published(family).items() if k != "sample_size"}
    alike = base.unet and all(_same(base.unet.get(k, v), v) for k, v in known.items())
    return family if alike else ""


def _same(own: Any, known: Any) -> bool:
    """Whether two values of a configuration say the same."""
    if isinstance(known, list) and isinstance(own, int):
        return known == [own] * len(known)
    return bool(own == known)


class _Terms:
    """Evaluates rows of the table for one area and rank."""

    def __init__(self, powers: Sequence[Sequence[int]], area: int, rank: int) -> None:
        self._powers, self._area, self.rank = powers, area, rank

    def at(self, pictures: int) -> list[float]:
        """The value of each term for a batch of pictures."""
        return [pictures**i * self._area**j * self.rank**k for i, j, k in self._powers]


def _sum(row: Row, at: Row) -> float:
    return sum(a * b for a, b in zip(row, at, strict=True))


def _worst(rows: Sequence[Row], at: Row) -> float:
    return max(_sum(row, at) for row in rows)


def _recomputed(entry: Mapping[str, Any], bundle: Bundle) -> int:
    """How many blocks recompute."""
    wanted = bundle.memory.checkpointing
    if isinstance(wanted, int):
        return wanted
    return int(entry["blocks"]) if wanted == "full" else 0


def _step(
    known: Sequence[Mapping[str, Any]],
    recomputed: int,
    bundle: Bundle,
    terms: _Terms,
    adapter: float,
) -> dict[str, float]:
    """Gradients, activations and workspace at the worst moment of a step before its update.

    The table has a few numbers of blocks that recompute. Between two of them memory falls with
    what the blocks in between free.
    """
    after = next(i for i, step in enumerate(known) if step["recomputed"] >= recomputed)
    found = _moment(known[after], bundle, terms, adapter)
    if known[after]["recomputed"] == recomputed:
        return found
    name = PICO if bundle.base.model == PICO else bundle.base.family
    freed = _freed(name, bundle.adapter.targets)
    start, end = (freed[known[i]["recomputed"]] for i in (after - 1, after))
    share = (freed[recomputed] - start) / (end - start)
    more = _moment(known[after - 1], bundle, terms, adapter)
    return {part: more[part] * (1 - share) + found[part] * share for part in found}


@cache
def _freed(name: str, targets: str) -> list[float]:
    """What the first 0, 1, 2... blocks free, as a share of what all of them do."""
    if name == PICO:
        config = json.loads((ASSETS / "pico" / "unet" / "config.json").read_text(encoding="utf-8"))
    else:
        config = published(name)
    return list(accumulate((u.bytes_share for u in units(config, targets)), initial=0.0))


def _moment(
    step: Mapping[str, Any], bundle: Bundle, terms: _Terms, adapter: float
) -> dict[str, float]:
    """The parts at the worst moment, for a number of blocks that the table has."""
    at = terms.at(bundle.train.batch_size)
    moments = [(row[0] * terms.rank, _sum(row[1:], at)) for row in step["moments"]]
    if bundle.train.accumulation > 1:  # then all gradients are there from the beginning
        moments = [(adapter, rest) for _, rest in moments]
    gradients, rest = max(moments, key=sum)
    activations = min(_sum(step["kept"], at), rest)
    return {"gradients": gradients, "activations": activations, "workspace": rest - activations}


def _picture(encoders: Mapping[str, Any], kind: str, terms: _Terms) -> dict[str, float]:
    """The VAE with a picture."""
    activations = _worst(encoders[f"encode {kind} 32"], terms.at(1))
    return {"VAE": encoders["vae_bytes 32"], "activations": activations}


def _sampling(
    encoders: Mapping[str, Any], denoising: Sequence[Row], kind: str, terms: _Terms, bundle: Bundle
) -> dict[str, float]:
    """What is there beside the UNet while it denoises, and while a picture is decoded."""
    bits = "16" if bundle.train.precision == "bf16" else "32"  # the VAE never runs in fp16
    guided = 2 if bundle.sample.guidance > 1 else 1
    decoding = _worst(encoders[f"decode {kind} {bits}"], terms.at(1))
    activations = max(_worst(denoising, terms.at(guided)), decoding)
    return {"VAE": encoders[f"vae_bytes {bits}"], "activations": activations}


def kernel(bundle: Bundle, hardware: Hardware) -> Kernel:
    """What will compute attention: what was tried, else what PyTorch is known to choose."""
    card = hardware.accelerator
    if card is None:
        return "cpu"
    if bundle.memory.attention == "xformers":
        return "efficient"
    fused = (hardware.tried.attention if hardware.tried else "") or _usual(card)
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


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ASSETS / "memory.json").read_text(encoding="utf-8"))
    return found
