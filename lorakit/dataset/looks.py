"""Looks at many pictures, each to its end, in parallel, unless an earlier scan has seen it."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path

from lorakit.dataset.alike import Impression
from lorakit.dataset.pictures import Seen, examine, readers
from lorakit.dataset.remembered import AT_ONCE, Memory, facts_of, settled
from lorakit.errors import ExitCode, LorakitError

AHEAD = 4
"""Pictures that wait for each thread: enough to keep it busy, and no more is held."""

TRIES = 3
"""So often a picture is read that changes meanwhile: its size must not be of other bytes than its
digest."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one file holds."""

    seen: Seen
    sha256: str


def looks(paths: Iterable[str], fresh: bool = False) -> Generator[Look | LorakitError]:
    """A look at each file, in their order; what is wrong with one is a value, so that all are
    found.

    With `fresh`, every file is read, and what was seen before is not asked for.
    """
    # Pillow decodes without Python's lock, and a process would have to be started for each core.
    workers = min(32, cores())
    memory = Memory(readers())
    waiting: deque[_Begun] = deque()
    pool = ThreadPoolExecutor(workers)
    rest = iter(paths)
    try:
        while some := list(itertools.islice(rest, AT_ONCE)):
            for begun in _recalled(some, memory, fresh):
                path, facts, look = begun
                if look is None and facts is not None:
                    look = pool.submit(_read, path, facts)
                waiting.append((path, facts, look))
                while len(waiting) > AHEAD * workers:
                    yield _ended(*waiting.popleft()[1:], memory)
        while waiting:
            yield _ended(*waiting.popleft()[1:], memory)
    finally:  # also where who asked has left: what is queued need not be read
        pool.shutdown(cancel_futures=True)
        memory.close()


_Told = tuple[Look | LorakitError, bool]
"""A look, and whether it holds for as long as the file looks the same."""


_Begun = tuple[str, os.stat_result | None, Look | LorakitError | Future[_Told] | None]
"""A file, what the system says of it, and what is known of it by now."""


def _recalled(paths: list[str], memory: Memory, fresh: bool) -> list[_Begun]:
    """What is known of files without opening them."""
    facts: list[os.stat_result | LorakitError] = []
    for path in paths:
        try:
            facts.append(os.stat(path))
        except OSError as error:
            facts.append(_unreadable(path, error))
    there = [f for f in facts if not isinstance(f, LorakitError)]
    told = iter([None] * len(there) if fresh else memory.recall(there))
    return [
        (path, None, f) if isinstance(f, LorakitError) else (path, f, _look_of(next(told)))
        for path, f in zip(paths, facts, strict=True)
    ]


def _ended(
    facts: os.stat_result | None,
    look: Look | LorakitError | Future[_Told] | None,
    memory: Memory,
) -> Look | LorakitError:
    if not isinstance(look, Future):
        assert look is not None
        return look
    told, stayed = look.result()
    if facts is not None and stayed and isinstance(told, Look):
        memory.keep(facts, _plain(told))
    return told


def _read(path: str, before: os.stat_result) -> _Told:
    """One picture, in a thread of the pool."""
    try:
        for again in range(TRIES):
            before = os.stat(path) if again else before
            seen = examine(Path(path))
            with open(path, "rb") as file:
                look = Look(seen, hashlib.file_digest(file, "sha256").hexdigest())
                after = os.fstat(file.fileno())
            if facts_of(after) == facts_of(before):
                # Asked here: by the time that it is its turn to be remembered, much may have
                # happened.
                return look, not again and settled(after)
    except LorakitError as error:
        return error, False
    except OSError as error:
        return _unreadable(path, error), False
    name = os.path.basename(path)
    return LorakitError(
        f"{name} changes while it is read.", "Wait until it is written.", ExitCode.DATA
    ), False


def _unreadable(path: str, error: OSError) -> LorakitError:
    name = os.path.basename(path)
    return LorakitError(
        f"{name} cannot be read: {error.strerror}.", "Allow reading it.", ExitCode.DATA
    )


def _plain(look: Look) -> object:
    seen = look.seen
    return [
        look.sha256, seen.width, seen.height, seen.turned, list(seen.notes),
        list(astuple(seen.impression)), seen.alpha,
    ]  # fmt: skip


def _look_of(told: object) -> Look | None:
    match told:
        case [
            str() as sha256,
            int() as width,
            int() as height,
            bool() as turned,
            list() as notes,
            [int() as bits, int() as red, int() as green, int() as blue],
            "none" | "some" | "all" as alpha,
        ]:
            seen = Seen(
                width=width,
                height=height,
                turned=turned,
                notes=tuple(map(str, notes)),
                impression=Impression(bits, red, green, blue),
                alpha=alpha,
            )
            return Look(seen, sha256)
    return None


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
