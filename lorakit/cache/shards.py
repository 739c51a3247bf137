"""Entries, many to a file: safetensors files that are complete or absent.

An entry is one or more fp32 tensors under a name of 16 bytes, which says all that it depends on.
In a file they are called `NAME.PART`, the name in hexadecimal, and lie one behind the other. What
the files hold is known from their headers alone; an entry is one read of its own bytes.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from lorakit import durable

SUFFIX = ".safetensors"
MAX_BYTES = 64 * 2**20
MAX_ENTRIES = 4096
"""A file holds no more than this, and the writer as much in memory."""

MAX_SECONDS = 5.0
"""What a kill may cost: entries that are older than this are on the disk."""

OPEN_FILES = 32
"""How many files a reader keeps open."""

_MAX_HEADER = 100 * 2**20


class Damaged(Exception):
    """A file that is not a whole safetensors file of entries. Says why."""


@dataclass(frozen=True, slots=True)
class Part:
    """One fp32 tensor of an entry."""

    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview
    """Little-endian, row by row."""


class Writer:
    """Collects entries and writes them, a file at a time. Not for use by several threads.

    Raises OSError; what could not be written is lost then, and nothing else.
    """

    def __init__(self, folder: Path, about: Mapping[str, str]) -> None:
        self._folder, self._about = folder, dict(about)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._waiting: dict[bytes, Mapping[str, Part]] = {}
        self._bytes, self._since = 0, time.monotonic()

    def add(self, name: bytes, parts: Mapping[str, Part]) -> None:
        """Take an entry in, and write a file where it is full or due."""
        self._waiting[name] = parts
        self._bytes += sum(len(p.data) for p in parts.values())
        late = time.monotonic() - self._since >= MAX_SECONDS
        if late or self._bytes >= MAX_BYTES or len(self._waiting) >= MAX_ENTRIES:
            self.flush()

    def flush(self) -> None:
        """Write what waits, if anything does."""
        waiting = self._waiting
        self._begin_anew()
        if waiting:
            self._folder.mkdir(parents=True, exist_ok=True)
            with durable.replacing(self._folder / (secrets.token_hex(8) + SUFFIX)) as file:
                file.write(_header(waiting, self._about))
                for parts in waiting.values():
                    for part in parts.values():
                        file.write(part.data)


def _header(entries: Mapping[bytes, Mapping[str, Part]], about: Mapping[str, str]) -> bytes:
    told: dict[str, Any] = {"__metadata__": dict(about)}
    end = 0
    for name, parts in entries.items():
        for key, part in parts.items():
            begin, end = end, end + len(part.data)
            told[f"{name.hex()}.{key}"] = {
                "dtype": "F32",
                "shape": list(part.shape),
                "data_offsets": [begin, end],
            }
    text = json.dumps(told, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def header(path: Path) -> tuple[dict[str, Any], int]:
    """(header, where its data begin) of a file. Raises Damaged, and OSError where it is gone."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, _MAX_HEADER):
            raise Damaged(f"a header of {length} bytes in a file of {size}")
        try:
            told = json.loads(file.read(length))
        except ValueError:
            raise Damaged("its header is no JSON") from None
    if not isinstance(told, dict) or not isinstance(told.get("__metadata__"), dict):
        raise Damaged("its header says nothing of its entries")
    return told, 8 + length


def files(folder: Path) -> list[Path]:
    """The files of a folder; none where it is not there."""
    try:
        found = [e.name for e in os.scandir(folder) if e.name.endswith(SUFFIX)]
    except OSError:
        return []
    return [folder / name for name in sorted(found)]


_Place = tuple[str, tuple[int, ...], int, int]
Layout = tuple[_Place, ...]
"""Of each part of an entry: its key, its shape, and where it begins and ends in the entry."""


class Index:
    """Where the entries of a folder are; about 150 bytes of memory each.

    Files that are damaged are left out, and named in `damaged` with the reason.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.damaged: dict[Path, str] = {}
        self._files: list[Path] = []
        self._rows: dict[bytes, int] = {}
        self._file, self._layout, self._begin = array("I"), array("H"), array("Q")
        self._layouts: list[Layout] = []
        self._numbers: dict[Layout, int] = {}
        self._open: OrderedDict[int, FileIO] = OrderedDict()
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Take in files that have been added."""
        known = {*self._files, *self.damaged}
        for path in files(self._folder):
            if path in known:
                continue
            try:
                self._take(path)
            except Damaged as why:
                self.damaged[path] = str(why)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.damaged[path] = error.strerror or str(error)

    def __contains__(self, name: bytes) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self, name: bytes) -> tuple[str, ...]:
        """The parts that an entry has. Raises KeyError."""
        return tuple(part[0] for part in self._layouts[self._layout[self._rows[name]]])

    def where(self, name: bytes) -> Path:
        """The file that holds an entry. Raises KeyError."""
        return self._files[self._file[self._rows[name]]]

    def read(self, name: bytes) -> dict[str, Part]:
        """An entry. Raises KeyError where there is none, OSError where its file is gone or cut."""
        row = self._rows[name]
        layout = self._layouts[self._layout[row]]
        data = bytearray(layout[-1][3])
        with self._lock:
            got = os.preadv(self._opened(self._file[row]).fileno(), [data], self._begin[row])
        if got != len(data):
            raise OSError(f"{self.where(name)} ends in the middle of an entry")
        whole = memoryview(data)
        return {key: Part(shape, whole[begin:end]) for key, shape, begin, end in layout}

    def close(self) -> None:
        """Let the files go."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _opened(self, number: int) -> FileIO:
        file = self._open.pop(number, None) or FileIO(self._files[number])
        self._open[number] = file
        if len(self._open) > OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return file

    def _take(self, path: Path) -> None:
        told, data = header(path)
        del told["__metadata__"]
        room = path.stat().st_size - data
        number, found = len(self._files), []
        try:
            for name, parts in _entries(told):
                first = parts[0][2]
                layout = tuple((k, shape, b - first, e - first) for k, shape, b, e in parts)
                if parts[-1][3] > room:
                    raise Damaged(f"{parts[-1][3]} bytes of entries promised, {room} there")
                found.append((name, self._numbered(layout), data + first))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Damaged("its header is not one of entries") from None
        self._files.append(path)
        for name, layout_number, begin in found:
            if name not in self._rows:
                self._rows[name] = len(self._begin)
                self._file.append(number)
                self._layout.append(layout_number)
                self._begin.append(begin)

    def _numbered(self, layout: Layout) -> int:
        number = self._numbers.get(layout)
        if number is None:
            number = self._numbers[layout] = len(self._layouts)
            self._layouts.append(layout)
        return number


def _entries(told: Mapping[str, Any]) -> Iterator[tuple[bytes, list[_Place]]]:
    """The entries of a header: parts of one stand behind each other, and lie so."""
    last, end = "", 0
    parts: list[_Place] = []
    for full, tensor in told.items():
        name, _, key = full.rpartition(".")
        begin, behind = tensor["data_offsets"]
        count = 4
        for side in tensor["shape"]:
            count *= side
        if tensor["dtype"] != "F32" or begin != end or behind - begin != count or count < 4:
            raise ValueError(full)
        if name != last:
            if parts:
                yield bytes.fromhex(last), parts
            last, parts = name, []
        parts.append((key, tuple(tensor["shape"]), begin, behind))
        end = behind
    if parts:
        yield bytes.fromhex(last), parts
