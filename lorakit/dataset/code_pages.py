"""Which old code page a text looks like that is not UTF-8.

A caption is a few words long, too few for libraries that tell encodings by how often letters come:
what is looked at is whether the bytes are those that are usual in a code page.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise

USUAL = 0.8
"""Such a share of what is not ASCII must be usual in a code page, for a text to look like it."""

_WESTERN = frozenset("‘’“”„‚–—…•«»°´¡¿€£©®™½¼¾²³§·×")
_ALONE = frozenset("àáâäåæèéêíóôöøúÀÁÂÄÅÆÈÉÊÍÓÔÖØÚ")
"""Letters that are a word in some language."""
_JAPANESE = "\u3001\u3002\u300c\u300d\u30fb\u30fc\uff01\uff0c\uff1f\u3000"


def guesses(raw: bytes) -> list[str]:
    """The code pages that these bytes look like, by Python's names, the likeliest first; at most
    two, and none where nothing fits."""
    fitting = [(share, name) for name in _USUAL if (share := _share(raw, name)) >= USUAL]
    return [name for _, name in sorted(fitting, key=lambda item: -item[0])][:2]


def _share(raw: bytes, name: str) -> float:
    """How much of the text is usual in a code page, 0 to 1; 0 where it cannot be decoded."""
    try:
        text = raw.decode(name)
    except UnicodeDecodeError:
        return 0.0
    if any(unicodedata.category(c) in ("Cc", "Co", "Cn") for c in text if c not in "\t\n\r"):
        return 0.0
    return _USUAL[name](text)


def _western(text: str) -> float:
    """Accented letters stand among plain ones, or alone; the marks are those of typed text."""
    usual = total = 0
    for word in re.findall(r"[^\W\d_]+", text):
        accented = sum(c > "\x7f" for c in word)
        total += accented
        usual += accented if word in _ALONE or 3 * accented <= 2 * len(word) else 0
        usual -= word.count("ƒ")  # the first byte of every katakana in cp932
    marks = [c for c in text if c > "\x7f" and not c.isalpha()]
    return _ratio(usual + sum(c in _WESTERN for c in marks), total + len(marks))


def _cyrillic(text: str) -> float:
    """Words are wholly Cyrillic, and in small letters behind the first, or all in capitals."""
    usual = total = 0
    for word in re.findall(r"[^\W\d_]+", text):
        foreign = sum(c > "\x7f" for c in word)
        total += foreign
        proper = all("\u0400" <= c <= "\u045f" for c in word)
        usual += foreign if proper and (word[1:].islower() or (word.isupper() and word[1:])) else 0
    marks = [c for c in text if c > "\x7f" and not c.isalpha()]
    return _ratio(usual + sum(c in _WESTERN for c in marks), total + len(marks)) if total else 0.0


def _by_bytes(name: str, is_usual: Callable[[str, int, int], bool]) -> Callable[[str], float]:
    """For code pages of two bytes: by the character, and by its first and second byte.

    One that is stuck to the end of a plain word, as an apostrophe is, is not usual.
    """

    def share(text: str) -> float:
        pairs = [(before, c, c.encode(name)) for before, c in pairwise(" " + text) if c > "\x7f"]
        usual = sum(
            len(pair) == 2 and is_usual(c, *pair) and not (before.isascii() and before.isalpha())
            for before, c, pair in pairs
        )
        return _ratio(usual, len(pairs))

    return share


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


_USUAL: dict[str, Callable[[str], float]] = {
    "cp1252": _western,
    "cp932": _by_bytes(
        "cp932",
        lambda c, first, _: "\u3041" <= c <= "\u30fc" or c in _JAPANESE or 0x88 <= first <= 0x97,
    ),
    "cp949": _by_bytes("cp949", lambda _, first, second: 0xB0 <= first <= 0xC8 and second >= 0xA1),
    "gb18030": _by_bytes(
        "gb18030",
        lambda _, first, second: (
            (0xB0 <= first <= 0xD7 or first in (0xA1, 0xA3)) and second >= 0xA1
        ),
    ),
    "big5": _by_bytes("big5", lambda _, first, __: 0xA4 <= first <= 0xC6 or first == 0xA1),
    "cp1251": _cyrillic,
}
"""What is usual in each, as a share; of equal ones the first is the likeliest. The ranges are those
of the characters in common use, with which each of these code pages begins."""
