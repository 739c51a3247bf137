"""Contact sheets of samples: rows are prompts, columns are steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from lorakit import durable

GAP = 4
HEAD = 14
SIDE = 256
"""Pictures are shown no larger, and small ones are enlarged in whole steps towards it."""


def shown(picture: Image.Image) -> Image.Image:
    """A picture at the size it has on a sheet."""
    longest = max(picture.size)
    if longest > SIDE:
        smaller = picture.copy()
        smaller.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        return smaller
    times = max(SIDE // 2 // longest, 1)
    return picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)


def sheet(columns: Mapping[int, Sequence[Path]], prompts: Sequence[str], out: Path) -> None:
    """Draw the samples of several steps side by side and write a PNG."""
    pictures = {step: [shown(Image.open(p)) for p in paths] for step, paths in columns.items()}
    width = max(p.width for row in pictures.values() for p in row)
    height = max(p.height for row in pictures.values() for p in row)
    rows = len(prompts)
    page = Image.new(
        "RGB",
        (GAP + len(pictures) * (width + GAP), HEAD + rows * (height + HEAD + GAP)),
        "white",
    )
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(10)
    for column, (step, row) in enumerate(sorted(pictures.items())):
        x = GAP + column * (width + GAP)
        pen.text((x, 1), f"step {step}" if step else "before", "black", font)
        for number, picture in enumerate(row):
            page.paste(picture, (x, HEAD + number * (height + HEAD + GAP)))
    for number, prompt in enumerate(prompts):
        line = " ".join(prompt.split())
        pen.text((GAP, HEAD + number * (height + HEAD + GAP) + height), line, "black", font)
    with durable.replacing(out) as file:
        page.save(file, format="PNG")
