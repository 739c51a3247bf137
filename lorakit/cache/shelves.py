"""Folders of the cache, one for each encoder: what they are for, who uses them, taking them away.

    CACHE/latents/ID/*.safetensors    what a VAE said of pictures
    CACHE/text/ID/*.safetensors       what text encoders said of captions

Whoever writes or reads in a folder holds its file `.lock` locked for all; who takes it away, for
nobody else. When that file was written last is when the folder was used last.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from lorakit import durable
from lorakit.cache import shards

Kind = Literal["latents", "text"]
KINDS: tuple[Kind, ...] = ("latents", "text")
LOCK = ".lock"

ABANDONED_SECONDS = 3600
"""Other machines write here too, and locks may not reach them: what is younger is left alone."""


def place(root: Path, kind: Kind, encoder: str) -> Path:
    """The folder of an encoder; `encoder` says all that its bits depend on."""
    return root / kind / hashlib.blake2b(encoder.encode(), digest_size=8).hexdigest()


def hold(folder: Path) -> BinaryIO:
    """Mark a folder as in use for as long as the returned file is open; it is made if need be.

    Raises OSError where it cannot be made or written.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            file = (folder / LOCK).open("ab")
        except FileNotFoundError:
            continue  # taken away between these two lines
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_SH)
        if _is(file, folder / LOCK):
            os.utime(file.fileno())
            return file
        file.close()


def _is(file: BinaryIO, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


def sweep(root: Path) -> None:
    """Remove what killed processes were writing."""
    for folder in _folders(root):
        durable.sweep(folder, ABANDONED_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What the folder of one encoder holds."""

    folder: Path
    kind: Kind
    bases: tuple[str, ...]
    """Base models that entries were made for, as their bundles call them."""
    entries: int
    size_bytes: int
    files: int
    damaged: int
    """Files that cannot be read."""
    used: float
    """When it was used last, unix seconds."""
    in_use: bool


def shelves(root: Path) -> list[Shelf]:
    """All folders that hold anything, the one used last first. Reads headers only."""
    found = [_look(folder, kind) for kind in KINDS for folder in _folders(root, kind)]
    held = [s for s in found if s.files or s.damaged]
    return sorted(held, key=lambda s: (-s.used, str(s.folder)))


def _folders(root: Path, *kinds: Kind) -> Iterator[Path]:
    for kind in kinds or KINDS:
        # An earlier layout had a file for each entry, in folders of two letters.
        yield from sorted(p for p in (root / kind).glob("?" * 16) if p.is_dir())


def _look(folder: Path, kind: Kind) -> Shelf:
    bases, entries, damaged, size, used = set(), 0, 0, 0, 0.0
    paths = shards.files(folder)
    for path in paths:
        try:
            facts = path.stat()
            size, used = size + facts.st_size, max(used, facts.st_mtime)
            told, _ = shards.header(path)
        except (shards.Damaged, OSError):
            damaged += 1
            continue
        bases.add(str(told["__metadata__"].get("base", "")))
        entries += len({key.rpartition(".")[0] for key in told}) - 1
    with contextlib.suppress(OSError):
        used = max(used, (folder / LOCK).stat().st_mtime)
    return Shelf(
        folder=folder,
        kind=kind,
        bases=tuple(sorted(bases)),
        entries=entries,
        size_bytes=size,
        files=len(paths) - damaged,
        damaged=damaged,
        used=used,
        in_use=_in_use(folder),
    )


def _in_use(folder: Path) -> bool:
    with _alone(folder) as alone:
        return not alone


def clear(shelf: Shelf) -> int | None:
    """Take a folder away; returns the bytes that are free then, None where it is in use.

    Raises OSError.
    """
    freed = 0
    with _alone(shelf.folder) as alone:
        if not alone:
            return None
        for path in shards.files(shelf.folder):
            size = path.stat().st_size
            path.unlink()
            freed += size
        durable.sweep(shelf.folder)
        (shelf.folder / LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something of somebody else's is in it
            shelf.folder.rmdir()
    return freed


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether nobody uses a folder, and for the block nobody begins to."""
    lock = folder / LOCK
    try:
        file = lock.open("r+b")  # over NFS only who may write can lock
    except FileNotFoundError:
        yield True
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            unknown = error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
            yield unknown and time.time() - lock.stat().st_mtime > ABANDONED_SECONDS
            return
        yield True
