"""The Hub's cache on the disk, by its documented layout: which models it has, and what they lack.

The Hub's client is not asked: importing it takes longer than all else that a plan needs.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lorakit.families.components import WEIGHTS, weights_of
from lorakit.families.families import Family

_RULES = re.compile(r"\b[\w.-]{1,96}\b/\b[\w.-]{1,96}\b", re.ASCII)

_PREFIX = "models--"


def folder() -> Path:
    """Where the Hub's client keeps what it has downloaded."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def repository(model: str) -> Path:
    """Where all of one model lies. Raises ValueError for what cannot be a Hub id."""
    if not _RULES.fullmatch(model) or "--" in model or ".." in model or model.endswith(".git"):
        raise ValueError(model)
    return folder() / f"{_PREFIX}{model.replace('/', '--')}"


def snapshot(model: str, revision: str) -> Path | None:
    """The folder of a revision, if it is there. Raises ValueError for what cannot be a Hub id."""
    return _snapshot(repository(model), revision)


def _snapshot(there: Path, revision: str) -> Path | None:
    commit = revision
    with contextlib.suppress(OSError, ValueError):  # a commit has no file in refs
        commit = (there / "refs" / revision).read_text(encoding="utf-8").strip()
    try:
        return there / "snapshots" / commit if commit in os.listdir(there / "snapshots") else None
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One model of the cache at the revision that is taken when none is named."""

    model: str
    """Its Hub id."""
    folder: Path
    revision: str
    """What to name where it is not the newest of `main`; else empty."""


def models() -> Iterator[Kept]:
    """Every model of the cache, sorted by id: at `main`, else at the commit that came last."""
    try:
        names = sorted(n for n in os.listdir(folder()) if n.startswith(_PREFIX))
    except OSError:
        return
    for name in names:
        model = name.removeprefix(_PREFIX).replace("--", "/")
        there = folder() / name
        if (newest := _snapshot(there, "main")) is not None:
            yield Kept(model=model, folder=newest, revision="")
        elif (last := _last(there / "snapshots")) is not None:
            yield Kept(model=model, folder=last, revision=last.name)


def _last(snapshots: Path) -> Path | None:
    try:
        return max(snapshots.iterdir(), key=os.path.getmtime, default=None)
    except OSError:
        return None


def missing(snapshot: Path | None, family: Family) -> tuple[str, ...]:
    """The files that a training needs and a snapshot lacks, the large ones first."""
    lacking = [] if _is(snapshot, "model_index.json") else ["model_index.json"]
    for part in family.parts:
        wanted: tuple[str, ...]
        if part in WEIGHTS:
            if snapshot is None or not weights_of(snapshot, part):
                lacking.insert(0, f"{part}/{WEIGHTS[part]}.safetensors")
            wanted = ("config.json",)
        elif part == "scheduler":
            wanted = ("scheduler_config.json",)
        else:
            wanted = () if _is(snapshot, f"{part}/tokenizer.json") else ("vocab.json", "merges.txt")
        lacking += [f"{part}/{name}" for name in wanted if not _is(snapshot, f"{part}/{name}")]
    return tuple(lacking)


def _is(snapshot: Path | None, name: str) -> bool:
    return snapshot is not None and os.path.isfile(snapshot / name)


NAMED = 4
"""How many missing files are named."""


def listed(missing: tuple[str, ...]) -> str:
    """Names of missing files, to stand in a sentence: ` (missing: unet/… and 3 more)`."""
    if not missing:
        return ""
    named, rest = missing[:NAMED], len(missing) - NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f" (missing: {', '.join(named)}{more})"


def is_offline() -> bool:
    """Whether the environment switches the Hub off, as its client reads it."""
    found = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE", "")
    return found.upper() in ("1", "ON", "YES", "TRUE")
