"""Values as TOML text. Every string round-trips, and a float stays a float."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

from lorakit.bundle import keys

_ESCAPES = {
    "\b": r"\b",
    "\t": r"\t",
    "\n": r"\n",
    "\f": r"\f",
    "\r": r"\r",
    '"': r"\"",
    "\\": r"\\",
}

_LINE = 80
"""A list longer than this many characters is written one value a line."""


def value(given: Any) -> str:
    """One TOML value. Raises ValueError for what TOML cannot say, such as None."""
    match given:
        case bool():
            return "true" if given else "false"
        case str():
            return text(given)
        case int():
            return str(given)
        case float():
            return number(given)
        case datetime.datetime() | datetime.date() | datetime.time():
            return given.isoformat()
        case Mapping():
            inside = (f"{keys.name(k)} = {value(v)}" for k, v in given.items())
            return f"{{ {', '.join(inside)} }}" if given else "{}"
        case Sequence():
            return _list([value(v) for v in given])
    raise ValueError(f"TOML has no {type(given).__name__}")


def text(given: str) -> str:
    """A string in quotes: single ones where that keeps backslashes readable.

    What cannot be seen is escaped, so that no text from a stranger steers a terminal. Raises
    ValueError for half a surrogate pair: a file name that is not UTF-8.
    """
    if "\\" in given and "'" not in given and given.isprintable():
        return f"'{given}'"
    return '"' + "".join(_character(c) for c in given) + '"'


def number(given: float) -> str:
    """A float that reads back the same, as short as people write it: 16.0, 0.01, 1e-4."""
    if not math.isfinite(given):
        return "nan" if math.isnan(given) else "inf" if given > 0 else "-inf"
    sign, written = ("-" if given < 0 else ""), repr(abs(given))
    if written.startswith("0.000") and given:
        digits = written[2:].lstrip("0")
        exponent = len(digits) - len(written) + 1
        return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{exponent}"
    mantissa, e, power = written.partition("e")
    return f"{sign}{mantissa}e{int(power)}" if e else sign + written


def shown(given: Any, limit: int = 60) -> str:
    """A value for a sentence: on one line, cut where it is long."""
    try:
        written = value(given).replace("\n", " ")
    except ValueError:
        written = ascii(given)
    return written if len(written) <= limit else written[: limit - 3] + "..."


def _list(items: list[str]) -> str:
    flat = f"[{', '.join(items)}]"
    if len(flat) <= _LINE or not items:
        return flat
    return "[\n" + "".join(f"  {item},\n" for item in items) + "]"


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        raise ValueError("a text that is not UTF-8 has no place in TOML")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
