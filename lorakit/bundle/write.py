"""Writes bundles: fully resolved, read back and compared before they replace a file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lorakit import durable
from lorakit.bundle import syntax
from lorakit.bundle.document import document
from lorakit.bundle.edit import edit
from lorakit.bundle.lock import Lock, with_lock
from lorakit.bundle.models import Bundle
from lorakit.bundle.read import parse
from lorakit.errors import ExitCode, LorakitError

__all__ = ["dump", "edit", "replace", "tables", "write", "write_lock"]


def tables(bundle: Bundle) -> dict[str, Any]:
    """A bundle as plain tables and values, by the names of the file, without what it lacks."""
    return bundle.model_dump(by_alias=True, exclude_none=True)


def dump(bundle: Bundle, reasons: Mapping[str, str] = {}) -> str:
    """A bundle as TOML, every value written out, with the reason for it as a comment behind it.

    `reasons` goes by dotted key. Raises LorakitError for a value that TOML cannot hold.
    """
    file = shlex.quote(f"{bundle.name}.toml")
    header = (
        f"# lorakit bundle. Train: lorakit train {file}\n"
        "# Every setting is written out; the comment behind one says why it was recommended.\n"
    )
    try:
        return header + document(tables(bundle), reasons)
    except ValueError as error:
        raise LorakitError(f"The bundle {bundle.name} cannot be written: {error}.") from None


def write(path: Path, bundle: Bundle, reasons: Mapping[str, str] = {}) -> None:
    """Write a bundle to a file, and make sure that it reads back as the same bundle.

    An existing file keeps its mode, and its content if anything fails. Raises LorakitError.
    """
    replace(path, dump(bundle, reasons), lambda text: parse(text, where=str(path)) == bundle)


def write_lock(path: Path, lock: Lock) -> None:
    """Put a lock into a bundle's file, in the place of one that is there. Raises LorakitError."""
    text = with_lock(syntax.read_text(path), lock)
    replace(path, text, lambda back: parse(back, where=str(path)).lock == lock)


def replace(path: Path, text: str, good: Callable[[str], bool]) -> None:
    """Put `text` in the place of a file in one step, once `good` has accepted what reads back.

    Raises LorakitError, and then the old file is as it was.
    """
    target = path.resolve()  # a link stays a link
    try:
        with durable.replacing(target) as file:
            file.write(text.encode())
            file.flush()
            if not good(syntax.read_text(Path(file.name))):
                raise LorakitError(
                    f"{path} was not written: what reads back differs.",
                    "Look for a value that is not a number.",
                )
    except OSError as error:
        reason = error.strerror or str(error)
        raise LorakitError(f"{path} cannot be written: {reason}.", code=ExitCode.DATA) from None
