"""Brings one file of the Hub into the Hub's own cache, from where an earlier try ended.

The Hub's client begins a file anew after a kill, and after a dropped connection that it does not
know to be one; base models are too large for that. So bytes are asked for here, by plain HTTP, and
put where the client looks for them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from lorakit import durable
from lorakit.errors import ExitCode, LorakitError
from lorakit.families import hub, hub_cache
from lorakit.families.hub import File, Listing, Say, Stop, Stopped
from lorakit.families.refusals import BUSY, WAITS_SECONDS, status, told

TICK_SECONDS = 0.2
"""How often it is told what has arrived, and looked whether someone asks to stop."""


def _blob(listing: Listing, file: File) -> Path:
    return hub_cache.repository(listing.model) / "blobs" / file.blob


def _partial(blob: Path) -> Path:
    """Where bytes arrive. Older clients use the same name, and all of them the same lock."""
    return blob.with_name(f"{blob.name}.incomplete")


def here(listing: Listing, file: File) -> int:
    """How many bytes of a file are there already."""
    blob = _blob(listing, file)
    pointer = hub_cache.repository(listing.model) / "snapshots" / listing.commit / file.name
    if os.path.exists(blob) or os.path.exists(pointer):
        return file.size_bytes
    try:
        return min(os.path.getsize(_partial(blob)), file.size_bytes)
    except OSError:
        return 0


def fetch(listing: Listing, file: File, at: Callable[[int], None], say: Say, stop: Stop) -> None:
    """Have one file in the cache, and its name in the snapshot."""
    blob, repository = _blob(listing, file), hub_cache.repository(listing.model)
    pointer = repository / "snapshots" / listing.commit / file.name
    if os.path.exists(pointer):
        return
    lock = hub_cache.folder() / ".locks" / repository.name / f"{file.blob}.lock"
    try:
        for folder in (lock.parent, blob.parent, pointer.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with _locked(lock, lambda: at(here(listing, file)), say, stop):
            if not os.path.exists(blob):
                _arrive(listing, file, _partial(blob), at, say, stop)
                os.replace(_partial(blob), blob)
            _link(blob, pointer)
    except OSError as error:
        raise LorakitError(
            f"{file.name} of {listing.model} cannot be kept in {hub_cache.folder()}:"
            f" {error.strerror or error}.",
            "Make room, allow writing there, or let the Hub's cache live elsewhere: HF_HOME=FOLDER."
            " What has arrived is kept.",
            ExitCode.DATA,
        ) from error


class _Arriving:
    """A file that grows, with the digest of what it holds."""

    def __init__(self, out: BinaryIO, file: File) -> None:
        self._out, self._file = out, file
        self.have = 0
        self.cut(min(os.fstat(out.fileno()).st_size, file.size_bytes))

    def cut(self, size: int) -> None:
        """Keep so many bytes of it."""
        self._out.truncate(size)
        self._out.seek(0)
        git = b"blob %d\0" % self._file.size_bytes
        self._digest = hashlib.sha256() if self._file.sha256 else hashlib.sha1(git)
        while some := self._out.read(2**20):
            self._digest.update(some)
        self.have = size

    def add(self, some: bytes) -> None:
        """Write more of it."""
        self._out.write(some)
        self._digest.update(some)
        self.have += len(some)

    @property
    def is_whole(self) -> bool:
        """Whether it is what the Hub says that it is."""
        known = len(self._file.blob) in (40, 64)
        return self.have == self._file.size_bytes and (
            not known or self._digest.hexdigest() == self._file.blob
        )


def _arrive(
    listing: Listing, file: File, path: Path, at: Callable[[int], None], say: Say, stop: Stop
) -> None:
    """Bytes from the Hub until a file is whole, from where it is on. Raises OSError for the disk,
    LorakitError and Stopped."""
    with path.open("r+b" if path.exists() else "w+b") as out:
        growing = _Arriving(out, file)
        for again in (True, False):
            _fill(listing, file, growing, at, say, stop)
            if growing.is_whole:
                return
            growing.cut(0)
            if again:
                say(f"{file.name} arrived damaged: from its beginning again")
        raise LorakitError(
            f"{file.name} of {listing.model} arrived damaged twice: its bytes are not those that"
            " the Hub names.",
            "Something on the way changes them, such as a proxy. Try another network.",
            ExitCode.TRAINING_FAILED,
        )


def _fill(
    listing: Listing,
    file: File,
    growing: _Arriving,
    at: Callable[[int], None],
    say: Say,
    stop: Stop,
) -> None:
    """Ask for the rest of a file, again after what may pass: a bounded number of times without a
    new byte."""
    tries, ticked = 0, time.monotonic()
    while growing.have < file.size_bytes:
        before = growing.have
        try:
            with hub.opened(listing, file, growing.have) as (start, parts):
                if start != growing.have:  # the server knows no ranges
                    growing.cut(start)
                for some in parts:
                    _add(growing, some)
                    if time.monotonic() - ticked > TICK_SECONDS:
                        ticked = time.monotonic()
                        at(min(growing.have, file.size_bytes))
                        if stop():
                            raise Stopped
            if growing.have < file.size_bytes:
                raise ConnectionError("the connection ended early")
        except _DiskError as error:
            raise error.why from error
        except Stopped:
            raise
        except Exception as error:
            tries = 0 if growing.have > before else tries
            answer = status(error)
            if (answer is not None and answer not in BUSY) or tries == len(WAITS_SECONDS):
                raise told(error, listing.model, listing.commit) from error
            hub.pause(error, WAITS_SECONDS[tries], say, stop)
            tries += 1


class _DiskError(Exception):
    """A disk that refuses, told apart from the network, whose errors are of the same kind."""

    def __init__(self, why: OSError) -> None:
        self.why = why


def _add(growing: _Arriving, some: bytes) -> None:
    try:
        growing.add(some)
    except OSError as error:
        raise _DiskError(error) from error


@contextlib.contextmanager
def _locked(path: Path, waiting: Callable[[], None], say: Say, stop: Stop) -> Iterator[None]:
    """Hold the lock that the Hub's client takes for the same file, where locks are to be had."""
    told = False
    while True:
        with path.open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    told = True
                    say("another program is downloading the same file: waiting for it")
                hub.sleep(0.5, stop)
                waiting()
                continue
            except OSError:  # a file system without locks
                yield
                return
            with contextlib.suppress(OSError):
                if os.stat(path).st_ino != os.fstat(lock.fileno()).st_ino:
                    continue  # its holder has taken it away with it
            yield
            return


def _link(blob: Path, pointer: Path) -> None:
    """Name a blob in a snapshot; where the file system has no links, it lies there itself."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(pointer)
    try:
        os.symlink(os.path.relpath(blob, pointer.parent), pointer)
    except OSError:
        os.replace(blob, pointer)


def name_commit(listing: Listing, revision: str) -> None:
    """Let a revision that was asked for mean this commit, as the Hub's client does."""
    name = revision or "main"
    if name == listing.commit or ".." in name.split("/") or name.startswith("/"):
        return
    ref = hub_cache.repository(listing.model) / "refs" / name
    with contextlib.suppress(OSError):
        ref.parent.mkdir(parents=True, exist_ok=True)
        durable.write(ref, listing.commit.encode())
