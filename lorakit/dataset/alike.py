"""Pictures that look alike: what a look at one keeps of it, and which of many are near the same.

The bits are those of a difference hash (dhash): of a grey copy of 9 x 8 pixels, for each pixel
whether its right neighbour is brighter. Scaling, recompressing and small changes of colour leave
them nearly as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
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
    that share one are compared, and of those that are alike only the first.
    """
    given = [(n, one) for n, one in seen if LEAST_BITS <= one.bits.bit_count() <= MOST_BITS]
    like = {}  # of a picture's place in `given`, that of the first like it
    for shift in (42, 21, 0):
        sharing = sorted((one.bits >> shift & _PART, at) for at, (_, one) in enumerate(given))
        for _, some in groupby(sharing, key=lambda pair: pair[0]):
            firsts: list[int] = []
            for _, at in some:
                if at in like:
                    continue
                first = next((f for f in firsts if given[f][1].near(given[at][1])), None)
                if first is None:
                    firsts.append(at)
                else:
                    like[at] = first
    found: dict[int, list[int]] = {}
    for at in sorted(like):
        first = at
        while first in like:
            first = like[first]
        found.setdefault(first, [given[first][0]]).append(given[at][0])
    yield from found.values()


_PART = 0x3FFFFF
"""22 of the bits: three such parts overlap by one bit, and have all 64."""
