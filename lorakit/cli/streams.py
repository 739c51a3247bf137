"""What a command says and where: results on stdout, everything else on stderr."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

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


def report(error: LorakitError) -> None:
    """Print an error: one sentence, and the way out below it."""
    err(f"lorakit: error: {_clean(error.message)}", *_indented(error.hint))


def problems(found: Iterable[Problem], path: str = "") -> None:
    """Print problems with the place of each, all at once, errors first."""
    for problem in sorted(found, key=lambda p: p.severity != "error"):
        line = f":{problem.line}" if problem.line is not None else ""
        where = f" {problem.where}:" if problem.where else ""
        place = f"{path}{line}:" if path else "lorakit:"
        err(_clean(f"{place} {problem.severity}:{where} {problem.what}"), *_indented(problem.fix))


def _indented(text: str) -> list[str]:
    return [f"  {_clean(line)}" for line in text.split("\n") if line]


def _clean(text: str) -> str:
    from lorakit.runs.words import clean

    return clean(text)
