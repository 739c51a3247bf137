"""Random draws before torch, as pure functions of (seed, purpose, epoch, sample).

No draw depends on how many were made before it elsewhere, so a resumed run draws what an unbroken
one would, and a cache knows beforehand what will be drawn.
"""

from __future__ import annotations

import hashlib
import random


class Chance:
    """The draws of one place. Python promises only `random()` to stay the same, so all use it."""

    __slots__ = ("_random",)

    def __init__(self, seed: int, *place: str | int) -> None:
        name = "/".join(str(part) for part in (seed, *place)).encode()
        number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
        self._random = random.Random(number).random

    def share(self) -> float:
        """A number of 0 to below 1, each as likely as any other."""
        return self._random()

    def below(self, count: int) -> int:
        """A whole number of 0 to below `count`, which is at least 1."""
        return int(self._random() * count)

    def order(self, count: int) -> list[int]:
        """The numbers of 0 to below `count` in a drawn order."""
        drawn = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.below(last + 1)
            drawn[last], drawn[other] = drawn[other], drawn[last]
        return drawn
