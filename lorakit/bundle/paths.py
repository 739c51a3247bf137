"""Paths in a bundle, relative to its file until a run takes it somewhere else; and the cache."""

from __future__ import annotations

import os
from pathlib import Path

from lorakit.bundle.models import PICO, Bundle


def absolute(bundle: Bundle, folder: Path) -> Bundle:
    """The same bundle with paths that hold from anywhere; `folder` is where they count from.

    A base that may be a Hub id is taken for a folder only where there is one.
    """
    sources = tuple(
        source.model_copy(update={"path": resolve(source.path, folder)})
        for source in bundle.dataset.sources
    )
    dataset = bundle.dataset.model_copy(update={"sources": sources})
    model = bundle.base.model
    local = model.startswith((".", "/", "~")) or os.path.exists(resolve(model, folder))
    if local and model != PICO:
        model = resolve(model, folder)
    base = bundle.base.model_copy(update={"model": model})
    return bundle.model_copy(update={"base": base, "dataset": dataset})


def pinned(bundle: Bundle) -> Bundle:
    """The same bundle with its base at the very commit that the lock names, where it names one."""
    if bundle.lock is None or not bundle.lock.base.revision:
        return bundle
    base = bundle.base.model_copy(update={"revision": bundle.lock.base.revision})
    return bundle.model_copy(update={"base": base})


def cache_folder() -> Path:
    """Where lorakit keeps what it can make again: `$LORAKIT_CACHE`, or the system's place."""
    if given := os.environ.get("LORAKIT_CACHE"):
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("lorakit"))


def resolve(path: str, folder: Path) -> str:
    """One path, absolute: `~` expanded, `..` taken out, links kept."""
    return os.path.abspath(folder / os.path.expanduser(path))
