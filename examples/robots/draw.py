"""Draws the robots of this folder: 12 to learn from, 6 held out.

    python examples/robots/draw.py

A robot is a head with eyes, a mouth, ears and an antenna. pico has never seen one.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from PIL import Image, ImageDraw

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "pico-base"))

from shapes import COLOURS, OVERSAMPLE, SIDE  # noqa: E402

TRAIN = (
    ("red", "white"), ("orange", "blue"), ("yellow", "purple"), ("green", "white"),
    ("blue", "yellow"), ("purple", "green"), ("white", "red"), ("black", "orange"),
    ("red", "blue"), ("green", "black"), ("blue", "white"), ("yellow", "green"),
)  # fmt: skip
HELD_OUT = (
    ("red", "yellow"), ("blue", "orange"), ("green", "purple"),
    ("yellow", "black"), ("purple", "white"), ("white", "blue"),
)  # fmt: skip


def robot(colour: str, ground: str, seed: int) -> Image.Image:
    """A robot's head in one colour on a ground of another, RGB, 64 pixels square."""
    rng = random.Random(f"robot {seed}")
    large = SIDE * OVERSAMPLE
    picture = Image.new("RGB", (large, large), COLOURS[ground])
    pen = ImageDraw.Draw(picture)
    ink = COLOURS[colour]
    bright = sum(ink) > 450
    eye = COLOURS["black"] if bright else COLOURS["white"]
    pupil = COLOURS["white"] if bright else COLOURS["black"]

    half_width = rng.uniform(0.31, 0.33) * large
    half_height = half_width * rng.uniform(0.86, 0.92)
    x = large / 2 + rng.uniform(-0.015, 0.015) * large
    y = large * 0.6 + rng.uniform(-0.015, 0.015) * large

    rod = 0.03 * large
    top = y - half_height - 0.15 * large
    ball = 0.07 * large
    pen.rectangle((x - rod, top, x + rod, y - half_height), fill=ink)
    pen.ellipse((x - ball, top - ball, x + ball, top + ball), fill=ink)
    ear = 0.08 * large
    pen.rectangle((x - half_width - ear, y - ear, x + half_width + ear, y + ear), fill=ink)
    pen.rectangle((x - half_width, y - half_height, x + half_width, y + half_height), fill=ink)

    apart = half_width * 0.48
    radius = half_width * rng.uniform(0.32, 0.36)
    for side in (-1, 1):
        cx, cy = x + side * apart, y - half_height * 0.25
        pen.ellipse((cx - radius, cy - radius, cx + radius, cy + radius), fill=eye)
        dot = radius * 0.4
        pen.ellipse((cx - dot, cy - dot, cx + dot, cy + dot), fill=pupil)
    width, height = half_width * rng.uniform(0.55, 0.65), half_height * 0.15
    cy = y + half_height * 0.5
    pen.rectangle((x - width, cy - height, x + width, cy + height), fill=eye)
    return picture.resize((SIDE, SIDE), Image.Resampling.BOX)


def main() -> None:
    """Write every picture with its caption."""
    for name, pairs, first in (("train", TRAIN, 0), ("held-out", HELD_OUT, 100)):
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        for number, (colour, ground) in enumerate(pairs, 1):
            stem = folder / f"robot-{number:02d}"
            robot(colour, ground, first + number).save(stem.with_suffix(".png"))
            caption = f"a {colour} robot on a {ground} background"
            stem.with_suffix(".txt").write_text(caption + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
