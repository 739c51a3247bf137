"""Digests of a base's files. Those of large ones are kept in lorakit's cache: reading some GB at
every start takes as long as some steps of training."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from lorakit import durable
from lorakit.bundle.paths import cache_folder
from lorakit.families import single_file
from lorakit.families.components import WEIGHTS, weights_of
from lorakit.families.header import Stored

FOLDER = "digests"
"""In lorakit's cache: one JSON file for each large file of a base."""

LARGE_BYTES = 2**20
"""What is smaller is read as quickly as what is kept of it."""

CHUNK_BYTES = 2**20

SETTLED_NS = 2 * 10**9
"""A file that has just been changed may change again within a tick of the file system's clock."""


def digest(base: Path, *parts: str, anew: bool = False) -> str:
    """sha256 over the configuration and weights of some parts of a base, in a folder or one file.

    Weights that are there and not loaded, such as a second precision, have no part in it. Names
    count relative to the folder, so the digest is the same wherever the base lies; of one file it
    follows from the parts alone, so that files which share a VAE share its digest. A large file is
    read only where its size, times or inode are not those it had when it was read last; `anew`:
    each is read.
    """
    if os.path.isfile(base):
        return _of_file(base, parts, anew)
    whole = hashlib.sha256()
    for part in sorted(parts):
        weights = weights_of(base, part) if part in WEIGHTS else {}
        for file in sorted((base / part).iterdir()):
            spare = bool(weights) and file.suffix == ".safetensors" and file not in weights
            if file.suffix in (".json", ".txt", ".safetensors") and not spare:
                whole.update(f"{part}/{file.name}\0".encode())
                whole.update(bytes.fromhex(_sha256(file, anew)))
    return whole.hexdigest()


def _of_file(file: Path, parts: Sequence[str], anew: bool) -> str:
    """Over configurations, and tensors by their sorted names. Pickles do not say where a tensor
    lies: of them the whole file is read."""
    opened, whole = single_file.opened(file), hashlib.sha256()
    for part in sorted(parts):
        config = json.dumps(dict(opened.configs.get(part, {})), sort_keys=True)
        whole.update(f"{part}\0{config}\0".encode())
        if part in WEIGHTS:
            pickled = not opened.header.offsets
            named = {} if pickled else opened.tensors(part)
            whole.update(bytes.fromhex(_sha256(file, anew, tuple(sorted(named.items())))))
    return whole.hexdigest()


Tensors = tuple[tuple[str, Stored], ...]


def _sha256(file: Path, anew: bool, tensors: Tensors = ()) -> str:
    """Of a whole file, or of some tensors in it."""
    stamp = _stamp(file)
    path, size = os.path.realpath(file), stamp[0]
    if size < LARGE_BYTES:
        return _read(path, stamp, tensors)
    some = hashlib.sha256(repr(tensors).encode()).hexdigest() if tensors else ""
    named = hashlib.sha256(os.fsencode(path) + some.encode()).hexdigest()
    kept = cache_folder() / FOLDER / f"{named}.json"
    told = {"path": path, "stamp": list(stamp), **({"tensors": some} if some else {})}
    if not anew:
        with contextlib.suppress(OSError, ValueError):
            entry = json.loads(kept.read_bytes())
            found = entry.pop("sha256") if isinstance(entry, dict) and "sha256" in entry else ""
            if entry == told and re.fullmatch(r"[0-9a-f]{64}", str(found)):
                return str(found)
    found = _read(path, stamp, tensors)
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
def _read(path: str, stamp: tuple[int, ...], tensors: Tensors) -> str:
    """The sha256 of a file or of tensors in it; a process reads it once while its stamp stays."""
    with open(path, "rb") as opened:
        if not tensors:
            return hashlib.file_digest(opened, "sha256").hexdigest()
        whole = hashlib.sha256()
        for name, tensor in tensors:
            whole.update(f"{name}\0{tensor.dtype}\0{tensor.shape}\0".encode())
            opened.seek(tensor.start)
            left = tensor.end - tensor.start
            while left and (some := opened.read(min(left, CHUNK_BYTES))):
                whole.update(some)
                left -= len(some)
        return whole.hexdigest()
