"""What a command says and where: results on stdout, everything else on stderr."""

from __future__ import annotations

import io
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from lorakit.bundle.problems import Problem
    from lorakit.errors import LorakitError


def prepare() -> None:
    """A character that a stream cannot encode must never end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def out(*lines: str) -> None:
    """Print a result."""
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def out_json(value: Any) -> None:
    """Print a result as JSON, and nothing else. Paths and other objects become text."""
    out(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def err(*lines: str) -> None:
    """Print what is not the result."""
    for line in lines:
        sys.stderr.write(line + "\n")
    sys.stderr.flush()


def folded(
    text: str, first: str = "", rest: str = "", stream: TextIO | None = None, whole: bool = True
) -> list[str]:
    """A text in lines that fit the terminal, behind `first` and then `rest`; in one line where
    nobody looks on.

    What does not end as a sentence ends in a command, which is to be copied and stays `whole`.
    """
    stream = stream or sys.stdout
    if not stream.isatty() or (whole and not text.endswith(".")):
        return [first + text]
    room = max(shutil.get_terminal_size().columns - 1, len(rest) + 20)
    wrapped = textwrap.wrap(
        text,
        room,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,  # paths, names and commands are to be copied
        break_on_hyphens=False,
    )
    return wrapped or [first]


def report(error: LorakitError) -> None:
    """Print an error: one sentence, and the way out below it."""
    err(*_folded(f"lorakit: error: {error.message}"), *_indented(error.hint))


def problems(found: Iterable[Problem], path: str = "") -> None:
    """Print problems with the place of each, all at once, errors first."""
    for problem in sorted(found, key=lambda p: p.severity != "error"):
        line = f":{problem.line}" if problem.line is not None else ""
        where = f" {problem.where}:" if problem.where else ""
        place = f"{path}{line}:" if path else "lorakit:"
        what = f"{place} {problem.severity}:{where} {problem.what}"
        err(*_folded(what), *_indented(problem.fix))


def _indented(text: str) -> list[str]:
    lines = (_folded(line, "  ") for line in text.split("\n") if line)
    return [line for found in lines for line in found]


def _folded(text: str, indent: str = "") -> list[str]:
    return folded(_clean(text), indent, indent, sys.stderr)


def _clean(text: str) -> str:
    from lorakit.runs.words import clean

    return clean(text)
