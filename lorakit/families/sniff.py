"""What a file is that should hold weights as safetensors, by its size and its first bytes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from lorakit.families import header
from lorakit.families.header import Header

FIRST_BYTES = 512

_AGAIN = "Download it again."
_PAGE = re.compile(rb"\s*<(!doctype|html|\?xml|head|script)", re.IGNORECASE)


class Wrong(NamedTuple):
    """Why a file holds no weights that can be read."""

    what: str
    """In words, to stand behind the file's name and `is`."""
    fix: str
    pickled: bool = False
    """It holds weights, pickled."""


def wrong(file: Path) -> Wrong | Header:
    """The header of a complete safetensors file, or what the file is instead.

    Raises OSError where it cannot be read.
    """
    size = file.stat().st_size
    if not size:
        return Wrong("empty", _AGAIN)
    with file.open("rb") as opened:
        first = opened.read(FIRST_BYTES)
    if stranger := _stranger(first, size):
        return stranger
    length = int.from_bytes(first[:8], "little")
    begun = size >= 8 and first[8:9] in (b"{", b"")
    if begun and size - 8 < length <= header.MAX_BYTES:
        text = f"cut short: its header alone has {told(length)}, and the file {told(size)}"
        return Wrong(text, _AGAIN)
    try:
        found = header.read(file)
    except ValueError:
        if length > header.MAX_BYTES:
            what = (
                f"no safetensors file: its first bytes would mean a header of {told(length)}, and"
                f" {told(header.MAX_BYTES)} is the limit"
            )
            return Wrong(what, _AGAIN)
        return Wrong("no safetensors file: its header cannot be read", _AGAIN)
    if size < found.promised_bytes:
        promised, here = _apart(found.promised_bytes, size)
        return Wrong(f"cut short: its header promises {promised}, the file has {here}", _AGAIN)
    if size > found.promised_bytes:
        more = told(size - found.promised_bytes)
        return Wrong(f"damaged: {more} more than its header promises", _AGAIN)
    return found


def _stranger(first: bytes, size: int) -> Wrong | None:
    """Files that people find under a model's name."""
    if first.startswith(b"version https://git-lfs"):
        text = f"a Git LFS pointer of {told(size)}, not the model itself"
        return Wrong(text, "Run `git lfs pull` in its folder, or download the file itself.")
    if b"/annex/objects/" in first and size < 4096:
        return Wrong("a git-annex pointer, not the model itself", "Run `git annex get` on it.")
    if _PAGE.match(first.removeprefix(b"\xef\xbb\xbf")):
        text = f"a web page of {told(size)}, not a model"
        return Wrong(
            text, "Download it again; the site may ask for a login or for its terms to be accepted."
        )
    if first.lstrip().startswith((b'{"', b"{'")) and size < 2**20:
        answer = " ".join(first[:80].decode("utf-8", "replace").split())
        return Wrong(f"a server's answer, not a model: {answer}", _AGAIN)
    if first.startswith(b"PK\x03\x04") or re.match(rb"\x80[\x02-\x05]", first):
        kind = "zip" if first.startswith(b"PK") else "pickle"
        return Wrong(
            f"a {kind} checkpoint (pickled weights), not safetensors",
            "Get the .safetensors file of the same model. Pickled weights are read, without any"
            " code in them, only with base.pickle = true.",
            pickled=True,
        )
    if first.startswith(b"GGUF"):
        return Wrong("a GGUF file: quantised weights, for drawing alone", "Get the .safetensors.")
    return None


def told(size: int) -> str:
    """A size in words, such as 6.9 GB or 134 bytes."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if size >= scale:
            return f"{size / scale:.1f}".removesuffix(".0") + f" {unit}"
    return "1 byte" if size == 1 else f"{size} bytes"


def _apart(one: int, other: int) -> tuple[str, str]:
    """Two sizes in words that are not the same words."""
    if told(one) != told(other):
        return told(one), told(other)
    return f"{one:,} bytes", f"{other:,}"
