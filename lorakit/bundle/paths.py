"""Paths in a bundle: relative to its file, until a run takes it somewhere else."""

from __future__ import annotations

from pathlib import Path

from lorakit.bundle.models import PICO, Bundle


def absolute(bundle: Bundle, folder: Path) -> Bundle:
    """The same bundle with paths that hold from anywhere; `folder` is where they count from.

    A base stays as it is where it is a Hub id: where no such folder exists.
    """
    sources = tuple(
        source.model_copy(update={"path": resolve(source.path, folder)})
        for source in bundle.dataset.sources
    )
    dataset = bundle.dataset.model_copy(update={"sources": sources})
    model = bundle.base.model
    if model != PICO and Path(resolve(model, folder)).exists():
        model = resolve(model, folder)
    base = bundle.base.model_copy(update={"model": model})
    return bundle.model_copy(update={"base": base, "dataset": dataset})


def resolve(path: str, folder: Path) -> str:
    """One path, absolute: `~` expanded, `..` taken out, links kept."""
    import os

    return os.path.abspath(folder / Path(path).expanduser())
