"""Plain tables as a TOML document, with the reason for a value as the comment behind it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from lorakit.bundle import keys
from lorakit.bundle.values import value

_COMMENT_COLUMN = 28


def document(data: Mapping[str, Any], reasons: Mapping[str, str] = {}) -> str:
    """Tables and values as TOML, in their order, a table's values before the tables in it.

    `reasons` goes by dotted key. Raises ValueError for what TOML cannot say, such as None.
    """
    return "\n".join(_blocks(data, (), reasons))


def _blocks(data: Mapping[str, Any], path: keys.Path, reasons: Mapping[str, str]) -> Iterator[str]:
    """One text for each table that holds values, header first."""
    inner = {name: given for name, given in data.items() if _is_table(given)}
    lines = [
        _line(keys.join((*path, name)), name, given, reasons)
        for name, given in data.items()
        if name not in inner
    ]
    if lines or not inner:
        yield _header(path) + "".join(lines)
    # What a table lists, such as folders, is what it is about, and stands before what it settles.
    for name, given in sorted(inner.items(), key=lambda item: isinstance(item[1], Mapping)):
        if isinstance(given, Mapping):
            yield from _blocks(given, (*path, name), reasons)
        else:
            for n, entry in enumerate(given):
                yield from _blocks(entry, (*path, name, n), reasons)


def _header(path: keys.Path) -> str:
    if not path:
        return ""
    dotted = keys.join(part for part in path if isinstance(part, str))
    return f"[[{dotted}]]\n" if isinstance(path[-1], int) else f"[{dotted}]\n"


def _is_table(given: Any) -> bool:
    """A table, or a list of tables that each hold a value and so can have a header each."""
    if isinstance(given, list | tuple):
        return bool(given) and all(_has_values(entry) for entry in given)
    return isinstance(given, Mapping)


def _has_values(given: Any) -> bool:
    return isinstance(given, Mapping) and any(not _is_table(inner) for inner in given.values())


def _line(key: str, name: str, given: Any, reasons: Mapping[str, str]) -> str:
    try:
        line = f"{keys.name(name)} = {value(given)}"
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    reason = _comment(reasons.get(key, ""))
    return f"{line:<{_COMMENT_COLUMN}} # {reason}\n" if reason else f"{line}\n"


def _comment(words: str) -> str:
    """One line without control characters, which no TOML comment may hold."""
    kept = (" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in words)
    return " ".join("".join(kept).split())
