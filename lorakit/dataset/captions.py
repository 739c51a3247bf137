"""Captions as text: files of them decoded, given their trigger, and counted in tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from lorakit.dataset import encodings
from lorakit.families import clip_vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from lorakit.bundle.models import Source

SUFFIXES = (".txt", ".caption")
"""Extensions of caption files, in any case of letters; the first wins where there are both."""

MAX_BYTES = 64 * 1024
"""A caption file longer than this is something else."""


def beside(stem: str, names: Iterable[str]) -> list[str]:
    """The caption files of a picture among the names of its folder, the one to use first."""
    found = [n for n in names if n.startswith(stem) and n[len(stem) :].lower() in SUFFIXES]
    return sorted(found, key=lambda n: (SUFFIXES.index(n[len(stem) :].lower()), n))


def read(path: str | Path) -> str:
    """The caption in a file, on one line: white space of any kind becomes one space.

    UTF-8, or UTF-16 with a byte order mark. Raises LorakitError (code DATA) naming the file and
    the place of the first byte that is neither.
    """
    return folded(encodings.read(path, MAX_BYTES, "caption"))


def read_lines(path: str | Path) -> tuple[str, ...]:
    """The captions in a file whose lines are captions of their own; empty lines are none.

    Raises what `read` raises.
    """
    lines = re.split(r"[\r\n]+", encodings.read(path, MAX_BYTES, "caption"))
    return tuple(line for line in map(folded, lines) if line)


def folded(text: str) -> str:
    """The text on one line, with single spaces."""
    return " ".join(text.split())


def with_trigger(caption: str, trigger: str) -> str:
    """The caption with the trigger before it, unless it holds the trigger as whole words already.

    Without a caption it is the trigger alone.
    """
    trigger = folded(trigger)
    if not trigger or holds(caption, trigger):
        return caption
    return f"{trigger} {caption}" if caption else trigger


def trigger_of(source: Source) -> str:
    """The trigger of a source's captions, on one line; prior pictures take none."""
    return "" if source.prior else folded(source.trigger)


def holds(text: str, words: str) -> bool:
    """Whether the words stand in the text, whole and in any case of letters."""
    return _whole(words).search(text) is not None


@lru_cache(maxsize=256)
def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Length:
    """How long a text is for the text encoder."""

    tokens: int
    """Without the marks of start and end."""
    cut: str
    """The end of the text that is not read; empty where it fits."""


class Counter:
    """Counts tokens with a base's own tokenizer."""

    def __init__(self, tokenizer: Callable[[], Tokenizer], limit: int, roughly: bool) -> None:
        self._tokenizer, self._roughly = tokenizer, roughly
        self._of_word = lru_cache(maxsize=1 << 14)(self._encoded)
        self.limit = limit
        """Tokens that are read."""

    def pieces(self, text: str) -> tuple[str, ...]:
        """The tokens of a text, each as it stands in it, in small letters."""
        # CLIP never joins two words, and captions say the same ones again and again: word by word
        # they take a tenth of the time.
        if getattr(self._tokenizer().model, "end_of_word_suffix", None):
            return tuple(chain.from_iterable(map(self._of_word, text.split(" "))))
        return self._encoded(text)

    def count(self, text: str) -> int:
        """Tokens of a text; roughly, of a short one that is read whole, its letters."""
        # No token is less than a letter. To load a tokenizer takes a tenth of a second.
        if self._roughly and len(text) <= self.limit and text.isascii():
            return len(text)
        return len(self.pieces(text))

    def measure(self, text: str) -> Length:
        """Tokens of a text, and the part of it behind the limit."""
        count = self.count(text)
        if count <= self.limit:
            return Length(count, "")
        found = self._tokenizer().encode(text, add_special_tokens=False)
        return Length(count, text[found.offsets[self.limit][0] :])

    def _encoded(self, text: str) -> tuple[str, ...]:
        found = self._tokenizer().encode(text, add_special_tokens=False)
        return tuple(text[start:end].strip().lower() for start, end in found.offsets)


def counter(folder: Path | None, limit: int, roughly: bool = False) -> Counter | None:
    """The counter of the base in this folder; of one that is not here, or is a single file, CLIP's.

    Where it only matters what is too long, `roughly` spares loading a tokenizer for short texts.
    None where the folder's tokenizer is not there or cannot be read.
    """
    if folder is None or folder.is_file():
        return Counter(
            clip_vocabulary.shipped, limit, roughly
        )  # built when there is something to count
    try:
        tokenizer = _tokenizer(folder / "tokenizer")
    except Exception:  # the library raises bare Exception for a missing or damaged file
        return None
    return Counter(lambda: tokenizer, limit, roughly)


@cache
def _tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    whole = folder / "tokenizer.json"
    if not whole.is_file():
        return clip_vocabulary.of_folder(folder)
    tokenizer = Tokenizer.from_file(str(whole))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
