"""Pictures that look alike: what a look at one keeps of it, and which of many are near the same.

The bits are those of a difference hash (dhash): of a grey copy of 9 x 8 pixels, for each pixel
whether its right neighbour is brighter. Scaling, recompressing and small changes of colour leave
them nearly as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

SIDE = 8

FAR_BITS = 3
"""Pictures whose hashes differ in as many bits are not alike. Copies at other sizes and qualities
differ in 0 to 2 of the 64."""

FAR_COLOUR = 24
"""Nor are those whose mean red, green or blue differ by as much, of 255: the hash knows no
colours."""

LEAST_BITS, MOST_BITS = 4, 60
"""A hash with fewer or more bits set is of a flat picture, or of a plain gradient, and says
nothing."""


@dataclass(frozen=True, slots=True)
class Impression:
    """What stays of one picture."""

    bits: int
    """64 of them, the upper left pixel's highest."""
    red: int
    """The mean, 0 to 255."""
    green: int
    blue: int

    @property
    def dark(self) -> bool:
        """Whether it is black, but for what does not show in the mean."""
        return not (self.bits or self.red or self.green or self.blue)

    def near(self, other: Impression) -> bool:
        """Whether the two are of pictures that look alike."""
        if (self.bits ^ other.bits).bit_count() >= FAR_BITS:
            return False
        pairs = (self.red, other.red), (self.green, other.green), (self.blue, other.blue)
        return all(abs(one - two) < FAR_COLOUR for one, two in pairs)


def impression(image: Image.Image) -> Impression:
    """Of an upright RGB picture, best a small one already."""
    from PIL.Image import Resampling

    grey = image.convert("L").resize((SIDE + 1, SIDE), Resampling.LANCZOS).tobytes()
    bits = 0
    for y in range(SIDE):
        for x in range(y * (SIDE + 1), y * (SIDE + 1) + SIDE):
            bits = bits << 1 | (grey[x + 1] > grey[x])
    red, green, blue = image.resize((1, 1), Resampling.BOX).tobytes()
    return Impression(bits, red, green, blue)


def groups(seen: Iterable[tuple[int, Impression]]) -> Iterator[list[int]]:
    """Numbers of pictures that look like the first one in each list; at least two in each.

    Two hashes that differ in at most two bits have one of three parts in common, so only pictures
    that share one are compared.
    """
    firsts: dict[tuple[int, int], list[tuple[int, Impression]]] = defaultdict(list)
    found: dict[int, list[int]] = {}
    for number, one in seen:
        if not LEAST_BITS <= one.bits.bit_count() <= MOST_BITS:
            continue
        parts = [(0, one.bits >> 43), (1, one.bits >> 21 & 0x3FFFFF), (2, one.bits & 0x1FFFFF)]
        like = next((n for p in parts for n, other in firsts[p] if one.near(other)), None)
        if like is not None:
            found[like].append(number)
            continue
        found[number] = [number]
        for part in parts:
            firsts[part].append((number, one))
    yield from (numbers for numbers in found.values() if len(numbers) > 1)
