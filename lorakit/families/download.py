"""Fetches from the Hub what training needs of a base: asks, chooses files, looks for room."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lorakit.bundle.models import Base
from lorakit.errors import ExitCode, LorakitError
from lorakit.families import hub, hub_cache
from lorakit.families.arrival import fetch as arrive
from lorakit.families.arrival import here, name_commit
from lorakit.families.base_model import configurations
from lorakit.families.components import WEIGHTS, choices, weighty
from lorakit.families.families import FAMILIES, Family
from lorakit.families.hub import File, Listing, Say, Stop
from lorakit.families.locate import missing
from lorakit.families.pipelines import agree, family_of

Progress = Callable[[int, int], None]
"""Told how many bytes are there, and how many there will be."""

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A base whose small files are there, and which is known to be one."""

    listing: Listing
    folder: Path
    """Its snapshot in the Hub's cache."""
    family: Family
    files: tuple[File, ...]
    """All that training needs, weights last: where these are there, the others are too."""


def begin(base: Base, say: Say, stop: Stop, settled: bool = True) -> Begun:
    """Ask the Hub for a base and fetch its configurations: enough to know that it can be had, and
    that it is of the family that the bundle says (where that is `settled`).

    Raises LorakitError, and Stopped.
    """
    listing = hub.ask(base.model, base.revision, missing(base), say, stop)
    files = {file.name: file for file in listing.files}
    if any(name not in files for name in FIRST):
        raise _no_pipeline(listing)
    folder = hub_cache.repository(base.model) / "snapshots" / listing.commit

    def fetch(file: File) -> None:
        arrive(listing, file, lambda have: None, say, stop)

    for name in FIRST:
        fetch(files[name])
    name_commit(listing, base.revision)
    found = family_of(folder)
    if settled:
        agree(base, found)
    family = FAMILIES[found or base.family]
    chosen = _wanted(listing, family)
    for file in chosen:
        if not file.name.endswith(".safetensors"):
            fetch(file)
    configurations(base.model_copy(update={"family": family.name}), folder)
    return Begun(listing=listing, folder=folder, family=family, files=chosen)


FIRST = ("model_index.json", "unet/config.json")
"""Files that say which family it is."""


def complete(
    begun: Begun, progress: Progress, say: Say, stop: Stop, reserve_bytes: int = 0
) -> Path:
    """Fetch all files of a base, the small ones first, and return its folder.

    Before the first one the disk has to have room for what is still to come and `reserve_bytes`
    more. Raises LorakitError, and Stopped: what has arrived is kept, and gone on from.
    """
    total = sum(file.size_bytes for file in begun.files)
    before = sum(here(begun.listing, file) for file in begun.files)
    _check_room(begun.listing, total - before, reserve_bytes)
    for note in _notes(begun):
        say(note)
    progress(before, total)
    for file in begun.files:
        rest = before - here(begun.listing, file)

        def at(have: int, rest: int = rest) -> None:
            progress(rest + have, total)

        arrive(begun.listing, file, at, say, stop)
        before = rest + file.size_bytes
        progress(before, total)
    return begun.folder


def single(model: str, name: str, revision: str, progress: Progress, say: Say, stop: Stop) -> Path:
    """Fetch one file of a repository, such as a checkpoint, and return where it lies.

    Raises LorakitError, and Stopped.
    """
    listing = hub.ask(model, revision, (name,), say, stop)
    file = next((file for file in listing.files if file.name == name), None)
    if file is None:
        there = [file.name for file in listing.files if file.name.endswith(".safetensors")]
        raise LorakitError(
            f"{model} has no file {name}.",
            f"It has {', '.join(there[:NAMED]) or 'no .safetensors file'}.",
        )
    _check_room(listing, file.size_bytes - here(listing, file), 0)
    arrive(listing, file, lambda have: progress(have, file.size_bytes), say, stop)
    name_commit(listing, revision)
    progress(file.size_bytes, file.size_bytes)
    return hub_cache.repository(model) / "snapshots" / listing.commit / name


NAMED = 5
"""How many files are offered where one is not there."""


def wanted(names: list[str], family: Family) -> list[str]:
    """Those of a repository's files that training needs: configurations, then weights.

    Of weights in several precisions the full one; only safetensors. Raises LorakitError, to be
    completed by the name of the model, where a part has none.
    """
    split = [name.partition("/") for name in names]
    parted = [(part, file) for part, _, file in split if "/" not in file]
    chosen = ["model_index.json"]
    for part, file in parted:
        if part in family.parts and file.endswith((".json", ".txt")):
            chosen.append(f"{part}/{file}")
    for part in weighty(family):
        there = [file for folder, file in parted if folder == part]
        taken = next(choices(part, there), None)
        if taken is None:
            others = [file for file in there if not file.endswith((".json", ".txt"))]
            beside = f" There {'is' if len(others) == 1 else 'are'} {', '.join(others)}."
            raise LorakitError(
                f"has no safetensors weights in {part}.{beside if others else ''}",
                f"Expected {part}/{WEIGHTS[part]}.safetensors. Pickled weights are not read.",
            )
        chosen += [f"{part}/{file}" for file in taken]
    return chosen


def _wanted(listing: Listing, family: Family) -> tuple[File, ...]:
    files = {file.name: file for file in listing.files}
    try:
        names = wanted(list(files), family)
    except LorakitError as error:
        raise LorakitError(f"The base model {listing.model} {error.message}", error.hint) from None
    return tuple(
        sorted(
            (files[name] for name in names),
            key=lambda file: (file.name.endswith(".safetensors"), file.size_bytes),
        )
    )


def _notes(begun: Begun) -> Iterator[str]:
    """What was chosen where it is no matter of course."""
    for file in begun.files:
        if ".fp16" in file.name and file.name.endswith(".safetensors"):
            part, _, name = file.name.partition("/")
            yield f"{part}: only half precision is there, {name}"


def _no_pipeline(listing: Listing) -> LorakitError:
    single = [file for file in listing.files if re.fullmatch(r"[^/]+\.safetensors", file.name)]
    if not single:
        return LorakitError(
            f"{listing.model} is not a diffusers repository: it has no model_index.json with a"
            " UNet.",
            "Name a repository in the diffusers layout.",
        )
    largest = max(single, key=lambda file: file.size_bytes)
    return LorakitError(
        f"{listing.model} is not a diffusers repository, it holds single files: the largest is"
        f" {largest.name} ({largest.size_bytes / GIB:.1f} GiB).",
        f"Get one, and give its path: lorakit models get {listing.model}/{largest.name}",
    )


def _check_room(listing: Listing, to_come: int, reserve_bytes: int) -> None:
    free = _free_bytes(hub_cache.folder())
    if not to_come or free is None or to_come + reserve_bytes <= free:
        return
    kept = f" and {reserve_bytes / GIB:.1f} GiB are for what training caches" * bool(reserve_bytes)
    raise LorakitError(
        f"{listing.model} needs {to_come / GIB:.2f} GiB more from the Hub{kept}, and"
        f" {free / GIB:.2f} GiB are free in {hub_cache.folder()}.",
        "Make room there, or let the Hub's cache live on another disk: HF_HOME=FOLDER.",
        ExitCode.DATA,
    )


def _free_bytes(folder: Path) -> int | None:
    """Free space where this folder is, or will be; None where the system does not say."""
    there = next((p for p in (folder, *folder.parents) if os.path.isdir(p)), None)
    try:
        return shutil.disk_usage(there).free if there else None
    except OSError:
        return None
