"""Changes to caption files, planned before anything is written: what each file would become."""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from lorakit.bundle.models import Captions
from lorakit.dataset import captions, folders
from lorakit.dataset.layout import repeated
from lorakit.dataset.sidecars import Reader
from lorakit.errors import LorakitError

Change = Callable[[str], str]
"""What a caption becomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What one caption file becomes."""

    name: str
    """Relative to the folder of pictures, with `/`."""
    before: bytes | None
    """What it holds; None: it is not there yet."""
    after: bytes
    """UTF-8."""

    @property
    def old(self) -> str:
        """Its text; empty where it is not there yet."""
        return "" if self.before is None else _text(self.before)

    @property
    def new(self) -> str:
        """Its text afterwards."""
        return self.after.decode("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one change does to the captions of one folder."""

    folder: Path
    what: str
    """The change in words."""
    edits: tuple[Edit, ...]
    same: int
    """Caption files that the change leaves as they are."""
    refused: tuple[LorakitError, ...]
    """Files that cannot be read as a caption."""


def trigger(words: str, separator: str = ", ") -> Change:
    """Puts words before a caption that does not hold them."""
    words = words.strip()

    def change(text: str) -> str:
        if not words or captions.holds(text, words):
            return text
        return f"{words}{separator}{text}" if text.strip() else f"{words}{text}"

    return change


def replace(find: str, new: str, *, regex: bool = False, any_case: bool = False) -> Change:
    """Replaces each occurrence of a text, or of a regular expression, whose groups are `\\1`.

    Raises LorakitError where the expression is none.
    """
    if not find:
        raise LorakitError("There is nothing to find.", "Name the text to be replaced.")
    try:
        pattern = re.compile(find if regex else re.escape(find), re.IGNORECASE if any_case else 0)
        if regex:
            re.sub(pattern, new, "")  # a template is looked at in any case
            return lambda text: pattern.sub(new, text)
    except (re.error, IndexError) as error:
        raise LorakitError(
            f"This is no regular expression: {error}.", "Without --regex it is taken as it stands."
        ) from None
    return lambda text: pattern.sub(lambda _: new, text)


def remove(tags: Iterable[str], separator: str = ",") -> Change:
    """Leaves out tags, whole and in any case of letters; what stands between the others stays."""
    unwanted = {_plain(tag) for tag in tags} - {""}

    def change(text: str) -> str:
        body = text.rstrip()
        pieces = body.split(separator)
        kept = [piece for piece in pieces if _plain(piece) not in unwanted]
        if len(kept) == len(pieces):
            return text
        return separator.join(kept).lstrip() + text[len(body) :]

    return change


def each_line(change: Change) -> Change:
    """The change to each line of a file whose lines are captions of their own."""
    return lambda text: "".join(
        change(line) if line.strip() else line for line in text.splitlines(keepends=True)
    )


def plan(folder: Path, what: str, change: Change) -> Plan:
    """What a change does to the captions below a folder; `what` is the change in words.

    Only a picture's first caption file counts, as in training.
    """
    found = folders.walk(folder)
    edits, refused, same = [], [], 0
    for name in sorted({names[0] for names in found.captions.values()}):
        try:
            before = _read(folder / name)
            after = change(_text(before)).encode("utf-8")
        except LorakitError as error:
            refused.append(error)
            continue
        if after.decode("utf-8") == _text(before):
            same += 1
        else:
            edits.append(Edit(name=name, before=before, after=after))
    return Plan(folder=folder, what=what, edits=tuple(edits), same=same, refused=tuple(refused))


def fill(folder: Path) -> Plan:
    """Captions for the pictures that have none, each from the name of its folder.

    The number of repeats that such a name may begin with is left out: `40_ohwx man` gives
    `ohwx man`.
    """
    found = folders.walk(folder)
    edits: dict[str, Edit] = {}
    reader = Reader(folder, found, Captions())
    same = 0
    for name in found.pictures:
        if name in found.captions or reader.of(name).captions:
            same += 1
            continue
        stem = os.path.splitext(name)[0]
        named = Path(folder / name).parent.name
        said = (repeated(named) or (1, named.strip()))[1]
        if said:
            target = f"{stem}{captions.SUFFIXES[0]}"
            edits[target] = Edit(name=target, before=None, after=said.encode("utf-8", "replace"))
    return Plan(
        folder=folder,
        what="write missing captions from the folder's name",
        edits=tuple(edits.values()),
        same=same,
        refused=(),
    )


def tags(folder: Path, separator: str = ",") -> Counter[str]:
    """How many captions below a folder hold each tag; files that cannot be read are left out."""
    counts = Counter[str]()
    for names in folders.walk(folder).captions.values():
        try:
            text = captions.read(folder / names[0])
        except LorakitError:
            continue
        counts.update({tag for piece in text.split(separator) if (tag := captions.folded(piece))})
    return counts


def _plain(tag: str) -> str:
    return captions.folded(tag).casefold()


def _read(path: Path) -> bytes:
    """The bytes of a caption file. Raises LorakitError where it is none, as the scan does."""
    captions.read(path)
    return path.read_bytes()


def _text(raw: bytes) -> str:
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return raw.decode("utf-16" if wide else "utf-8-sig")
