"""Digests of a base's files. Those of large ones are kept in lorakit's cache: reading some GB at
every start takes as long as some steps of training."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from functools import cache
from pathlib import Path

from lorakit import durable
from lorakit.bundle.paths import cache_folder
from lorakit.families.components import WEIGHTS, weights_of

FOLDER = "digests"
"""In lorakit's cache: one JSON file for each large file of a base."""

LARGE_BYTES = 2**20
"""What is smaller is read as quickly as what is kept of it."""

SETTLED_NS = 2 * 10**9
"""A file that has just been changed may change again within a tick of the file system's clock."""


def digest(folder: Path, *parts: str, anew: bool = False) -> str:
    """sha256 over the configuration and weights of some parts of a pipeline.

    Weights that are there and not loaded, such as a second precision, have no part in it. Names
    count relative to the folder, so the digest is the same wherever the folder lies. A large file
    is read only where its size, times or inode are not those it had when it was read last; `anew`:
    each is read.
    """
    whole = hashlib.sha256()
    for part in sorted(parts):
        weights = weights_of(folder, part) if part in WEIGHTS else {}
        for file in sorted((folder / part).iterdir()):
            spare = bool(weights) and file.suffix == ".safetensors" and file not in weights
            if file.suffix in (".json", ".txt", ".safetensors") and not spare:
                whole.update(f"{part}/{file.name}\0".encode())
                whole.update(bytes.fromhex(_sha256(file, anew)))
    return whole.hexdigest()


def _sha256(file: Path, anew: bool) -> str:
    stamp = _stamp(file)
    path, size = os.path.realpath(file), stamp[0]
    if size < LARGE_BYTES:
        return _read(path, stamp)
    kept = cache_folder() / FOLDER / f"{hashlib.sha256(os.fsencode(path)).hexdigest()}.json"
    told = {"path": path, "stamp": list(stamp)}
    if not anew:
        with contextlib.suppress(OSError, ValueError):
            entry = json.loads(kept.read_bytes())
            found = entry.pop("sha256") if isinstance(entry, dict) and "sha256" in entry else ""
            if entry == told and re.fullmatch(r"[0-9a-f]{64}", str(found)):
                return str(found)
    found = _read(path, stamp)
    settled = time.time_ns() - max(stamp[1:3]) > SETTLED_NS
    with contextlib.suppress(OSError):
        if settled and _stamp(file) == stamp:
            kept.parent.mkdir(parents=True, exist_ok=True)
            durable.write(kept, json.dumps({**told, "sha256": found}, indent=1).encode())
    return found


def _stamp(file: Path) -> tuple[int, int, int, int]:
    """What changes where a file's content does: bytes, two times in ns, inode."""
    facts = file.stat()
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino


@cache
def _read(path: str, stamp: tuple[int, ...]) -> str:
    """The sha256 of a file; a process reads it once while its stamp stays."""
    with open(path, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
