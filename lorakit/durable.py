"""Files that are complete or absent, whatever cuts their writing off.

What is being written has a name of its own, `.ANYTHING.part`, and its writer holds it locked. So
what a killed process left behind can be told from what another one is writing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PREFIX, SUFFIX = ".", ".part"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` once the block has ended well.

    It is on the disk by then, and has the mode of a file that was there. Raises OSError; after any
    error `path` is as it was.
    """
    file = _claimed(path.parent)
    part = Path(file.name)
    try:
        with file:
            with contextlib.suppress(OSError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write(path: Path, data: bytes) -> None:
    """Put `data` in the place of a file in one step. Raises OSError, and then it is as it was."""
    with replacing(path) as file:
        file.write(data)


def sync(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def leftovers(folder: Path) -> list[Path]:
    """What is being written in a folder, or was when its writer was killed."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(folder / n for n in names if n.startswith(PREFIX) and n.endswith(SUFFIX))


def sweep(folder: Path, older_than_seconds: float = 0) -> None:
    """Remove what killed processes have left in a folder; what is being written stays.

    Only files are locked by who writes them: where there may be folders of such a name, nobody else
    may be at work.
    """
    for path in leftovers(folder):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            if time.time() - facts.st_mtime < older_than_seconds:
                continue
            if stat.S_ISDIR(facts.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            elif stat.S_ISREG(facts.st_mode):
                with path.open("r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


def _claimed(folder: Path) -> BinaryIO:
    """A new file, locked as long as it is open."""
    while True:
        file = (folder / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}").open("xb")
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(file.name):
            return file
        file.close()  # a sweep came before the lock
