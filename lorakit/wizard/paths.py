"""Paths as people type and paste them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lorakit.bundle.paths import resolve


def tidy(text: str, folder: Path) -> str:
    """A typed or pasted path without what is not part of it.

    That is: spaces and quotes around it, a slash at its end, `file://` before it, and the
    backslashes that a terminal puts before spaces when a folder is dropped on it. `folder` is what
    a relative path counts from.
    """
    path = text.strip()
    if len(path) > 1 and path[0] == path[-1] and path[0] in "'\"":
        path = path[1:-1].strip()
    if path.startswith("file://"):
        path = _from_url(path)
    if "\\" in path and not os.path.exists(resolve(path, folder)):
        unescaped = re.sub(r"\\(.)", r"\1", path)
        if os.path.exists(resolve(unescaped, folder)):
            path = unescaped
    return path.rstrip("/") or path[:1]


def complete(text: str, folder: Path, files: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    """The text, completed as far as the folders there are agree, and the names that could follow.

    A text that is one folder's whole name gets its slash. `files`: files whose names end so count
    as well.
    """
    above, _, start = text.rpartition("/")
    prefix = text[: len(text) - len(start)]
    if text in ("~", ".", ".."):
        return f"{text}/", []
    place = resolve(above or prefix or ".", folder)
    names = [n for n in _names(place, files) if n.startswith(start)]
    if not start.startswith("."):
        names = [n for n in names if not n.startswith(".")]
    if not names:
        return text, []
    common = os.path.commonprefix(names)  # noqa: RUF071 - what is typed is characters
    if len(names) == 1:
        is_file = os.path.isfile(os.path.join(place, common))
        return f"{prefix}{common}" + ("" if is_file else "/"), []
    return prefix + common, names


def _names(path: str, files: tuple[str, ...]) -> list[str]:
    try:
        with os.scandir(path) as entries:
            ends = {e.name: bool(files) and e.name.lower().endswith(files) for e in entries}
            return sorted(n for n in ends if ends[n] or os.path.isdir(os.path.join(path, n)))
    except OSError:
        return []


def _from_url(text: str) -> str:
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(text).path)
