"""Text from files: UTF-8, or UTF-16 with a byte order mark; anything else is named, not guessed."""

from __future__ import annotations

import codecs
import os
import shlex
from pathlib import Path

from lorakit.dataset import code_pages, sniff
from lorakit.errors import ExitCode, LorakitError


def read(path: str | Path, limit_bytes: int, noun: str) -> str:
    """The text of a file, as it stands, without a byte order mark.

    Raises LorakitError (code DATA) where it cannot be read, is longer than the limit, which no
    `noun` is, or cannot be decoded.
    """
    name = os.path.basename(path)
    try:
        # pathlib keeps the parts of each path for good, which for many captions is much.
        with open(path, "rb") as file:
            raw = file.read(limit_bytes + 1)
    except OSError as error:
        raise LorakitError(
            f"{name} cannot be read: {error.strerror}.", "Allow reading it.", ExitCode.DATA
        ) from None
    if len(raw) > limit_bytes:
        raise LorakitError(
            f"{name} is longer than {limit_bytes // 1024} KiB, which is no {noun}.",
            "Shorten it, or rename it if it belongs to no picture.",
            ExitCode.DATA,
        )
    return decode(raw, path)


def decode(raw: bytes, path: str | os.PathLike[str]) -> str:
    """The text of a file's bytes, as they stand, without a byte order mark.

    Raises LorakitError (code DATA) naming the file, the place of the first byte that is no text,
    the code page that it looks like, and the command that turns it into UTF-8.
    """
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        bom = 0 if wide or not raw.startswith(codecs.BOM_UTF8) else 3
        at = min(error.start + bom, len(raw) - 1)
        raise _refused(raw, path, "UTF-16" if wide else "UTF-8", at) from None
    if "\0" in text:
        at = 2 + 2 * text.index("\0") if wide else raw.index(0)
        raise _refused(raw, path, "text in UTF-16" if wide else "UTF-8", at)
    return text


def _refused(raw: bytes, path: str | os.PathLike[str], wanted: str, at: int) -> LorakitError:
    kind = sniff.kind(raw[: sniff.HEAD_BYTES])
    if kind not in sniff.TEXTS:  # turning it into UTF-8 would destroy it
        what = f"a {kind} picture" if kind in sniff.READABLE else kind
        return LorakitError(
            f"{os.path.basename(path)} is {what}, not text.",
            "Give it the extension of what it is, or move it away.",
            ExitCode.DATA,
        )
    likely = [] if "UTF-16" in wanted else _wide(raw)
    if not likely and 0 not in raw:
        likely = code_pages.guesses(raw)
    said = f"{os.path.basename(path)} is not {wanted}: byte 0x{raw[at]:02x} at {at}"
    if likely:
        said += f"; it looks like {' or '.join(likely)}"
    return LorakitError(f"{said}.", _way_out(path, likely), ExitCode.DATA)


def _wide(raw: bytes) -> list[str]:
    """UTF-16 without a byte order mark, by where the zeros of plain letters lie."""
    odd, even = raw[1::2].count(0), raw[::2].count(0)
    if odd == even:
        return []
    name = "utf-16le" if odd > even else "utf-16be"
    try:
        text = raw.decode(name)
    except UnicodeDecodeError:
        return []
    return [name] if all(c.isprintable() or c.isspace() for c in text) else []


def _way_out(path: str | os.PathLike[str], likely: list[str]) -> str:
    name = os.fspath(path)
    if not likely or not name.isprintable():  # such a name cannot be copied from a screen
        return "Save it again as UTF-8."
    old, new = shlex.quote(name), shlex.quote(name + ".utf8")
    return (
        "Save it again as UTF-8: "
        f"iconv -f {likely[0].upper()} -t UTF-8 -- {old} > {new} && mv -- {new} {old}"
    )
