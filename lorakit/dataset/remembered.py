"""What earlier scans saw, so that a picture that has not changed is not decoded again.

A file is known by device, inode, size and time of its last change. One that changed within the
last seconds is not remembered: it may change again and look the same to the clock. Whatever goes
wrong with this memory, a damaged file or a full disk, only means that more is looked at.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from lorakit.bundle.paths import cache_folder

FILE = "scans.sqlite"

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

    def __init__(self, version: int, path: Path | None = None) -> None:
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
        made = sqlite3.connect(self._path, timeout=1.0, isolation_level=None)
        try:
            # WAL would leave two more files beside it, and does not work on network drives.
            made.execute("pragma synchronous = off")
            made.execute(
                "create table if not exists looks (device int, inode int, version int, size int,"
                " changed_ns int, met int, look text, primary key (device, inode)) without rowid"
            )
        except sqlite3.DatabaseError as error:
            made.close()
            if isinstance(error, sqlite3.OperationalError):  # somebody is writing
                raise
            self._path.unlink(missing_ok=True)
            return
        self._database = made

    def recall(self, files: Sequence[os.stat_result]) -> list[object | None]:
        """What was seen of each file with these facts, as it was given to `keep`; None: nothing.

        At most `AT_ONCE` files.
        """
        keys = [(_signed(f.st_dev), _signed(f.st_ino), f.st_size, f.st_mtime_ns) for f in files]
        if self._database is None or not keys:
            return [None] * len(files)
        by_key: dict[tuple[int, ...], object] = {}
        marks = ",".join("?" * len(keys))
        try:
            for device in {key[0] for key in keys}:
                rows = self._database.execute(
                    "select device, inode, size, changed_ns, met, look from looks"
                    f" where device = ? and version = ? and inode in ({marks})",
                    (device, self._version, *(key[1] for key in keys)),
                )
                for *key, met, look in rows:
                    by_key[tuple(key)] = json.loads(look)
                    if self._now - met > KEPT_SECONDS / 10:
                        self._met.append((self._now, key[0], key[1]))
        except (sqlite3.Error, ValueError, TypeError):
            return [None] * len(files)
        return [by_key.get(key) for key in keys]

    def keep(self, facts: os.stat_result, look: object) -> None:
        """Remember what was seen of a file that had these facts before and after it was read."""
        if time.time_ns() - facts.st_mtime_ns < RACY_NS:
            return
        self._new.append(
            (
                _signed(facts.st_dev), _signed(facts.st_ino), self._version, facts.st_size,
                facts.st_mtime_ns, self._now, json.dumps(look),
            )
        )  # fmt: skip
        if time.monotonic() - self._written > BATCH_SECONDS:
            self._write()

    def close(self) -> None:
        """Write what is new, and forget what nobody has come across for long."""
        self._write()
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute(
                    "delete from looks where met < ?", (self._now - KEPT_SECONDS,)
                )
            self._database.close()
            self._database = None

    def _write(self) -> None:
        self._written = time.monotonic()
        new, met = self._new, self._met
        self._new, self._met = [], []
        if self._database is None or not (new or met):
            return
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("begin immediate")
            try:
                self._database.executemany(
                    "insert or replace into looks values (?, ?, ?, ?, ?, ?, ?)", new
                )
                self._database.executemany(
                    "update looks set met = ? where device = ? and inode = ?", met
                )
                self._database.execute("commit")
            except BaseException:
                self._database.execute("rollback")
                raise


def _signed(number: int) -> int:
    """As SQLite holds it, in 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number
