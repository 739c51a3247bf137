"""A bundle that is named by its file or by its run, for the commands that take either."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lorakit.bundle import read, syntax
from lorakit.bundle.models import Bundle
from lorakit.bundle.problems import BundleError, Problem
from lorakit.runs.directory import BUNDLE, Run, find


@dataclass(frozen=True, slots=True)
class Given:
    """A bundle, and the run it is of where it is one's."""

    bundle: Bundle
    path: Path
    """Its file."""
    run: Run | None
    notes: tuple[Problem, ...]
    """Warnings from reading it."""

    @property
    def folder(self) -> Path:
        """What its relative paths count from."""
        return self.path.resolve().parent


def given(name: str, root: Path) -> Given:
    """The bundle in a file, or that of a run below `root` or by folder.

    Raises LorakitError where there is none, BundleError with all that is wrong with it.
    """
    path = Path(name).expanduser()
    if name.endswith(".toml") or os.path.isfile(path):
        home = Run(path.resolve().parent)
        run = home if path.name == BUNDLE and home.events.is_file() else None
    else:
        run = find(name, root)
        path = run.bundle
    text = syntax.read_text(path)
    bundle, problems = read.check(syntax.load(text, str(path)), (), text)
    if bundle is None:
        raise BundleError(problems, str(path))
    return Given(bundle, path, run, tuple(problems))
