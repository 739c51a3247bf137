"""Pictures that look alike: what a look at one keeps of it, and which of many are near the same.

The bits are those of a difference hash (dhash): of a grey copy of 9 x 8 pixels, for each pixel
whether its right neighbour is brighter. Scaling, recompressing and small changes of colour leave
them nearly as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
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

PARTS = tuple(sum(1 << bit for bit in range(part, 64, 3)) for part in range(3))
"""Every third bit, so that none of the three is empty in a picture that is flat in one place, such
as a thing before a white wall."""

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
    told = {n: one for n, one in seen if LEAST_BITS <= one.bits.bit_count() <= MOST_BITS}
    shared: set[int] = set()
    for part in PARTS:
        ordered = sorted(one.bits & part for one in told.values())
        shared.update(one for one, other in pairwise(ordered) if one == other)
    # Only parts that are shared are kept, which are few: a table of all would take some 100 MB for
    # 100,000 pictures.
    firsts: dict[int, list[int]] = {part: [] for part in shared}
    found: dict[int, list[int]] = {}
    for number, one in told.items():
        places = [firsts[part] for mask in PARTS if (part := one.bits & mask) in shared]
        like = next((n for place in places for n in place if one.near(told[n])), None)
        if like is not None:
            found.setdefault(like, [like]).append(number)
            continue
        for place in places:
            place.append(number)
    yield from (found[first] for first in sorted(found))
