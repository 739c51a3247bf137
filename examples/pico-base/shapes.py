"""The world pico knows: one plain shape in one colour on a ground of another.

Everything here is a pure function of the numbers passed in, so a picture can be named by its seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image, ImageDraw

SIDE = 64
"""Side of a picture in pixels."""

OVERSAMPLE = 4
"""Pictures are drawn this many times larger and reduced, which gives soft edges."""

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 40, 40),
    "orange": (247, 140, 30),
    "yellow": (250, 220, 50),
    "green": (50, 160, 70),
    "blue": (40, 90, 200),
    "purple": (130, 60, 170),
    "white": (245, 245, 245),
    "black": (25, 25, 25),
}

Point = tuple[float, float]
Pen = Callable[[ImageDraw.ImageDraw, float, float, float, tuple[int, int, int]], None]


def _ring_of_points(x: float, y: float, radii: list[float], turn: float) -> list[Point]:
    step = 2 * math.pi / len(radii)
    return [
        (x + r * math.sin(turn + i * step), y - r * math.cos(turn + i * step))
        for i, r in enumerate(radii)
    ]


def _circle(
    pen: ImageDraw.ImageDraw, x: float, y: float, r: float, ink: tuple[int, int, int]
) -> None:
    pen.ellipse((x - r, y - r, x + r, y + r), fill=ink)


def _square(
    pen: ImageDraw.ImageDraw, x: float, y: float, r: float, ink: tuple[int, int, int]
) -> None:
    a = r * 0.86
    pen.rectangle((x - a, y - a, x + a, y + a), fill=ink)


def _triangle(
    pen: ImageDraw.ImageDraw, x: float, y: float, r: float, ink: tuple[int, int, int]
) -> None:
    pen.polygon([(x, y - r), (x + r, y + 0.8 * r), (x - r, y + 0.8 * r)], fill=ink)


def _star(
    pen: ImageDraw.ImageDraw, x: float, y: float, r: float, ink: tuple[int, int, int]
) -> None:
    pen.polygon(_ring_of_points(x, y, [r, 0.42 * r] * 5, 0.0), fill=ink)


def _ring(
    pen: ImageDraw.ImageDraw, x: float, y: float, r: float, ink: tuple[int, int, int]
) -> None:
    pen.ellipse((x - r, y - r, x + r, y + r), outline=ink, width=max(1, round(0.36 * r)))


def _cross(
    pen: ImageDraw.ImageDraw, x: float, y: float, r: float, ink: tuple[int, int, int]
) -> None:
    arm = 0.34 * r
    pen.rectangle((x - arm, y - r, x + arm, y + r), fill=ink)
    pen.rectangle((x - r, y - arm, x + r, y + arm), fill=ink)


def _heart(
    pen: ImageDraw.ImageDraw, x: float, y: float, r: float, ink: tuple[int, int, int]
) -> None:
    points = []
    for i in range(60):
        t = 2 * math.pi * i / 60
        px = 16 * math.sin(t) ** 3
        py = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        points.append((x + r * px / 16, y - r * (py + 2.5) / 14.5))
    pen.polygon(points, fill=ink)


def _diamond(
    pen: ImageDraw.ImageDraw, x: float, y: float, r: float, ink: tuple[int, int, int]
) -> None:
    pen.polygon([(x, y - r), (x + 0.66 * r, y), (x, y + r), (x - 0.66 * r, y)], fill=ink)


SHAPES: dict[str, Pen] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "ring": _ring,
    "cross": _cross,
    "heart": _heart,
    "diamond": _diamond,
}


@dataclass(frozen=True, slots=True)
class Scene:
    """One picture in words and numbers. `x`, `y`, `radius` are fractions of the side."""

    shape: str
    colour: str
    ground: str
    x: float
    y: float
    radius: float

    @property
    def caption(self) -> str:
        """The caption in the form of the 64 prompts that score pico."""
        return f"a {self.colour} {self.shape} on a {self.ground} background"


def scene(seed: int) -> Scene:
    """The scene with this number: every choice comes from the seed alone."""
    rng = random.Random(f"scene {seed}")
    shape = rng.choice(list(SHAPES))
    colour, ground = rng.sample(list(COLOURS), 2)
    radius = rng.uniform(0.2, 0.38)
    room = 0.5 - radius - 0.02
    return Scene(
        shape,
        colour,
        ground,
        0.5 + rng.uniform(-room, room),
        0.5 + rng.uniform(-room, room),
        radius,
    )


def draw(what: Scene) -> Image.Image:
    """The picture of a scene, RGB, `SIDE` pixels square."""
    large = SIDE * OVERSAMPLE
    picture = Image.new("RGB", (large, large), COLOURS[what.ground])
    SHAPES[what.shape](
        ImageDraw.Draw(picture),
        what.x * large,
        what.y * large,
        what.radius * large,
        COLOURS[what.colour],
    )
    return picture.resize((SIDE, SIDE), Image.Resampling.BOX)


def clutter(seed: int) -> Image.Image:
    """A picture of no meaning: overlapping blocks, discs, lines and slopes of any colour.

    Only the VAE sees these, so that it can hold detail that is in none of the captioned shapes
    (an eye, an edge in a photograph).
    """
    rng = random.Random(f"clutter {seed}")
    large = SIDE * OVERSAMPLE

    def ink() -> tuple[int, int, int]:
        if rng.random() < 0.4:
            return rng.choice(list(COLOURS.values()))
        return rng.randrange(256), rng.randrange(256), rng.randrange(256)

    if rng.random() < 0.4:
        corners = Image.new("RGB", (2, 2))
        corners.putdata([ink() for _ in range(4)])
        picture = corners.resize((large, large), Image.Resampling.BICUBIC)
    else:
        picture = Image.new("RGB", (large, large), ink())
    pen = ImageDraw.Draw(picture)
    for _ in range(rng.randint(2, 14)):
        x, y = rng.uniform(0, large), rng.uniform(0, large)
        w, h = rng.uniform(0.03, 0.5) * large, rng.uniform(0.03, 0.5) * large
        box = (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        match rng.randrange(4):
            case 0:
                pen.rectangle(box, fill=ink())
            case 1:
                pen.ellipse(box, fill=ink())
            case 2:
                pen.line(box, fill=ink(), width=rng.randint(4, 20))
            case _:
                pen.polygon(
                    [(rng.uniform(0, large), rng.uniform(0, large)) for _ in range(3)], fill=ink()
                )
    return picture.resize((SIDE, SIDE), Image.Resampling.BOX)
