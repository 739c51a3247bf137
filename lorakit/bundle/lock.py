"""The lock: what a run really used. Written by lorakit at the end of a bundle, never by hand."""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from lorakit.bundle import layout, syntax
from lorakit.bundle.document import document
from lorakit.bundle.section import Section
from lorakit.errors import LorakitError


class LockedDataset(Section):
    """The pictures and captions that were learned from."""

    digest: str = ""
    """sha256 over names, bytes, captions and repeats."""

    pictures: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """One text a picture: its name, then the starts of the sha256 of its file and its caption."""


class LockedBase(Section):
    """The base model."""

    digest: str = ""
    """sha256 over the configurations and weights that training uses. Empty: it is not here."""

    revision: str = ""
    """Commit of a Hub id."""


class LockedHardware(Section):
    """The machine. What it does not have or tell is empty."""

    device: str = ""
    """The card by name, or CPU."""

    cpu: str = ""
    """Name of the processor."""

    capability: str = ""
    """Compute capability of the card, or the instruction set that PyTorch uses on the CPU."""

    driver: str = ""
    """Version of the card's driver."""

    cuda: str = ""
    """Version of CUDA or ROCm that PyTorch is built for."""


class Result(Section):
    """What came out."""

    digest: str
    """sha256 over the adapter's sorted tensors."""

    step: int
    """The step it is from."""


class Lock(Section):
    """What a run really used."""

    lorakit: str
    """Version of lorakit."""

    run: str = ""
    """Name of the run that wrote this."""

    settings: str = ""
    """sha256 over the settings that the result follows from."""

    threads: int
    """Threads of the CPU: another number of them gives other last digits."""

    attention: str
    """Whose attention served: that of PyTorch (sdpa) or xformers."""

    kernel: str = ""
    """The kernels that PyTorch chose for the attention of this training, such as flash."""

    determinism: Literal["bytes", "statistics"]
    """What a replay gives where nothing differs: the same bytes, or the same within noise."""

    why: str = ""
    """The reason for it, in words."""

    changed: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """What was changed on the way, and after which step: settings, and what else was found to
    differ. The rest of the lock, and the bundle, have it as it was in the end, and so has a replay
    from its start."""

    versions: Annotated[dict[str, str], Field(default_factory=dict)]
    """Of Python and of the libraries."""

    dataset: LockedDataset = LockedDataset()
    base: LockedBase = LockedBase()
    hardware: LockedHardware = LockedHardware()

    result: Result | None = None
    """Absent until the run is done."""


class LockedPicture(NamedTuple):
    """A line of `LockedDataset.pictures`."""

    name: str
    """Relative to its source, with the source's index before it where there are several."""
    sha256: str
    """The start of it, of the file."""
    caption_sha256: str
    """The start of it, of the captions with the trigger."""

    @classmethod
    def read(cls, line: str) -> LockedPicture:
        """The parts of a line; what is missing is empty."""
        name, _, caption = line.rpartition(" ")
        name, _, picture = name.rpartition(" ")
        return cls(name, picture, caption)

    def __str__(self) -> str:
        return " ".join(self)


def with_lock(text: str, lock: Lock) -> str:
    """A bundle's text with this lock at its end, in the place of one that is there.

    Every other character stays. Raises BundleError where the text is no TOML, LorakitError where
    a lock cannot be put into it.
    """
    data = syntax.load(text)
    end_of_line = "\r\n" if "\r\n" in text else "\n"
    kept = _without_lock(text)
    if kept and not kept.endswith("\n"):
        kept += end_of_line
    tables = {"lock": lock.model_dump(exclude_none=True)}
    written = document(tables)
    locked = kept + end_of_line + written.replace("\n", end_of_line)
    wanted = {**{k: v for k, v in data.items() if k != "lock"}, **syntax.load(written)}
    with contextlib.suppress(LorakitError):
        if syntax.load(locked) == wanted:
            return locked
    raise LorakitError("The lock has no place in this file.", "Take its old lock out by hand.")


def _without_lock(text: str) -> str:
    """The text without the lines of its lock, what is between them, and the blank line before."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    starts = list(accumulate(map(len, lines), initial=0))
    mine: set[int] = set()
    others: set[int] = set()
    for path, place in layout.places(text).items():
        last = bisect_right(starts, max(place.start, place.end - 1)) - 1
        (mine if path[0] == "lock" else others).update(range(place.line - 1, last + 1))
    for first, last in pairwise(sorted(mine)):
        if others.isdisjoint(range(first, last)):
            mine.update(range(first, last))  # comments and blank lines
    above = min(mine, default=0) - 1
    if above >= 0 and not lines[above].strip():
        mine.add(above)
    return "".join(line for number, line in enumerate(lines) if number not in mine)
