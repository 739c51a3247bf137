"""lorakit's training step over a bare one, as a ratio.

    python examples/benchmarks/step.py [--seconds 100] [--steps 4] [--threads N]

Bare is what cannot be left out: forward, backward and AdamW over the same LoRA, with tensors that
lie ready. lorakit's is an iteration of its loop: reading the cache, drawing noise and timesteps,
the learning rate, clipping, the check for numbers that are not finite, bookkeeping, a look at the
requests. Both adapt q, k, v and out of all attention with rank 8, batch 8, fp32, 64 x 64 pixels.

A pair is a few steps of the one and as many of the other, with either first in turn, so that both
see the same machine: what warms up or is shared drifts over many pairs and hardly within one. The
figure is the median of the pairs' ratios; the ratio of all their time together stands beside it,
for a median does not see what is done only once a second.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from data_loading import report_of
from diffusers import UNet2DConditionModel

from lorakit.bundle.models import Bundle
from lorakit.families.families import FAMILIES
from lorakit.runs.events import Log
from lorakit.train import device, optim
from lorakit.train.adapters import lora
from lorakit.train.adapters.metadata import Notes
from lorakit.train.batches import Batches
from lorakit.train.cache import Cache, picture_name, text_name
from lorakit.train.control import Control
from lorakit.train.epochs import Epochs
from lorakit.train.families.sd1 import FAMILY as sd1
from lorakit.train.loop import Report, Training
from lorakit.train.material import CachedLatents, CachedTexts, Material
from lorakit.train.objective import Objective
from lorakit.train.sample import Samples
from lorakit.train.step import Model

WIDTH, SIDE, BATCH = 64, 16, 8
SMALL = (32, 64)
LARGE = (160, 320)


def unet(channels: tuple[int, int]) -> UNet2DConditionModel:
    """A random UNet of pico's shape, wider or not."""
    torch.manual_seed(0)
    return UNet2DConditionModel(
        sample_size=SIDE,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        block_out_channels=channels,
        layers_per_block=1,
        cross_attention_dim=WIDTH,
        attention_head_dim=4,
        norm_num_groups=8,
    )


def bundle() -> Bundle:
    """The request that both run."""
    return Bundle.model_validate(
        {
            "schema": 1,
            "name": "step",
            "dataset": {"sources": [{"path": "."}], "resolution": 64},
            "adapter": {"rank": 8, "alpha": 8.0, "targets": "attention"},
            "train": {"steps": 1_000_000, "batch_size": BATCH, "precision": "fp32"},
            "save": {"every": 0},
        }
    )


def bare(channels: tuple[int, int]) -> Callable[[], None]:
    """Forward, backward and update on tensors that lie ready, with plain PEFT."""
    from peft import LoraConfig

    model = unet(channels)
    model.requires_grad_(False)
    targets = ["to_q", "to_k", "to_v", "to_out.0"]
    model.add_adapter(LoraConfig(r=8, lora_alpha=8, target_modules=targets))
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-4)
    noisy, noise = torch.randn(2, BATCH, 4, SIDE, SIDE)
    timesteps, text = torch.randint(1000, (BATCH,)), torch.randn(BATCH, 77, WIDTH)

    def once() -> None:
        answer = model(noisy, timesteps, text, return_dict=False)[0]
        torch.nn.functional.mse_loss(answer, noise).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return once


def ours(channels: tuple[int, int], folder: Path) -> Callable[[], None]:
    """An iteration of lorakit's loop over a cache of 64 pictures."""
    wanted, model = bundle(), unet(channels)
    weights = lora.attach(model, FAMILIES["sd1"], wanted.adapter, 1)
    epochs = Epochs(wanted, report_of(64))
    pictures, texts = (Cache(folder, kind, "random", "none") for kind in ("latents", "text"))
    with pictures, texts:
        for picture, view in epochs.views():
            latents = {k: torch.randn(4, SIDE, SIDE) for k in ("mean", "std")}
            pictures.put(picture_name(picture.sha256, view), latents)
        for text in epochs.texts():
            texts.put(text_name(text), {"hidden": torch.randn(77, WIDTH)})
    material = Material(epochs, CachedLatents(pictures, epochs), CachedTexts(texts, epochs))
    cpu = torch.device("cpu")
    log = Log(folder / "events.jsonl")
    training = Training(
        wanted,
        folder,
        log,
        Control(folder, log),
        Model(
            sd1.predictor(model, torch.float32),
            weights,
            Objective.of(torch.linspace(0.999, 0.005, 1000), "epsilon", 0.0),
            optim.optimizer(wanted.train, weights),
            torch.amp.GradScaler("cpu", enabled=False),
            wanted.train.clip_norm,
        ),
        Batches(material, wanted, sd1.sizes, 1.0, 1000, cpu, torch.float32),
        sd1,
        model,
        Notes({}, 1, 1),
    )
    report = Report(log)
    samples_drawn = Samples(folder, wanted.sample, None, log)

    def once() -> None:
        training.turn(report, samples_drawn)

    return once


def seconds(work: Callable[[], None], steps: int) -> float:
    """Seconds of so many calls."""
    start = time.perf_counter()
    for _ in range(steps):
        work()
    return time.perf_counter() - start


def pairs(
    one: Callable[[], None], other: Callable[[], None], steps: int, limit_seconds: float
) -> list[tuple[float, float]]:
    """Seconds of `steps` calls of each, over and over until the time is up; two pairs at least."""
    made: list[tuple[float, float]] = []
    until = time.perf_counter() + limit_seconds
    while len(made) < 2 or time.perf_counter() < until:
        if len(made) % 2:
            last = seconds(other, steps)
            made.append((seconds(one, steps), last))
        else:
            made.append((seconds(one, steps), seconds(other, steps)))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=100.0, help="for each of the two UNets")
    parser.add_argument("--steps", type=int, default=4, help="of each in a pair")
    parser.add_argument("--threads", type=int, default=device.threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for channels in (SMALL, LARGE):
        with tempfile.TemporaryDirectory() as folder:
            one, other = bare(channels), ours(channels, Path(folder))
            size = sum(p.numel() for p in unet(channels).parameters()) / 1e6
            seconds(one, 3), seconds(other, 3)
            found = pairs(one, other, args.steps, args.seconds)
        low, middle, high = statistics.quantiles((b / a for a, b in found), n=4)
        whole = sum(b for _, b in found) / sum(a for a, _ in found)
        plain = statistics.median(a for a, _ in found) / args.steps * 1e3
        print(
            f"UNet of {size:4.1f} M: lorakit / bare {middle:.3f}  (quartiles {low:.3f}-{high:.3f},"
            f" in all {whole:.3f}, {len(found)} pairs of {args.steps} steps, bare {plain:.1f} ms,"
            f" {args.threads} threads)",
            flush=True,
        )


if __name__ == "__main__":
    main()
