"""Fetches a base that is a Hub id, with events on the way."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from lorakit.bundle.models import Base, Bundle
from lorakit.bundle.paths import cache_folder, resolve
from lorakit.dataset.folders import walk
from lorakit.families import download, hub_cache
from lorakit.families.hub import Stopped
from lorakit.families.locate import locate
from lorakit.runs.events import Doing, Log, Noted

CAPTION_BYTES = 77 * 2048 * 4
"""The most that text encoders say of a caption."""


def ask(base: Base, root: Path, log: Log, stop: Callable[[], bool]) -> None:
    """Make sure that a base which is not here can be had, before anything takes time.

    Raises LorakitError with what the Hub says, or with what the network lacks.
    """
    if locate(base, root) is None and not stop():
        try:
            download.begin(base, lambda text: log.append(Noted(text=text)), stop)
        except Stopped:
            return


def fetch(bundle: Bundle, root: Path, log: Log, stop: Callable[[], bool]) -> None:
    """Download a base that is a Hub id and not in the cache, unless someone asks to stop.

    Weights as safetensors only; the fp16 files only where a part has no others.
    """
    if locate(bundle.base, root) is not None or stop():
        return

    def say(text: str) -> None:
        log.append(Noted(text=text))

    said = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal said
        event = Doing(phase="downloading", done=done, total=total, unit="bytes")
        if not said or done == total or event.time - said >= 0.5:
            said = event.time
            log.append(event)

    try:
        begun = download.begin(bundle.base, say, stop)
        download.complete(begun, progress, say, stop, to_be_cached(bundle, root))
    except Stopped:
        return


def to_be_cached(bundle: Bundle, root: Path) -> int:
    """Bytes that latents and captions will take on the disk of the download, about: nobody has
    looked into the pictures yet."""
    if not _same_disk(cache_folder(), hub_cache.folder()):
        return 0
    latent = (bundle.dataset.resolution // 8) ** 2 * 2 * 4 * 4
    each = latent * bundle.memory.cache_latents + CAPTION_BYTES * bundle.memory.cache_text
    folders = [Path(resolve(source.path, root)) for source in bundle.dataset.sources]
    return each * sum(len(walk(folder).pictures) for folder in folders)


def _same_disk(one: Path, other: Path) -> bool:
    def disk(folder: Path) -> int:
        return next(os.stat(p).st_dev for p in (folder, *folder.parents) if os.path.isdir(p))

    return disk(one.absolute()) == disk(other.absolute())
