"""Writes planned changes to captions, and takes them back: the old texts are kept beside them."""

from __future__ import annotations

import base64
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorakit import durable
from lorakit.dataset.edits import Edit, Plan
from lorakit.errors import ExitCode, LorakitError

FOLDER = ".lorakit-captions"
"""In each folder of pictures. Its name begins with a dot, so no scan looks into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One change that was made."""

    path: Path
    folder: Path
    """Of the pictures."""
    what: str
    when: float
    """Unix seconds."""
    edits: tuple[Edit, ...]


def apply(plan: Plan) -> Entry | None:
    """Make a change; None where there is nothing to do.

    The old texts are on the disk before the first file changes. Raises LorakitError (code DATA)
    where a file is not as it was when the change was planned, and then nothing is written, or
    where one cannot be written, and then `undo` takes back those that were.
    """
    if not plan.edits:
        return None
    moved = [e.name for e in plan.edits if _now(plan.folder / e.name) != e.before]
    if moved:
        raise LorakitError(
            f"{_named(moved)} changed since the difference was shown; nothing was written.",
            "Look at the difference again.",
            ExitCode.DATA,
        )
    shelf = plan.folder / FOLDER
    entry = Entry(
        path=shelf / f"{_next(shelf):06d}.json",
        folder=plan.folder,
        what=plan.what,
        when=time.time(),
        edits=plan.edits,
    )
    try:
        shelf.mkdir(exist_ok=True)
        durable.sweep(shelf)
        durable.write(entry.path, json.dumps(_as_dict(entry)).encode("ascii"))
        for edit in plan.edits:
            durable.write(plan.folder / edit.name, edit.after)
    except OSError as error:
        raise LorakitError(
            f"{error.filename or plan.folder} cannot be written: {error.strerror or error}.",
            "Allow writing there. What was changed before it, lorakit captions undo takes back.",
            ExitCode.DATA,
        ) from error
    return entry


def last(folder: Path) -> Entry | None:
    """The newest change in a folder that has not been taken back.

    Raises LorakitError (code DATA) where it cannot be read.
    """
    shelf = folder / FOLDER
    names = _names(shelf)
    if not names:
        return None
    path = shelf / names[-1]
    try:
        return _entry(path, folder, json.loads(path.read_text(encoding="ascii")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LorakitError(
            f"{path} cannot be read: {error}.",
            "Move it away; the change before it can be taken back then.",
            ExitCode.DATA,
        ) from None


def changed_since(entry: Entry) -> list[str]:
    """Names of the files that somebody has changed after it."""
    return [e.name for e in entry.edits if _now(entry.folder / e.name) not in (e.after, e.before)]


def undo(entry: Entry, *, force: bool = False) -> int:
    """Take a change back; returns how many files have their old text again.

    Raises LorakitError (code DATA) where files were changed after it, unless `force` is given.
    """
    moved = changed_since(entry)
    if moved and not force:
        raise LorakitError(
            f"{_named(moved)} changed after that; nothing was taken back.",
            "--force puts the old text there all the same, and what is there now is lost.",
            ExitCode.DATA,
        )
    count = 0
    try:
        for edit in entry.edits:
            path = entry.folder / edit.name
            if _now(path) == edit.before:
                continue
            if edit.before is None:
                path.unlink()
            else:
                durable.write(path, edit.before)
            count += 1
        entry.path.unlink()
        if not _names(entry.path.parent):
            entry.path.parent.rmdir()
    except OSError as error:
        raise LorakitError(
            f"{error.filename or entry.folder} cannot be written: {error.strerror or error}.",
            "Allow writing there, and undo again.",
            ExitCode.DATA,
        ) from error
    return count


def _now(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _names(shelf: Path) -> list[str]:
    try:
        return sorted(n for n in os.listdir(shelf) if n.endswith(".json"))
    except OSError:
        return []


def _next(shelf: Path) -> int:
    numbers = [int(n[:-5]) for n in _names(shelf) if n[:-5].isascii() and n[:-5].isdigit()]
    return max(numbers, default=0) + 1


def _named(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _as_dict(entry: Entry) -> dict[str, Any]:
    return {
        "what": entry.what,
        "when": entry.when,
        "edits": [
            {
                "name": edit.name,
                "before": None if edit.before is None else _letters(edit.before),
                "after": _letters(edit.after),
            }
            for edit in entry.edits
        ],
    }


def _entry(path: Path, folder: Path, data: dict[str, Any]) -> Entry:
    return Entry(
        path=path,
        folder=folder,
        what=str(data["what"]),
        when=float(data["when"]),
        edits=tuple(
            Edit(
                name=_inside(row["name"]),
                before=None if row["before"] is None else base64.b64decode(row["before"]),
                after=base64.b64decode(row["after"]),
            )
            for row in data["edits"]
        ),
    )


def _inside(name: str) -> str:
    """A name that stays in the folder: the file may have come with pictures of a stranger."""
    if os.path.isabs(name) or ".." in name.split("/"):
        raise ValueError(f"it names {name}, outside the folder")
    return name


def _letters(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
