"""How often captions say what: their tags, their tokens, and the longest of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lorakit.bundle.models import Captions
from lorakit.dataset import captions, wording
from lorakit.dataset.report import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Long:
    """A caption among the longest."""

    name: str
    """Of its picture."""
    tokens: int
    caption: str
    """As it stands beside the picture, without trigger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequencies:
    """What the captions of some pictures say, the most frequent first."""

    captions: int
    """All of them; a picture may have several."""
    tags: tuple[tuple[str, int], ...]
    """What stands between separators, with the number of captions that hold it."""
    distinct_tags: int
    """Of all, where only the first are listed."""
    tokens: tuple[tuple[str, int], ...]
    """What the text encoder reads, with how often; empty where nothing can be counted."""
    distinct_tokens: int
    lengths: tuple[tuple[int, int], ...]
    """Captions of each number of tokens, the shortest first, without trigger and prefix."""
    longest: tuple[Long, ...]

    @property
    def spoken(self) -> tuple[tuple[str, int], ...]:
        """The tokens that are more than punctuation."""
        return tuple(pair for pair in self.tokens if any(map(str.isalnum, pair[0])))

    @property
    def shared(self) -> tuple[tuple[str, int], ...]:
        """The tags that more than one caption holds."""
        return tuple(pair for pair in self.tags if pair[1] > 1)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: plain values only."""
        return {
            "captions": self.captions,
            "tags": [{"tag": tag, "captions": n} for tag, n in self.tags],
            "distinct_tags": self.distinct_tags,
            "tokens": [{"token": token, "times": n} for token, n in self.tokens],
            "distinct_tokens": self.distinct_tokens,
            "lengths": [{"tokens": length, "captions": n} for length, n in self.lengths],
            "longest": [
                {"picture": long.name, "tokens": long.tokens, "caption": long.caption}
                for long in self.longest
            ],
        }


def frequencies(
    pictures: Iterable[Picture],
    settings: Captions,
    counter: captions.Counter | None,
    most: int = 50,
    longest: int = 5,
) -> Frequencies:
    """Count what the captions of these pictures say; `most` and `longest` are how many are listed.

    Letters of any case are one, as the text encoder reads them.
    """
    tags, tokens, lengths = Counter[str](), Counter[str](), Counter[int]()
    long: list[Long] = []
    total = 0
    for picture in pictures:
        for text in picture.captions:
            total += 1
            tags.update({tag.lower() for tag in wording.tags(text, settings.separator)})
            if counter is None:
                continue
            pieces = counter.pieces(text)
            tokens.update(pieces)
            lengths[len(pieces)] += 1
            if len(long) < longest or len(pieces) > long[-1].tokens:
                long.append(Long(name=picture.name, tokens=len(pieces), caption=text))
                long = sorted(long, key=lambda one: -one.tokens)[:longest]
    return Frequencies(
        captions=total,
        tags=_first(tags, most),
        distinct_tags=len(tags),
        tokens=_first(tokens, most),
        distinct_tokens=len(tokens),
        lengths=tuple(sorted(lengths.items())),
        longest=tuple(long),
    )


def _first(counts: Counter[str], most: int) -> tuple[tuple[str, int], ...]:
    """The most frequent; of equal ones by the alphabet, so that the order does not change."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])
