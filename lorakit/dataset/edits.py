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
from lorakit.errors import ExitCode, LorakitError

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
    """In the encoding that it has; UTF-8 where it is new."""

    @property
    def old(self) -> str:
        """Its text; empty where it is not there yet."""
        return "" if self.before is None else _text(self.before)

    @property
    def new(self) -> str:
        """Its text afterwards."""
        return _text(self.after)


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
    """Files that cannot be read as a caption, or may not be changed."""
    elsewhere: int = 0
    """Pictures whose captions stand in a `.json` file or a table, which no change reaches."""


def trigger(words: str, separator: str = ", ") -> Change:
    """Puts words before a caption that does not hold them. Raises LorakitError for no words."""
    words = captions.folded(words)
    if not words:
        raise LorakitError("There is no trigger.", "Name the words to put before each caption.")

    def change(text: str) -> str:
        if captions.holds(text, words):
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
    """Leaves out tags, whole and in any case of letters; what stands between the others stays.

    Raises LorakitError for no tag.
    """
    unwanted = {_plain(tag) for tag in tags} - {""}
    if not unwanted:
        raise LorakitError("There is no tag to leave out.", "Name one.")

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
        change(line) if line.strip() else line for line in re.split(r"([\r\n]+)", text)
    )


def plan(folder: Path, what: str, change: Change) -> Plan:
    """What a change does to the captions below a folder; `what` is the change in words.

    Only a picture's first caption file counts, as in training.
    """
    found = folders.walk(folder)
    reader = Reader(folder, found, Captions())
    elsewhere = [n for n in found.pictures if n not in found.captions and reader.of(n).captions]
    edits, refused, same = [], [], 0
    for name in sorted({names[0] for names in found.captions.values()}):
        try:
            before = _read(folder / name)
            text = change(_text(before))
            after = _encoded(text, before)
        except LorakitError as error:
            refused.append(error)
            continue
        if text == _text(before):
            same += 1
        elif os.stat(folder / name).st_mode & 0o222:
            edits.append(Edit(name=name, before=before, after=after))
        else:
            refused.append(_read_only(folder / name))
    return Plan(
        folder=folder,
        what=what,
        edits=tuple(edits),
        same=same,
        refused=tuple(refused),
        elsewhere=len(elsewhere),
    )


def fill(folder: Path) -> Plan:
    """Captions for the pictures that have none, each from the name of its folder.

    The number of repeats that such a name may begin with is left out: `40_ohwx man` gives
    `ohwx man`. Where a file that may hold captions cannot be read, that is refused: what is written
    would be used in its place.
    """
    found = folders.walk(folder)
    edits: dict[str, Edit] = {}
    reader = Reader(folder, found, Captions())
    refused = [error for _, error in reader.broken]
    same = 0
    for name in found.pictures:
        beside = reader.of(name)
        if name in found.captions or beside.captions:
            same += 1
            continue
        if beside.broken:
            refused += [error for _, error in beside.broken]
            continue
        stem = os.path.splitext(name)[0]
        named = Path(folder / name).parent.name
        said = captions.folded((repeated(named) or (1, named))[1])
        target = f"{stem}{captions.SUFFIXES[0]}"
        try:
            after = said.encode("utf-8")
        except UnicodeEncodeError:
            refused.append(LorakitError(f"The folder {named} is not UTF-8.", "Rename it."))
            continue
        if said:
            edits[target] = Edit(name=target, before=None, after=after)
    return Plan(
        folder=folder,
        what="write missing captions from the folder's name",
        edits=tuple(edits.values()),
        same=same,
        refused=tuple({str(e): e for e in refused}.values()),
    )


def tags(folder: Path, separator: str = ",") -> Counter[str]:
    """How many captions below a folder hold each tag, wherever they stand; files that cannot be
    read are left out."""
    counts = Counter[str]()
    found = folders.walk(folder)
    reader = Reader(folder, found, Captions())
    for name in found.pictures:
        for text in reader.of(name).captions:
            pieces = map(captions.folded, text.split(separator))
            counts.update({piece for piece in pieces if piece})
    return counts


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Folders without those that lie in another of them, and so are changed with it."""
    places = list(dict.fromkeys(path.resolve() for path in paths))
    return [p for p in places if not any(other in p.parents for other in places)]


def _plain(tag: str) -> str:
    return captions.folded(tag).casefold()


def _read(path: Path) -> bytes:
    """The bytes of a caption file. Raises LorakitError where it is none, as the scan does."""
    captions.read(path)
    return path.read_bytes()


def _read_only(path: Path) -> LorakitError:
    return LorakitError(f"{path} is read-only.", "Allow writing to it: chmod u+w.", ExitCode.DATA)


def _encoded(text: str, like: bytes) -> bytes:
    """The text as bytes, with the byte order mark of the file that it was read from."""
    marks = {
        codecs.BOM_UTF16_LE: "utf-16-le",
        codecs.BOM_UTF16_BE: "utf-16-be",
        codecs.BOM_UTF8: "utf-8",
    }
    mark = next((mark for mark in marks if like.startswith(mark)), b"")
    try:
        return mark + text.encode(marks.get(mark, "utf-8"))
    except UnicodeEncodeError:
        raise LorakitError(
            "What was typed is not UTF-8.", "Set the terminal to UTF-8, and type it again."
        ) from None


def _text(raw: bytes) -> str:
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return raw.decode("utf-16" if wide else "utf-8-sig")
