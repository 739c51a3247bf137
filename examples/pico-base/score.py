"""Does pico draw what it is told? 64 fixed prompts, "a COLOUR SHAPE on a COLOUR background".

    python examples/pico-base/score.py [--base FOLDER] [--lora FILE] [--sheet SHEET.png] [--json]

Ground and shape colour count as right when the nearest palette colour is the one asked for, the
shape when the drawn shape that overlaps best is the one asked for. With --lora the same is measured
of the base with a LoRA on it: how much of the old it still knows.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from shapes import COLOURS, SHAPES, SIDE, Scene, draw

PICO = Path(__file__).resolve().parents[2] / "lorakit" / "assets" / "pico"
STEPS, GUIDANCE = 30, 4.0
RADII = np.arange(0.14, 0.44, 0.02)


def prompts() -> list[Scene]:
    """The 64 scenes: every shape in every colour, on a ground that is another colour."""
    names = list(COLOURS)
    made = []
    for i, shape in enumerate(SHAPES):
        for j, colour in enumerate(names):
            ground = names[(j + 1 + (3 * i + j) % 7) % 8]
            made.append(Scene(shape, colour, ground, 0.5, 0.5, 0.3))
    return made


def nearest(colour: np.ndarray) -> str:
    """The palette colour nearest to an RGB value."""
    return min(COLOURS, key=lambda name: float(np.square(colour - COLOURS[name]).sum()))


@cache
def template(shape: str, radius: float) -> np.ndarray:
    """Where a shape of this radius is, in the middle of a picture: [side, side], bool."""
    picture = draw(Scene(shape, "white", "black", 0.5, 0.5, radius))
    return np.asarray(picture.convert("L")) > 128


def centre(mask: np.ndarray) -> np.ndarray:
    """Middle of the box around a mask, (y, x)."""
    where = np.argwhere(mask)
    return (where.min(0) + where.max(0)) / 2


def overlap(mask: np.ndarray, shape: str) -> float:
    """Best intersection over union of a mask with a shape at any size and nearby place."""
    best = 0.0
    for radius in RADII:
        stamp = template(shape, float(radius))
        shift = np.round(centre(mask) - centre(stamp)).astype(int)
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                moved = np.roll(stamp, (shift[0] + dy, shift[1] + dx), axis=(0, 1))
                best = max(best, (mask & moved).sum() / (mask | moved).sum())
    return best


def judge(picture: Image.Image) -> tuple[str, str, str]:
    """(shape, its colour, ground) as seen in a picture."""
    pixels = np.asarray(picture.convert("RGB"), dtype=np.float64)
    border = np.ones((SIDE, SIDE), dtype=bool)
    border[3:-3, 3:-3] = False
    around = np.median(pixels[border], 0)
    ground = nearest(around)
    far = np.sqrt(np.square(pixels - around).sum(-1))
    mask = far > 0.5 * max(far.max(), 1.0)
    if mask.sum() < 20:
        return "", "", ground
    inner = np.median(pixels[mask], 0)
    shape = max(SHAPES, key=lambda name: overlap(mask, name))
    return shape, nearest(inner), ground


def paint(base: Path, lora: Path | None, captions: list[str]) -> list[Image.Image]:
    """A picture of each caption, each from its own seed."""
    import torch
    from diffusers import StableDiffusionPipeline

    pipe = StableDiffusionPipeline.from_pretrained(base, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    if lora is not None:
        pipe.load_lora_weights(lora.parent, weight_name=lora.name)
    pictures: list[Image.Image] = []
    for start in range(0, len(captions), 16):
        part = captions[start : start + 16]
        seeds = [torch.Generator().manual_seed(start + i) for i in range(len(part))]
        made = pipe(part, num_inference_steps=STEPS, guidance_scale=GUIDANCE, generator=seeds)
        pictures += made.images
    return pictures


def contact_sheet(pictures: list[Image.Image], out: Path) -> None:
    """All 64, a row a shape, a column a colour, enlarged once."""
    gap, side = 2, SIDE
    page = Image.new("RGB", (8 * (side + gap) + gap, 8 * (side + gap) + gap), (200, 200, 200))
    for number, picture in enumerate(pictures):
        row, column = divmod(number, 8)
        page.paste(picture, (gap + column * (side + gap), gap + row * (side + gap)))
    page.save(out, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, default=PICO)
    parser.add_argument("--lora", type=Path)
    parser.add_argument("--sheet", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    scenes = prompts()
    pictures = paint(args.base, args.lora, [s.caption for s in scenes])
    seen = [judge(p) for p in pictures]
    right = {
        "ground": sum(g == s.ground for (_, _, g), s in zip(seen, scenes, strict=True)),
        "colour": sum(c == s.colour for (_, c, _), s in zip(seen, scenes, strict=True)),
        "shape": sum(f == s.shape for (f, _, _), s in zip(seen, scenes, strict=True)),
    }
    if args.sheet:
        contact_sheet(pictures, args.sheet)
    if args.json:
        print(json.dumps({"prompts": len(scenes), **right}))
        return
    for name, count in right.items():
        print(f"{name:7} right in {count} of {len(scenes)}, {100 * count / len(scenes):.0f} %")
    for what, (shape, colour, ground) in zip(scenes, seen, strict=True):
        if (shape, colour, ground) != (what.shape, what.colour, what.ground):
            print(f"  {what.caption}: seen {colour or '--'} {shape or '--'} on {ground}")


if __name__ == "__main__":
    main()
