"""Writes planned changes to captions, and takes them back: the old texts are kept beside them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
from collections.abc import Iterable
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


def apply(*plans: Plan) -> tuple[Entry, ...]:
    """Make one change in one or several folders; an entry for each in which there is something to
    do.

    All old texts are on the disk before the first file changes; a link stays one, and what it leads
    to changes. Raises LorakitError (code DATA) where a file is not as it was when the change was
    planned, and then nothing is written, or where one cannot be written, and then `undo` takes back
    those that were.
    """
    plans = tuple(plan for plan in plans if plan.edits)
    moved = [e.name for p in plans for e in p.edits if _now(p.folder / e.name) != e.before]
    if moved:
        raise LorakitError(
            f"{_named(moved)} changed since the difference was shown; nothing was written.",
            "Look at the difference again.",
            ExitCode.DATA,
        )
    now = time.time()
    entries = tuple(
        Entry(
            path=plan.folder / FOLDER / f"{_next(plan.folder / FOLDER):06d}.json",
            folder=plan.folder,
            what=plan.what,
            when=now,
            edits=plan.edits,
        )
        for plan in plans
    )
    try:
        for entry in entries:
            entry.path.parent.mkdir(exist_ok=True)
            durable.sweep(entry.path.parent)
            durable.write(entry.path, json.dumps(_as_dict(entry)).encode("ascii"))
        for entry in entries:
            for place in {(entry.folder / edit.name).parent for edit in entry.edits}:
                durable.sweep(place)  # what a kill has left of an earlier change
            for edit in entry.edits:
                _write(entry.folder / edit.name, edit.after)
    except OSError as error:
        raise LorakitError(
            f"{error.filename or 'A caption'} cannot be written: {error.strerror or error}.",
            "Allow writing there. What was changed before it, lorakit captions undo takes back.",
            ExitCode.DATA,
        ) from error
    return entries


def newest(folders: Iterable[Path]) -> tuple[Entry, ...]:
    """The last change that was made in any of some folders: an entry for each that it changed.

    Raises what `last` raises.
    """
    entries = [entry for folder in folders if (entry := last(folder))]
    when = max((entry.when for entry in entries), default=None)
    return tuple(entry for entry in entries if entry.when == when)


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


def undo(*entries: Entry, force: bool = False) -> int:
    """Take a change back; returns how many files have their old text again.

    Raises LorakitError (code DATA) where files were changed after it, unless `force` is given, and
    then none is touched.
    """
    moved = [name for entry in entries for name in changed_since(entry)]
    if moved and not force:
        raise LorakitError(
            f"{_named(moved)} changed after that; nothing was taken back.",
            "--force puts the old text there all the same, and what is there now is lost.",
            ExitCode.DATA,
        )
    return sum(map(_undo, entries))


def _undo(entry: Entry) -> int:
    count = 0
    try:
        for edit in entry.edits:
            path = entry.folder / edit.name
            if _now(path) == edit.before:
                continue
            if edit.before is None:
                path.unlink()
            else:
                _write(path, edit.before)
            count += 1
        entry.path.unlink()
    except OSError as error:
        raise LorakitError(
            f"{error.filename or entry.folder} cannot be written: {error.strerror or error}.",
            "Allow writing there, and undo again.",
            ExitCode.DATA,
        ) from error
    if not _names(entry.path.parent):
        durable.sweep(entry.path.parent)
        with contextlib.suppress(OSError):  # somebody else has put something there
            entry.path.parent.rmdir()
    return count


def _write(path: Path, data: bytes) -> None:
    durable.write(Path(os.path.realpath(path)), data)


def _now(path: Path) -> bytes | None:
    """What a file holds; None where there is none. Raises LorakitError where nobody can tell."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LorakitError(
            f"{path} cannot be read: {error.strerror or error}.",
            "Allow reading it.",
            ExitCode.DATA,
        ) from error


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
