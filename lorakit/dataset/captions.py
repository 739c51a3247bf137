"""Captions beside the pictures: found, decoded, given their trigger, and counted in tokens."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lorakit.errors import ExitCode, LorakitError
from lorakit.families import clip_vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SUFFIXES = (".txt", ".caption")
"""Extensions of caption files, in any case of letters; the first wins where there are both."""

MAX_BYTES = 64 * 1024
"""A caption file longer than this is something else."""


def beside(stem: str, names: Iterable[str]) -> list[str]:
    """The caption files of a picture among the names of its folder, the one to use first."""
    found = [n for n in names if n.startswith(stem) and n[len(stem) :].lower() in SUFFIXES]
    return sorted(found, key=lambda n: (SUFFIXES.index(n[len(stem) :].lower()), n))


def read(path: Path) -> str:
    """The caption in a file, on one line: white space of any kind becomes one space.

    UTF-8, or UTF-16 with a byte order mark. Raises LorakitError (code DATA) naming the file and
    the place of the first byte that is neither.
    """
    name = path.name
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise LorakitError(
            f"{name} cannot be read: {error.strerror}.", "Allow reading it.", ExitCode.DATA
        ) from None
    if len(raw) > MAX_BYTES:
        raise LorakitError(
            f"{name} is longer than {MAX_BYTES // 1024} KiB, which is no caption.",
            "Shorten it, or rename it if it belongs to no picture.",
            ExitCode.DATA,
        )
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        bom = 0 if wide or not raw.startswith(codecs.BOM_UTF8) else 3
        at = min(error.start + bom, len(raw) - 1)
        raise LorakitError(
            f"{name} is not {'UTF-16' if wide else 'UTF-8'}: byte 0x{raw[at]:02x} at {at}.",
            "Save it again as UTF-8.",
            ExitCode.DATA,
        ) from None
    if "\0" in text:
        raise LorakitError(
            f"{name} is not UTF-8: byte 0x00 at {raw.index(0)}; "
            "it may be UTF-16 without a byte order mark.",
            "Save it again as UTF-8.",
            ExitCode.DATA,
        )
    return folded(text)


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


def holds(text: str, words: str) -> bool:
    """Whether the words stand in the text, whole and in any case of letters."""
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True)
class Length:
    """How long a text is for the text encoder."""

    tokens: int
    """Without the marks of start and end."""
    cut: str
    """The end of the text that is not read; empty where it fits."""


class Counter:
    """Counts tokens with a base's own tokenizer."""

    def __init__(self, tokenizer: Callable[[], Tokenizer], limit: int) -> None:
        self._tokenizer = tokenizer
        self.limit = limit
        """Tokens that are read."""

    def measure(self, text: str) -> Length:
        """Tokens of a text, and the part of it behind the limit."""
        found = self._tokenizer().encode(text, add_special_tokens=False)
        count = len(found.ids)
        return Length(count, text[found.offsets[self.limit][0] :] if count > self.limit else "")


def counter(folder: Path | None, limit: int) -> Counter | None:
    """The counter of the base in this folder; of one that is not here, or is a single file, CLIP's.

    None where the folder's tokenizer is not there or cannot be read.
    """
    if folder is None or folder.is_file():
        return Counter(clip_vocabulary.shipped, limit)  # built when there is something to count
    try:
        tokenizer = _tokenizer(folder / "tokenizer")
    except Exception:  # the library raises bare Exception for a missing or damaged file
        return None
    return Counter(lambda: tokenizer, limit)


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
