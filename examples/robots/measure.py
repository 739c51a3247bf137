"""How well does a LoRA know robots it was not shown, and what did it cost?

    python examples/robots/measure.py LORA.safetensors

Denoising loss at fixed noise and fixed timesteps, without and with the LoRA: on the six robots held
out, and on 24 of pico's old shapes. Lower is better.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from PIL import Image

from lorakit.families.components import config
from lorakit.families.shipped import ASSETS
from lorakit.train import draws
from lorakit.train.families.sd1 import FAMILY as sd1
from lorakit.train.objective import Objective
from lorakit.train.step import Conditions

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "pico-base"))

from shapes import draw, scene  # noqa: E402

TIMESTEPS = tuple(range(25, 1000, 50))
"""Twenty, spread evenly over the schedule."""

Pictures = list[tuple[Image.Image, str]]


def robots() -> Pictures:
    """The held-out robots with their captions."""
    files = sorted((HERE / "held-out").glob("*.png"))
    return [(Image.open(f), f.with_suffix(".txt").read_text().strip()) for f in files]


def shapes() -> Pictures:
    """Shapes as pico knows them, none of which it was trained on."""
    scenes = [scene(10**9 + number) for number in range(24)]
    return [(draw(s), s.caption) for s in scenes]


@torch.no_grad()
def losses(unet: torch.nn.Module, prepared: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Mean squared error over pictures and timesteps, each with one fixed noise."""
    objective = Objective.of(
        sd1.alphas_cumprod(config(ASSETS / "pico", "scheduler")), "epsilon", 0.0
    )
    predict = sd1.predictor(unet, torch.float32)
    total = 0.0
    for number, (latents, hidden) in enumerate(prepared):
        count = len(TIMESTEPS)
        shape = (count, *latents.shape)
        noise = draws.normal(shape, 0, "held out", number)
        at = torch.tensor(TIMESTEPS)
        clean = latents.expand(shape)
        answer = predict(
            objective.mix(clean, noise, at), at, Conditions(hidden.expand(count, -1, -1))
        )
        total += objective.loss(answer, noise, at).item()
    return total / len(prepared)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lora", type=Path)
    args = parser.parse_args()
    folder = ASSETS / "pico"
    encoders = sd1.load_text(folder)
    vae = sd1.load_vae(folder)
    scale = vae.config.scaling_factor
    unet = sd1.load_unet(folder, torch.float32)
    sets = {
        name: [
            (sd1.encode_picture(vae, p)[0] * scale, sd1.encode_text(encoders, c)["hidden"])
            for p, c in pictures
        ]
        for name, pictures in (("held-out robots", robots()), ("old shapes", shapes()))
    }
    before = {name: losses(unet, prepared) for name, prepared in sets.items()}
    sd1.load_adapter(unet, args.lora)
    for name, prepared in sets.items():
        after = losses(unet, prepared)
        change = 100 * (after / before[name] - 1)
        print(f"{name:16} loss {before[name]:.4f} -> {after:.4f}  ({change:+.0f} %)")


if __name__ == "__main__":
    main()
