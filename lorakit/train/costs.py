"""Counts what the real training step computes, moves and launches, on the meta device.

`python -m lorakit.train.costs` writes the table that ships with lorakit. It takes some minutes and
is run again where a step changes.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Mapping
from typing import Any

import torch
from diffusers import AutoencoderKL
from torch import Tensor

from lorakit.bundle.models import PICO, Bundle, Train
from lorakit.families.costs import FILE, Law, Update, Work, terms
from lorakit.families.families import FAMILIES
from lorakit.families.shipped import ASSETS
from lorakit.train import memory, optim, sizes
from lorakit.train.families.stable_diffusion import StableDiffusion
from lorakit.train.step import DTYPES, Batch, Model
from lorakit.train.work import count

POINTS = ((1, 16, 8), (1, 24, 8), (1, 32, 8), (2, 16, 8), (1, 16, 64), (1, 24, 64), (2, 16, 64))
"""(batch, side of a square latent, rank) of the counts: as many as there are terms."""

SIDE = 512
"""Of the picture whose encoding is counted, in pixels."""

ADAMW = Update(launches_a_tensor=0.5, bytes_a_weight=40)
"""The fused kernel, which meta does not have. It is a few launches for all tensors, whose lists are
made in Python; it reads weight, gradient and two moments and writes all but the gradient, and the
gradient's norm and clipping read it twice and write it once."""

ADAFACTOR_BYTES = 44
"""For a weight. Its forty operations go over one tensor after another, each small enough to stay
in the cache meanwhile: memory sees weight, gradient, a copy and the change come and go once each,
and clipping as in `ADAMW`. Measured on a CPU from rank 64 to 256: 31 to 41."""


def passes(model: Model, batch: Batch) -> tuple[Work, Work]:
    """Forward and backward pass of a batch, as `step` does them; gradients are left behind."""
    losses: list[Tensor] = []

    def forward() -> None:
        noisy = model.objective.mix(batch.latents, batch.noise, batch.timesteps)
        answer = model.predict(noisy, batch.timesteps, batch.conditions)
        target = model.objective.target(batch.latents, batch.noise, batch.timesteps)
        losses.append(model.objective.loss(answer, target, batch.timesteps))

    with memory.attention_of("flash"):
        there = count(forward)
        back = count(lambda: losses[0].backward())
    for weight in model.weights:
        weight.grad = None
    return there, back


def made(
    family: StableDiffusion,
    config: Mapping[str, Any],
    targets: str,
    rank: int,
    precision: str,
    checkpointing: str = "none",
) -> Model:
    """A model on the meta device, ready for a step."""
    bundle = Bundle.model_validate(
        {
            "schema": 1,
            "name": "counted",
            "dataset": {"sources": [{"path": "."}]},
            "adapter": {"rank": rank, "targets": targets},
            "train": {"precision": precision},
            "memory": {"checkpointing": checkpointing},
        }
    )
    unet = sizes.unet(config, DTYPES[precision], "meta")
    return sizes.model(family, bundle, unet, sizes.attached(family, bundle, unet))


def batch(config: Mapping[str, Any], size: int, side: int, precision: str) -> Batch:
    """`size` pictures with latents of `side` x `side`, on the meta device."""
    return sizes.batch(config, size, (side, side), DTYPES[precision], "meta")


def costs(
    family: StableDiffusion, config: Mapping[str, Any], targets: str, precision: str
) -> dict[str, Any]:
    """The laws of one UNet in one precision, as plain values."""
    models = {
        rank: made(family, config, targets, rank, precision) for rank in {p[2] for p in POINTS}
    }
    counted = [passes(models[r], batch(config, n, side, precision)) for n, side, r in POINTS]
    size, side, rank = POINTS[-1]
    again = passes(
        made(family, config, targets, rank, precision, "full"), batch(config, size, side, precision)
    )
    there, back = counted[-1]
    more = [again[0] + again[1], there * -1, back * -1]
    extra = sum(more, Work())
    return {
        "forward": dataclasses.asdict(_law([pair[0] for pair in counted])),
        "backward": dataclasses.asdict(_law([pair[1] for pair in counted])),
        "recomputed": {
            name: float(f"{getattr(extra, name) / getattr(there, name):.4g}")
            for name in ("flops", "bytes", "launches")
        },
    }


def _law(counted: list[Work]) -> Law:
    """The coefficients that give these counts at `POINTS`."""
    by = torch.tensor([terms(n, side**2, rank) for n, side, rank in POINTS], dtype=torch.float64)
    scale = by.abs().amax(0)

    def solved(values: list[float]) -> tuple[float, ...]:
        found = torch.linalg.solve(by / scale, torch.tensor(values, dtype=torch.float64)) / scale
        none = (found * scale).abs() < 1e-9 * max(values)  # what the solver leaves of a zero
        return tuple(float(f"{c:.7g}") for c in found.masked_fill(none, 0.0))

    return Law(
        flops=solved([w.flops for w in counted]),
        bytes=solved([w.bytes for w in counted]),
        launches=counted[0].launches,
    )


def vae(config: Mapping[str, Any]) -> dict[str, Any]:
    """What encoding and decoding a picture in fp32 takes, for each of its pixels."""
    with torch.device("meta"):
        coder = AutoencoderKL(**config).requires_grad_(False)
        picture = torch.empty(1, 3, SIDE, SIDE)
        latents = coder.encode(picture).latent_dist.mean

    def each(work: Work) -> dict[str, float]:
        pixels = Work(flops=1 / SIDE**2, bytes=1 / SIDE**2, launches=1.0)
        return {k: float(f"{v:.4g}") for k, v in dataclasses.asdict(work.share(pixels)).items()}

    with memory.attention_of("flash"):
        return {
            "encode": each(count(lambda: coder.encode(picture))),
            "decode": each(count(lambda: coder.decode(latents))),
        }


def adafactor() -> Update:
    """Its launches are counted, on weights of the shapes that an adapter has."""
    with torch.device("meta"):
        shapes = ((16, 640), (640, 16))
        weights = [torch.nn.Parameter(torch.empty(s)) for s in shapes for _ in range(4)]
    rule = optim.optimizer(Train(optimizer="adafactor"), weights)

    def once() -> None:
        for weight in weights:
            weight.grad = torch.empty_like(weight)
        optim.update(rule, torch.empty((), device="meta"))

    once()  # the first one makes its state
    return Update(
        launches_a_tensor=round(count(once).launches / len(weights), 1),
        bytes_a_weight=ADAFACTOR_BYTES,
    )


def main() -> None:
    """Count everything and write the table."""
    unets: dict[str, Any] = {}
    pico = sizes.of("sd1", ASSETS / PICO)
    for name in (*FAMILIES, PICO):
        family = importlib.import_module(
            f"lorakit.train.families.{'sd1' if name == PICO else name}"
        ).FAMILY
        config = pico.unet if name == PICO else family.real()
        for targets in family.facts.targets:
            of = unets.setdefault(name, {})[targets] = {}
            for key, precision in (("fp32", "fp32"), ("half", "bf16")):
                of[key] = costs(family, config, targets, precision)
                print(f"{name}, {targets}, {key}: counted", file=sys.stderr, flush=True)
    rules = {"adamw": ADAMW, "adafactor": adafactor()}
    table = {
        "about": "Written by: python -m lorakit.train.costs",
        "torch": torch.__version__,
        "optimizers": {name: dataclasses.asdict(rule) for name, rule in rules.items()},
        "vaes": {PICO: vae(pico.vae), "sd": vae(sizes.of("sd1").vae)},
        "unets": unets,
    }
    FILE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
