"""What the names of folders say: each folder of a kind of its own becomes a source."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import ValidationError

from lorakit.bundle.models import Captions, Source
from lorakit.dataset import folders
from lorakit.dataset.sidecars import Reader
from lorakit.errors import ExitCode, LorakitError

_REPEATED = re.compile(r"([1-9][0-9]{0,3})_(.*\S.*)", re.DOTALL)


def repeated(name: str) -> tuple[int, str] | None:
    """Repeats and subject in a folder's name such as `40_ohwx man`, as kohya's trainer wants it.

    The number is a plain one, 1 to 9999; None where the name is an ordinary one.
    """
    found = _REPEATED.fullmatch(name)
    return (int(found[1]), found[2].strip()) if found else None


def layout(folder: Path) -> tuple[Source, ...]:
    """The sources that a folder is: itself, however nested, or one for each `40_ohwx man` in it.

    Such a name gives the repeats, and the trigger where none of its pictures has a caption. It
    counts for all folders below, and may be that of the given folder itself. Pictures outside of
    such folders are a source too, of one repeat. Raises LorakitError where a bundle cannot name a
    folder.
    """
    if repeated(os.path.basename(os.path.abspath(folder))):
        return (_named(folder),)
    if not folder.is_dir():
        return (_source(folder),)
    inside = folders.walk(folder)
    outermost: list[str] = []
    for name in inside.folders:
        if repeated(os.path.basename(name)) and not f"{name}/".startswith(_below(outermost)):
            outermost.append(name)
    rest = [name for name in inside.pictures if not name.startswith(_below(outermost))]
    own = (_source(folder),) if rest or not outermost else ()
    return (*own, *(_named(folder / name) for name in outermost))


def _below(names: list[str]) -> tuple[str, ...]:
    return tuple(f"{name}/" for name in names)


def _named(folder: Path) -> Source:
    said = repeated(os.path.basename(os.path.abspath(folder)))
    assert said is not None
    return _source(folder, said[0], "" if _captioned(folder) else said[1])


def _captioned(folder: Path) -> bool:
    """Whether any picture below has a caption."""
    if not folder.is_dir():
        return False
    inside = folders.walk(folder)
    reader = Reader(folder, inside, Captions())
    return any(reader.of(name).captions for name in inside.pictures)


def _source(folder: Path, repeats: int = 1, trigger: str = "") -> Source:
    try:
        return Source(path=str(folder), repeats=repeats, trigger=trigger)
    except ValidationError:
        raise LorakitError(
            f"The path {folder} holds a control character or is not UTF-8, so no bundle can name "
            "it.",
            "Rename the folder.",
            ExitCode.DATA,
        ) from None
