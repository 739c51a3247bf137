"""Where each value stands in a TOML text: its line, its exact place, the comment behind it.

`tomllib` keeps no places and `tomlkit` no line numbers. This walks a text that `tomllib` has
accepted, so it needs to know where values end and not what they mean. Line numbers of problems,
reasons in presets and edits of one value all come from here.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

from lorakit.bundle.keys import Path

_BLANK = re.compile(r"[ \t]*")
_FILL = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_TEXT = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}(?!")|'{3}(?s:.)*?'{3,5}(?!')|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''',
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]*[^,\]}#\r\n \t]")
_COMMENT = re.compile(r"[ \t]*#[ \t]?([^\r\n]*)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands, as offsets into the text."""

    line: int
    """Counted from 1."""
    start: int
    """First character of the value; of a table, of its header."""
    end: int
    """Behind the last one."""
    comment: str = ""
    """What the comment behind it on the same line says."""
    header: bool = False
    """A table that has a header of its own."""


def places(text: str) -> dict[Path, Place]:
    """Every table, key and list item of a valid TOML text, in the text's order.

    What cannot be placed is left out: a missing line number must not hide a problem.
    """
    walk = _Walk(text)
    with contextlib.suppress(IndexError, RecursionError, ValueError):
        walk.document()
    return walk.found


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1 if text.startswith("\ufeff") else 0
        self.found: dict[Path, Place] = {}
        self._lists: dict[Path, int] = {}
        self._line_at, self._line = 0, 1

    def document(self) -> None:
        table: Path = ()
        self._skip(_FILL)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_FILL)

    def _header(self) -> Path:
        start = self.at
        many = self.text.startswith("[[", start)
        self.at += 2 if many else 1
        *above, last = self._key()
        path: Path = ()
        for part in above:
            self._note((*path, part), start, start)
            path = self._current((*path, part))
        path = (*path, last)
        if many:
            self._lists[path] = self._lists.get(path, -1) + 1
            self._note(path, start, start)
        path = self._current(path)
        self.at += 2 if many else 1
        self._note(path, start, self.at, header=True)
        return path

    def _current(self, path: Path) -> Path:
        """The last table of a list of tables, which is the one that further headers mean."""
        return (*path, self._lists[path]) if path in self._lists else path

    def _pair(self, table: Path) -> None:
        start = self.at
        parts = self._key()
        for n in range(1, len(parts)):
            self._note((*table, *parts[:n]), start, start)
        self.at += 1  # the equals sign
        self._skip(_BLANK)
        self._value((*table, *parts), start)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            self._skip(_BLANK)
            found = _KEY.match(self.text, self.at)
            if found is None:
                raise ValueError(self.at)
            self.at = found.end()
            parts.append(_unquoted(found[0]))
            self._skip(_BLANK)
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _value(self, path: Path, named_at: int) -> None:
        start = self.at
        opening = self.text[start]
        self._note(path, named_at, start)  # before what is in it, to keep the text's order
        if opening == "[":
            self._items(path)
        elif opening == "{":
            self._inline(path)
        else:
            found = (_TEXT if opening in "\"'" else _SCALAR).match(self.text, start)
            if found is None:
                raise ValueError(start)
            self.at = found.end()
        comment = _COMMENT.match(self.text, self.at)
        self.found[path] = Place(
            self.found[path].line, start, self.at, comment[1].strip() if comment else ""
        )

    def _items(self, path: Path) -> None:
        self.at += 1
        index = 0
        while self._next() != "]":
            self._value((*path, index), self.at)
            index += 1
        self.at += 1

    def _inline(self, path: Path) -> None:
        self.at += 1
        while self._next() != "}":
            self._pair(path)
        self.at += 1

    def _next(self) -> str:
        self._skip(_FILL)
        if self.text[self.at] == ",":
            self.at += 1
            self._skip(_FILL)
        return self.text[self.at]

    def _skip(self, what: re.Pattern[str]) -> None:
        found = what.match(self.text, self.at)
        assert found is not None  # both patterns match nothing, too
        self.at = found.end()

    def _note(self, path: Path, start: int, end: int, *, header: bool = False) -> None:
        self._line += self.text.count("\n", self._line_at, start)
        self._line_at = max(self._line_at, start)
        self.found.setdefault(path, Place(self._line, start, end, "", header))
        if header:
            self.found[path] = Place(self._line, start, end, "", header)


def _unquoted(key: str) -> str:
    if key[0] == "'":
        return key[1:-1]
    if key[0] == '"':
        import tomllib

        return str(tomllib.loads(f"key = {key}")["key"])
    return key
