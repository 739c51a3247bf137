"""Fetches from the Hub what training needs of a base, into the Hub's own cache.

The Hub's client begins a file anew after a kill, and after a dropped connection that it does not
know to be one; base models are too large for that. So bytes are asked for here, by plain HTTP and
from where the last ones ended, and put where the client looks for them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lorakit import durable
from lorakit.bundle.models import Base
from lorakit.errors import ExitCode, LorakitError
from lorakit.families import hub, hub_cache
from lorakit.families.components import WEIGHTS, choices, weighty
from lorakit.families.families import FAMILIES, Family
from lorakit.families.hub import File, Listing, Say, Stop, Stopped
from lorakit.families.locate import missing
from lorakit.families.pipelines import agree, family_of

Progress = Callable[[int, int], None]
"""Told how many bytes are there, and how many there will be."""

GIB = 2**30

TICK_SECONDS = 0.2
"""How often it is told what has arrived, and looked whether someone asks to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A base whose small files are there, and which is known to be one."""

    listing: Listing
    folder: Path
    """Its snapshot in the Hub's cache."""
    family: Family
    files: tuple[File, ...]
    """All that training needs, weights last: where these are there, the others are too."""


def begin(base: Base, say: Say, stop: Stop, settled: bool = True) -> Begun:
    """Ask the Hub for a base and fetch its configurations: enough to know that it can be had, and
    that it is of the family that the bundle says (where that is `settled`).

    Raises LorakitError, and Stopped.
    """
    listing = hub.ask(base.model, base.revision, missing(base), say, stop)
    files = {file.name: file for file in listing.files}
    first = ("model_index.json", "unet/config.json")
    if any(name not in files for name in first):
        raise _no_pipeline(listing)
    folder = hub_cache.repository(base.model) / "snapshots" / listing.commit
    for name in first:
        _fetch(listing, files[name], lambda have: None, say, stop)
    _name(listing, base.revision)
    found = family_of(folder)
    if found is None:
        raise LorakitError(
            f"The base model {base.model} is none of"
            f" {', '.join(f.title for f in FAMILIES.values())}.",
            "Choose a model of one of these families.",
        )
    if settled:
        agree(base, found)
    family = FAMILIES[found]
    chosen = _wanted(listing, family)
    return Begun(listing=listing, folder=folder, family=family, files=chosen)


def complete(
    begun: Begun, progress: Progress, say: Say, stop: Stop, reserve_bytes: int = 0
) -> Path:
    """Fetch all files of a base, the small ones first, and return its folder.

    Before the first one the disk has to have room for what is still to come and `reserve_bytes`
    more. Raises LorakitError, and Stopped: what has arrived is kept, and gone on from.
    """
    total = sum(file.size_bytes for file in begun.files)
    before = sum(_here(begun.listing, file) for file in begun.files)
    _check_room(begun, total - before, reserve_bytes)
    for note in _notes(begun):
        say(note)
    progress(before, total)
    for file in begun.files:
        rest = before - _here(begun.listing, file)

        def at(have: int, rest: int = rest) -> None:
            progress(rest + have, total)

        _fetch(begun.listing, file, at, say, stop)
        before = rest + file.size_bytes
        progress(before, total)
    return begun.folder


def wanted(names: list[str], family: Family) -> list[str]:
    """Those of a repository's files that training needs: configurations, then weights.

    Of weights in several precisions the full one; only safetensors. Raises LorakitError, to be
    completed by the name of the model, where a part has none.
    """
    split = [name.partition("/") for name in names]
    parted = [(part, file) for part, _, file in split if "/" not in file]
    chosen = ["model_index.json"]
    for part, file in parted:
        if part in family.parts and file.endswith((".json", ".txt")):
            chosen.append(f"{part}/{file}")
    for part in weighty(family):
        there = [file for folder, file in parted if folder == part]
        taken = next(choices(part, there), None)
        if taken is None:
            others = [file for file in there if not file.endswith((".json", ".txt"))]
            beside = f" There {'is' if len(others) == 1 else 'are'} {', '.join(others)}."
            raise LorakitError(
                f"has no safetensors weights in {part}.{beside if others else ''}",
                f"Expected {part}/{WEIGHTS[part]}.safetensors. Pickled weights are not read.",
            )
        chosen += [f"{part}/{file}" for file in taken]
    return chosen


def _wanted(listing: Listing, family: Family) -> tuple[File, ...]:
    files = {file.name: file for file in listing.files}
    try:
        names = wanted(list(files), family)
    except LorakitError as error:
        raise LorakitError(f"The base model {listing.model} {error.message}", error.hint) from None
    return tuple(
        sorted(
            (files[name] for name in names),
            key=lambda file: (file.name.endswith(".safetensors"), file.size_bytes),
        )
    )


def _notes(begun: Begun) -> Iterator[str]:
    """What was chosen where it is no matter of course."""
    for file in begun.files:
        if ".fp16" in file.name and file.name.endswith(".safetensors"):
            part, _, name = file.name.partition("/")
            yield f"{part}: only half precision is there, {name}"


def _no_pipeline(listing: Listing) -> LorakitError:
    single = [file for file in listing.files if re.fullmatch(r"[^/]+\.safetensors", file.name)]
    if not single:
        return LorakitError(
            f"{listing.model} is not a diffusers repository: it has no model_index.json with a"
            " UNet.",
            "Name a repository in the diffusers layout.",
        )
    largest = max(single, key=lambda file: file.size_bytes)
    return LorakitError(
        f"{listing.model} is not a diffusers repository, it holds single files: the largest is"
        f" {largest.name} ({largest.size_bytes / GIB:.1f} GiB).",
        f"Download one, and give its path: hf download {listing.model} {largest.name}",
    )


def _check_room(begun: Begun, to_come: int, reserve_bytes: int) -> None:
    free = _free_bytes(hub_cache.folder())
    if not to_come or free is None or to_come + reserve_bytes <= free:
        return
    kept = f" and {reserve_bytes / GIB:.1f} GiB are for what training caches" * bool(reserve_bytes)
    raise LorakitError(
        f"{begun.listing.model} needs {to_come / GIB:.2f} GiB more from the Hub{kept}, and"
        f" {free / GIB:.2f} GiB are free in {hub_cache.folder()}.",
        "Make room there, or let the Hub's cache live on another disk: HF_HOME=FOLDER.",
        ExitCode.DATA,
    )


def _free_bytes(folder: Path) -> int | None:
    """Free space where this folder is, or will be; None where the system does not say."""
    there = next((p for p in (folder, *folder.parents) if os.path.isdir(p)), None)
    try:
        return shutil.disk_usage(there).free if there else None
    except OSError:
        return None


def _blob(listing: Listing, file: File) -> Path:
    return hub_cache.repository(listing.model) / "blobs" / file.blob


def _partial(blob: Path) -> Path:
    """Where bytes arrive. Clients before version 2 use the same name, and the same lock."""
    return blob.with_name(f"{blob.name}.incomplete")


def _here(listing: Listing, file: File) -> int:
    """How many bytes of a file are there already."""
    blob = _blob(listing, file)
    pointer = hub_cache.repository(listing.model) / "snapshots" / listing.commit / file.name
    if os.path.exists(blob) or os.path.exists(pointer):
        return file.size_bytes
    try:
        return min(os.path.getsize(_partial(blob)), file.size_bytes)
    except OSError:
        return 0


def _fetch(listing: Listing, file: File, at: Callable[[int], None], say: Say, stop: Stop) -> None:
    """Have one file in the cache, and its name in the snapshot."""
    blob, repository = _blob(listing, file), hub_cache.repository(listing.model)
    pointer = repository / "snapshots" / listing.commit / file.name
    if os.path.exists(pointer):
        return
    lock = hub_cache.folder() / ".locks" / repository.name / f"{file.blob}.lock"
    try:
        for folder in (lock.parent, blob.parent, pointer.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with _locked(lock, lambda: at(_here(listing, file)), say, stop):
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
            answer = hub.status(error)
            if (answer is not None and answer not in hub.BUSY) or tries == len(hub.WAITS_SECONDS):
                raise hub.told(error, listing.model, listing.commit) from error
            hub.pause(error, hub.WAITS_SECONDS[tries], say, stop)
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


def _name(listing: Listing, revision: str) -> None:
    """Let a revision that was asked for mean this commit, as the Hub's client does."""
    name = revision or "main"
    if name == listing.commit or ".." in name.split("/") or name.startswith("/"):
        return
    ref = hub_cache.repository(listing.model) / "refs" / name
    with contextlib.suppress(OSError):
        ref.parent.mkdir(parents=True, exist_ok=True)
        durable.write(ref, listing.commit.encode())
