"""What earlier scans saw, so that a picture that has not changed is not decoded again.

A file is known by device, inode, size and the two times of its last change: one is the content's,
which programs set back as they like, the other the system's own. One that changed within the last
seconds is not remembered: it may change again and look the same to the clock. Whatever goes wrong
with this memory, a damaged file or a full disk, only means that more is looked at.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lorakit.bundle.paths import cache_folder

FILE = "scans.sqlite"

LAYOUT = 2
"""Goes up with every change of the table. One of another layout is dropped."""

_TABLE = (
    "create table if not exists looks (device int, inode int, version text, size int,"
    " changed_ns int, touched_ns int, met int, look text, primary key (device, inode))"
    " without rowid"
)

RACY_NS = 2_000_000_000
"""Younger files are not remembered: FAT keeps times to two seconds, ext4 to a few milliseconds."""

KEPT_SECONDS = 180 * 86400
"""What no scan has come across for so long is forgotten."""

AT_ONCE = 500
"""Files that are asked for in one go: SQLite takes 999 values in a question, and a question for
each file takes longer than the answer."""

BATCH_SECONDS = 5.0
"""What was seen is written at least as often."""


class Memory:
    """One scan's access to it; several processes may have theirs at once."""

    def __init__(self, version: str, path: Path | None = None) -> None:
        self._path = path or cache_folder() / FILE
        self._version = version
        self._now = int(time.time())
        self._new: list[tuple[object, ...]] = []
        self._met: list[tuple[int, int, int]] = []
        self._written = time.monotonic()
        self._database: sqlite3.Connection | None = None
        with contextlib.suppress(sqlite3.Error, OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._open()

    def _open(self) -> None:
        self._database = sqlite3.connect(self._path, timeout=1.0, isolation_level=None)
        with self._mending():
            # WAL would leave two more files beside it, and does not work on network drives.
            self._database.execute("pragma synchronous = off")
            [[layout]] = self._database.execute("pragma user_version").fetchall()
            if layout != LAYOUT:
                self._database.execute("begin immediate")
                self._database.execute("drop table if exists looks")
                self._database.execute(_TABLE)
                self._database.execute(f"pragma user_version = {LAYOUT}")
                self._database.execute("commit")

    @contextlib.contextmanager
    def _mending(self) -> Iterator[None]:
        """Errors inside end here. A damaged memory is removed, so that the next scan begins a new
        one; a full disk, or somebody who is writing for long, only passes it by."""
        try:
            yield
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                if self._database is not None and self._database.in_transaction:
                    self._database.execute("rollback")
            if type(error) is sqlite3.DatabaseError:  # its subclasses tell of everything else
                with contextlib.suppress(sqlite3.Error, OSError):
                    if self._database is not None:
                        self._database.close()
                    self._path.unlink()
                self._database = None

    def recall(self, files: Sequence[os.stat_result]) -> list[object | None]:
        """What was seen of each file with these facts, as it was given to `keep`; None: nothing.

        At most `AT_ONCE` files.
        """
        keys = [facts_of(f) for f in files]
        if self._database is None or not keys:
            return [None] * len(files)
        by_key: dict[tuple[int, ...], object] = {}
        marks = ",".join("?" * len(keys))
        with self._mending():
            for device in {key[0] for key in keys}:
                rows = self._database.execute(
                    "select device, inode, size, changed_ns, touched_ns, met, look from looks"
                    f" where device = ? and version = ? and inode in ({marks})",
                    (device, self._version, *(key[1] for key in keys)),
                )
                for *key, met, look in rows:
                    with contextlib.suppress(ValueError, TypeError):
                        by_key[tuple(key)] = json.loads(look)
                        if self._now - met > KEPT_SECONDS / 10:
                            self._met.append((self._now, key[0], key[1]))
        return [by_key.get(key) for key in keys]

    def keep(self, facts: os.stat_result, look: object) -> None:
        """Remember what was seen of a file that had these facts before and after it was read, and
        was `settled` then."""
        device, inode, *rest = facts_of(facts)
        self._new.append((device, inode, self._version, *rest, self._now, json.dumps(look)))
        if time.monotonic() - self._written > BATCH_SECONDS:
            self._write()

    def close(self) -> None:
        """Write what is new, and forget what nobody has come across for long."""
        self._write()
        if self._database is None:
            return
        with self._mending():
            self._database.execute("delete from looks where met < ?", (self._now - KEPT_SECONDS,))
        if self._database is not None:
            self._database.close()
            self._database = None

    def _write(self) -> None:
        self._written = time.monotonic()
        new, met = self._new, self._met
        self._new, self._met = [], []
        if self._database is None or not (new or met):
            return
        with self._mending():
            self._database.execute("begin immediate")
            self._database.executemany(
                "insert or replace into looks values (?, ?, ?, ?, ?, ?, ?, ?)", new
            )
            self._database.executemany(
                "update looks set met = ? where device = ? and inode = ?", met
            )
            self._database.execute("commit")


def settled(file: os.stat_result) -> bool:
    """Whether a file that is changed from now on will not look as it does."""
    return time.time_ns() - file.st_mtime_ns >= RACY_NS


def facts_of(file: os.stat_result) -> tuple[int, ...]:
    """What the system says of a file, while it stays as it is."""
    return (
        _signed(file.st_dev), _signed(file.st_ino), file.st_size, file.st_mtime_ns, file.st_ctime_ns
    )  # fmt: skip


def _signed(number: int) -> int:
    """As SQLite holds it, in 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number
