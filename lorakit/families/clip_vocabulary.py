"""CLIP's vocabulary, which SD 1, SD 2 and SDXL share, and its tokenizer without transformers.

Only the merges ship, in `assets/clip` under OpenAI's MIT licence: the rest follows from them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

SHIPPED = Path(__file__).resolve().parent.parent / "assets" / "clip" / "merges.txt.gz"

START, END = "<|startoftext|>", "<|endoftext|>"
"""The marks before and behind a text. SD 1 and SDXL's first encoder also fill up with END, SD 2 and
SDXL's second with `!`, which is token 0."""

WORD_END = "</w>"
"""Behind the last piece of each word."""

_PIECES = (
    r"<\|startoftext\|>|<\|endoftext\|>"
    r"|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)


def merges() -> list[str]:
    """The 48,894 pairs of pieces that become one, as `left right`, in the order of their rank."""
    return _text().splitlines()[1:]


def vocabulary() -> dict[str, int]:
    """The 49,408 tokens with their numbers: bytes, bytes that end a word, merges, START and END."""
    characters = list(_characters())
    ends = [character + WORD_END for character in characters]
    merged = [pair.replace(" ", "") for pair in merges()]
    return {token: at for at, token in enumerate([*characters, *ends, *merged, START, END])}


def write(folder: Path) -> None:
    """Write `vocab.json` and `merges.txt` into a folder: what transformers' CLIPTokenizer reads."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = json.dumps(vocabulary(), ensure_ascii=False)
    (folder / "vocab.json").write_text(numbers, encoding="utf-8")
    (folder / "merges.txt").write_text(_text(), encoding="utf-8", newline="\n")


@cache
def shipped() -> Tokenizer:
    """The tokenizer of the vocabulary that ships. It adds no marks and cuts nothing off.

    The first call takes about 0.1 s.
    """
    from tokenizers import models

    pairs = [(left, right) for left, right in map(str.split, merges())]
    return _around(
        models.BPE(vocab=vocabulary(), merges=pairs, end_of_word_suffix=WORD_END, unk_token=END)
    )


def of_folder(folder: Path) -> Tokenizer:
    """The tokenizer of a folder with `vocab.json` and `merges.txt`.

    Raises the library's bare Exception for missing or damaged files.
    """
    from tokenizers import models

    vocabulary, merges = str(folder / "vocab.json"), str(folder / "merges.txt")
    return _around(
        models.BPE.from_file(vocabulary, merges, end_of_word_suffix=WORD_END, unk_token=END)
    )


def _around(model: BPE) -> Tokenizer:
    """What transformers' fast tokenizer does before its model: fold, lower, cut into pieces."""
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

    made = Tokenizer(model)
    made.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.add_special_tokens([mark for mark in (START, END) if made.token_to_id(mark) is not None])
    return made


def _text() -> str:
    return gzip.decompress(SHIPPED.read_bytes()).decode("utf-8")


def _characters() -> Iterator[str]:
    """The character that stands for each byte, in CLIP's order: first those that can be seen."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
    yield from map(chr, seen)
    yield from (chr(256 + at) for at in range(256 - len(seen)))
