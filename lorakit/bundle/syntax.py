"""From bytes to a plain dict: encodings, line ends, and broken TOML explained line by line."""

from __future__ import annotations

import codecs
import re
import tomllib
from pathlib import Path
from typing import Any

from lorakit.bundle.problems import BundleError, Problem
from lorakit.bundle.values import number, shown

_LIMIT_BYTES = 16 * 2**20
"""Nobody writes a larger bundle by hand; a file of weights given by mistake is larger."""

SWITCHES = {
    "true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false",
}  # fmt: skip
"""What people write for true and false."""

_UTF8 = "Save the file as UTF-8 with ordinary line ends."

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

BACKSLASH = (
    "In double quotes a backslash starts an escape: put a Windows path in single quotes, "
    "or write / for each backslash."
)


def read_text(path: Path) -> str:
    """A TOML file's text. Raises BundleError, with one sentence, where it has none."""
    try:
        if path.is_dir():
            inside = path / "bundle.toml"
            hint = f"Its bundle is {inside}." if inside.is_file() else "Name a file in it."
            raise _broken(f"{path} is a folder.", hint, str(path))
        size = path.stat().st_size
        if size > _LIMIT_BYTES:
            what = f"{path} has {size / 2**20:.0f} MiB, and a TOML file of settings a few KiB."
            raise _broken(what, "Is it the right file?", str(path))
        return decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise _broken(f"{path} does not exist.", _neighbours(path), str(path)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise _broken(f"{path} cannot be read: {reason}.", where=str(path)) from None


def decode(data: bytes, where: str = "") -> str:
    """UTF-8, with or without a byte-order mark; anything else is named and refused."""
    data = data.removeprefix(codecs.BOM_UTF8)
    if data.startswith(_UTF16) or data[:2].count(0) == 1:
        raise _broken("The file is in UTF-16, and TOML is UTF-8.", _UTF8, where)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"The file is not UTF-8: line {line} holds the byte 0x{data[error.start]:02x}."
        raise _broken(what, _UTF8, where, line) from None
    return text


def load(text: str, where: str = "") -> dict[str, Any]:
    """The content of a TOML text. Raises BundleError that names line, column and a way out."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        raise _broken("The file is empty.", "Start from an example or the wizard.", where)
    if "\r" in text:
        line = text[: text.index("\r")].count("\n") + 1
        what = f"Line {line} ends in a lone carriage return, as files of the first Macs do."
        raise _broken(what, _UTF8, where, line)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, fix, line = _explain(str(error), text)
        raise _broken(what, fix, where, line) from None
    except RecursionError:
        raise _broken("The TOML is nested too deep to be read.", where=where) from None
    except ValueError:
        raise _broken("The TOML holds a number of thousands of digits.", where=where) from None


def literal_hint(word: str) -> str:
    """How to write a value that is no TOML, such as `.0001`, `1.`, `0010` or `True`; or nothing."""
    if word.lower() in SWITCHES:
        return f"Write {SWITCHES[word.lower()]}."
    if word.lower() in ("none", "null", "nil"):
        return "TOML has no such value: leave the key out."
    if re.fullmatch(r"[+-]?\d+,\d+", word):
        return f"Write {word.replace(',', '.')}, with a point."
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", word, re.IGNORECASE):
        whole = re.fullmatch(r"[+-]?\d+", word)
        written = str(int(word)) if whole and len(word) < 100 else number(float(word))
        return f"Write {written}."
    return ""


def _explain(message: str, text: str) -> tuple[str, str, int]:
    """What is wrong, the way out, and the line, from the words of `tomllib`."""
    lines = text.split("\n")
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    at_end = found is None or found[1] is None
    line = len(text.rstrip("\n").split("\n")) if at_end else int(found[1])  # type: ignore[index]
    place = f"Line {line}" if at_end else f"Line {line}, column {found[2]}"  # type: ignore[index]
    reason = message[: found.start()] if found else message
    reason = reason[:1].lower() + reason[1:]
    return f"{place} is no valid TOML: {reason}.", _hint(lines[line - 1], reason), line


def _hint(line: str, reason: str) -> str:
    before, equals, after = line.partition("=")
    key = before.strip() if before.isprintable() else "key"
    if any(quote in line for quote in "“”„‘’"):
        return "Use straight quotes: \" or '."
    if '"' in line and "\\" in line:
        return BACKSLASH
    if "overwrite" in reason or "twice" in reason or "redefine" in reason:
        return "The same key or table stands in the file twice: keep one."
    if line.lstrip().startswith(("//", "/*", ";", "--")):
        return "A comment starts with #."
    if not equals:
        if re.match(r"\s*[\w.-]+\s*:", line):
            return "TOML puts = between a key and its value."
        return "" if line.strip() else "Something further up was not closed."
    word = re.split(r"\s*(?:#|$)", after.strip())[0]
    if hint := literal_hint(word):
        return hint
    if word and word[0] not in "\"'[{" and not re.match(r"[+-]?\d", word):
        return f"Text needs quotes: {key} = {shown(word)}."
    if word.count('"') % 2 or (word.startswith("'") and word.count("'") % 2):
        return "A quote is missing at the end."
    return "Write a value behind the =." if not word else ""


def _neighbours(path: Path) -> str:
    import difflib

    try:
        around = [p.name for p in path.parent.iterdir() if p.suffix == ".toml"]
    except OSError:
        return f"There is no folder {path.parent}."
    near = difflib.get_close_matches(path.name, around, n=1) or around[:1] * (len(around) == 1)
    return f"Did you mean {path.with_name(near[0])}?" if near else ""


def _broken(what: str, fix: str = "", where: str = "", line: int | None = None) -> BundleError:
    return BundleError([Problem(where="", what=what, fix=fix, line=line)], where)
