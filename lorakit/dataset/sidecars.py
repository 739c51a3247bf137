"""What lies beside pictures: captions and boxes, read from wherever they are.

Captions come from the first of these that holds any: `dog.txt`, `dog.caption`, `dog.json`, and the
table of the innermost folder that names the picture, `metadata.jsonl` before `metadata.csv`. A box
comes from `dog.json`, else from a table.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lorakit.bundle.models import Captions
from lorakit.dataset import captions, encodings, entries, metadata
from lorakit.dataset.entries import Box, Entry
from lorakit.dataset.folders import Contents
from lorakit.dataset.metadata import Table
from lorakit.errors import ExitCode, LorakitError

MAX_JSON_BYTES = 1024**2

LONELY = "beside no picture of its name"
"""Why a file of one caption is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """What lies beside one picture."""

    captions: tuple[str, ...] = ()
    """On one line each, without trigger; several where one is drawn each time."""
    box: Box | None = None
    """What must stay in sight."""
    name: str | None = None
    """The file that the captions are from, relative to the source; None: there are none."""
    empty: tuple[str, ...] = ()
    """Files that should hold a caption and hold none."""
    unlike: tuple[str, ...] = ()
    """Files that say something else and are not used."""
    broken: tuple[tuple[str, LorakitError], ...] = ()
    """Files that cannot be read, with what is wrong."""


class Reader:
    """Reads the captions of one source's pictures, each picture's when it is asked for.

    Tables are read at once. Answers do not depend on order, and may be asked for by threads.
    """

    def __init__(self, folder: Path, contents: Contents, settings: Captions) -> None:
        self._folder, self._contents, self._settings = folder, contents, settings
        self.tables: list[Table] = []
        """In the order in which they are believed."""
        self.broken: list[tuple[str, LorakitError]] = []
        """Tables that cannot be read."""
        for name in metadata.tables(contents.others):
            try:
                self.tables.append(metadata.read(folder, name, settings.separator))
            except LorakitError as error:
                self.broken.append((name, error))

    @cached_property
    def _json(self) -> dict[str, str]:
        """The `.json` file beside each picture that has one."""
        stems: dict[str, str] = {}
        for name in self._contents.others:
            stem, suffix = os.path.splitext(name)
            if suffix.lower() == ".json":
                stems.setdefault(stem, name)
        stem_of = {picture: os.path.splitext(picture)[0] for picture in self._contents.pictures}
        return {picture: stems[stem] for picture, stem in stem_of.items() if stem in stems}

    @cached_property
    def used(self) -> frozenset[str]:
        """Those of the folder's other files that are read here, after all."""
        tables = metadata.tables(self._contents.others)
        return frozenset([*self._json.values(), *tables])

    @cached_property
    def astray(self) -> dict[str, list[str]]:
        """For each table the pictures that it names and that are not there."""
        there = set(self._contents.pictures)
        lost = {t.name: [n for n in t.entries if n not in there] for t in self.tables}
        return {name: names for name, names in lost.items() if names}

    @property
    def unread(self) -> dict[str, str]:
        """Tables of a kind that is not read, with the reason."""
        names = [n for n in self._contents.others if n not in self.used]
        return {n: why for n in names if (why := why_unused(n)) and why != LONELY}

    def files(self, picture: str) -> tuple[str, ...]:
        """The files beside a picture that are read for it, tables aside."""
        own = [self._json[picture]] if picture in self._json else []
        return (*self._contents.captions.get(picture, ()), *own)

    def of(self, picture: str) -> Sidecar:
        """What lies beside a picture; files that cannot be read are part of the answer."""
        said: list[tuple[str, Entry]] = []
        broken = []
        for name in self.files(picture):
            try:
                said.append((name, self._entry(name)))
            except LorakitError as error:
                broken.append((name, error))
        said += [(t.name, t.entries[picture]) for t in self.tables if picture in t.entries]
        first = next(((n, e.captions) for n, e in said if e.captions), (None, ()))
        return Sidecar(
            captions=first[1],
            box=next((e.box for _, e in said if e.box), None),
            name=first[0],
            empty=tuple(n for n, e in said if not e.captions and not e.box),
            unlike=tuple(n for n, e in said if e.captions and e.captions != first[1]),
            broken=tuple(broken),
        )

    def _entry(self, name: str) -> Entry:
        path = os.path.join(self._folder, name)
        if not name.lower().endswith(".json"):
            if self._settings.lines:
                return Entry(captions.read_lines(path))
            text = captions.read(path)
            return Entry((text,) if text else ())
        try:
            text = encodings.read(path, MAX_JSON_BYTES, "caption")
            return entries.entry(entries.load(text), self._settings.separator)
        except ValueError as error:
            raise LorakitError(
                f"{os.path.basename(name)} {error}.",
                "Mend it, or rename it if it belongs to no picture.",
                ExitCode.DATA,
            ) from None


def why_unused(name: str) -> str | None:
    """Why a file that may be meant to hold captions is not read; None for other files."""
    base = posixpath.basename(name).lower()
    stem, suffix = posixpath.splitext(base)
    if base == "metadata.parquet":
        return "a Parquet table, which is not read; metadata.jsonl and metadata.csv are"
    if suffix == ".json" and stem.startswith("meta_"):
        return "metadata of other trainers, which is not read; metadata.jsonl is"
    if suffix in (*captions.SUFFIXES, ".json"):
        return LONELY
    return None
