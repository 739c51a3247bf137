"""Tables of captions as Hugging Face's folders of pictures have them: metadata.jsonl, metadata.csv.

Each row names a picture in `file_name`, relative to the table's own folder, and says what
`entries` reads; where there is none of its keys, the only other text of the row is the caption.
Several rows about one picture are several captions.
"""

from __future__ import annotations

import csv
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorakit.dataset import encodings, entries
from lorakit.dataset.entries import Entry
from lorakit.errors import ExitCode, LorakitError

NAMES = ("metadata.jsonl", "metadata.csv")
"""In any case of letters; of two in one folder that name the same picture the first is used."""

NAME = "file_name"

MAX_BYTES = 512 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What one file says of pictures."""

    name: str
    """Relative to the source's folder, with `/`."""
    entries: dict[str, Entry]
    """By the name of the picture, relative to the source's folder."""


def tables(names: Iterable[str]) -> list[str]:
    """Those of the names that are tables, the one to believe first: in the innermost folder."""
    found = [n for n in names if posixpath.basename(n).lower() in NAMES]
    return sorted(found, key=lambda n: (-n.count("/"), _rank(n), n))


def _rank(name: str) -> int:
    return NAMES.index(posixpath.basename(name).lower())


def read(folder: Path, name: str, separator: str) -> Table:
    """The table of this name below a source's folder.

    Raises LorakitError (code DATA) naming the file and the line that cannot be read.
    """
    text = encodings.read(folder / name, MAX_BYTES, "table of captions")
    rows = _csv(name, text) if name.lower().endswith(".csv") else _jsonl(name, text)
    found: dict[str, Entry] = {}
    for line, row in rows:
        picture = row.pop(NAME, None)
        if not isinstance(picture, str) or not picture.strip():
            raise _wrong(name, line, f"has no {NAME}")
        try:
            said = entries.entry(_captioned(row), separator)
        except ValueError as error:
            raise _wrong(name, line, str(error)) from None
        key = _place(name, picture)
        there = found.get(key)
        if there is not None:
            said = Entry(there.captions + said.captions, there.box or said.box)
        found[key] = said
    return Table(name=name, entries=found)


def _place(table: str, picture: str) -> str:
    """The name of a picture as the scan has it; one outside the source stays outside."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(table), picture.replace("\\", "/")))


def _captioned(row: dict[str, Any]) -> dict[str, Any]:
    """The row; where no key of it is known, with its only text as the caption."""
    if any(row.get(key) is not None for key in (*entries.CAPTIONS, "tags")):
        return row
    texts = [value for key, value in row.items() if isinstance(value, str) and key != "box"]
    return {**row, "text": texts[0]} if len(texts) == 1 else row


def _jsonl(name: str, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_lines(text), 1):
        if line.strip():
            try:
                yield number, entries.load(line)
            except ValueError as error:
                raise _wrong(name, number, str(error)) from None


def _csv(name: str, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.reader(_lines(text), strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
        if NAME not in header:
            raise LorakitError(
                f"{name} has no column {NAME}: its first line is {text.splitlines()[0][:60]!r}."
                if text.strip()
                else f"{name} is empty.",
                f"Expected commas between columns, such as: {NAME},text",
                ExitCode.DATA,
            )
        for row in reader:
            if row and len(row) != len(header):
                more = f"has {len(row)} columns and the first line {len(header)}"
                raise _wrong(name, reader.line_num, f"{more}; a text with commas needs quotes")
            if row:
                yield reader.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise _wrong(name, reader.line_num, f"is not CSV: {error}") from None


_LINE = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])|[^\r\n]+")


def _lines(text: str) -> Iterator[str]:
    """The lines of a text with their ends. StringIO would take four bytes for each character."""
    return (found[0] for found in _LINE.finditer(text))


def _wrong(name: str, line: int, what: str) -> LorakitError:
    return LorakitError(f"{name} line {line} {what}.", f"Mend it, or remove {name}.", ExitCode.DATA)
