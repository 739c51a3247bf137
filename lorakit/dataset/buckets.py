"""Which size a picture is trained at: one function for the report, the cache and the trainer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from lorakit.errors import LorakitError

if TYPE_CHECKING:
    from lorakit.dataset.report import Picture

MAX_ASPECT = 4
"""The longest bucket is this many times as long as wide; a longer picture loses its ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How one picture is brought to its bucket: scaled first, then cropped. All in pixels."""

    width: int
    """Of the bucket."""
    height: int
    """Of the bucket."""
    scale_width: int
    """Of the scaled picture, before the crop: never less than the bucket's."""
    scale_height: int
    left: int
    """Left edge of the crop in the scaled picture."""
    top: int

    @property
    def kept(self) -> float:
        """Share of the picture's area that is left after the crop, 0 to 1."""
        return self.width * self.height / (self.scale_width * self.scale_height)

    @property
    def extreme(self) -> bool:
        """Whether the picture is longer than the longest bucket, 4:1, and loses its ends."""
        short, long = sorted((self.scale_width, self.scale_height))
        return long > MAX_ASPECT * short


@lru_cache(maxsize=4096)
def fit(width: int, height: int, resolution: int, step: int, buckets: bool = True) -> Fit:
    """Bucket, scaled size and crop of a picture of width x height pixels.

    The bucket's area is at most resolution^2, so 512 x 768 at resolution 512 is made smaller.
    Both its sides are multiples of `step`. With `buckets` its shape is the one nearest to the
    picture's, at most 4:1; without, it is a square. Small pictures are scaled up.
    Raises LorakitError where the resolution is less than one step.
    """
    if width < 1 or height < 1:
        raise ValueError(f"a picture of {width} x {height} pixels")
    if resolution < step:
        raise LorakitError(
            f"Resolution {resolution} is less than the smallest size of this base, {step} pixels.",
            f"Choose a multiple of {step}.",
        )
    side = resolution // step * step
    bucket_width, bucket_height = (
        _nearest(width, height, sizes(resolution, step)) if buckets else (side, side)
    )
    # Whole numbers only: the side that fits exactly is the bucket's, the other is rounded up to
    # cover it, so that no platform's floating point moves an edge by one pixel.
    if bucket_width * height >= bucket_height * width:
        scale_width = bucket_width
        scale_height = max(bucket_height, _rounded(height * bucket_width, width))
    else:
        scale_height = bucket_height
        scale_width = max(bucket_width, _rounded(width * bucket_height, height))
    return Fit(
        width=bucket_width,
        height=bucket_height,
        scale_width=scale_width,
        scale_height=scale_height,
        left=(scale_width - bucket_width) // 2,
        top=(scale_height - bucket_height) // 2,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What pictures go through in one size."""

    width: int
    """In pixels, as the height."""
    height: int
    pictures: int
    seen: int
    """Pictures of one epoch: each as often as it is repeated."""
    kept_mean: float
    """Share of a picture's area that is left after the crop, 0 to 1."""
    kept_least: float
    scale_least: float
    """How much larger pictures are made: below 1 they are made smaller."""
    scale_most: float


def table(pictures: Iterable[Picture]) -> tuple[Bucket, ...]:
    """The sizes that pictures are trained at, the one with most pictures first."""
    groups: dict[tuple[int, int], list[Picture]] = {}
    for picture in pictures:
        groups.setdefault((picture.fit.width, picture.fit.height), []).append(picture)
    return tuple(
        Bucket(
            width=width,
            height=height,
            pictures=len(group),
            seen=sum(p.repeats for p in group),
            kept_mean=math.fsum(p.fit.kept for p in group) / len(group),
            kept_least=min(p.fit.kept for p in group),
            scale_least=min(p.upscale for p in group),
            scale_most=max(p.upscale for p in group),
        )
        for (width, height), group in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0]))
    )


@lru_cache(maxsize=64)
def sizes(resolution: int, step: int) -> tuple[tuple[int, int], ...]:
    """All buckets (width, height) of a resolution, widest last."""
    found = {size for pair in _pairs(resolution, step) for size in (pair, pair[::-1])}
    return tuple(sorted(found))


def _pairs(resolution: int, step: int) -> Iterator[tuple[int, int]]:
    """The square, and for each width the greatest height within the area and the aspect."""
    square = resolution // step * step
    yield square, square
    shortest = max(1, resolution // math.isqrt(MAX_ASPECT) // step) * step
    for width in range(shortest, math.isqrt(MAX_ASPECT) * resolution + 1, step):
        height = min(resolution**2 // width, MAX_ASPECT * width) // step * step
        if height * MAX_ASPECT >= width:
            yield width, height


def _nearest(width: int, height: int, found: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """The size whose shape is nearest, counted as a ratio; the larger one where two are equal."""

    def distance(size: tuple[int, int]) -> tuple[float, int, tuple[int, int]]:
        one, other = size[0] * height, size[1] * width
        # Rounded: a shape and its mirror image must not differ in the last bit of a logarithm.
        off = round(abs(math.log(one) - math.log(other)), 9)
        return off, -size[0] * size[1], size

    return min(found, key=distance)


def _rounded(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
