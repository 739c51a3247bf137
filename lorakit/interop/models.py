"""The base models that are on this machine, wherever they came from."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lorakit.bundle.models import PICO
from lorakit.families import hub_cache
from lorakit.families.families import FAMILIES
from lorakit.families.pipelines import family_of
from lorakit.families.recognise import Recognised, recognise
from lorakit.families.shipped import ASSETS
from lorakit.interop.places import places
from lorakit.runs.directory import every, runs_root

FILES = (".safetensors", ".ckpt", ".pt", ".pth")
"""What other programs take for a checkpoint."""

RUNS = 100
"""How many of the newest runs are asked which base they had."""

DEPTH = 6
"""How many folders deep is looked for models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Something on this machine that is a base model, or lies where one should."""

    base: str
    """The value of `base.model` for it: pico, a Hub id or an absolute path."""
    revision: str = ""
    """The value of `base.revision` that it needs; mostly empty."""
    where: str
    """Whose place it is: lorakit, Hub cache, ComfyUI, A1111, …, a folder, or used before."""
    path: Path
    told: Recognised
    """What it is, and what is wrong with it."""

    @property
    def usable(self) -> bool:
        """Whether it can be trained on."""
        return not self.told.problem


def found(
    environment: Mapping[str, str] = os.environ,
    home: Path | None = None,
    runs: Path | None = None,
) -> tuple[Model, ...]:
    """Every base model that this machine has, each once; reads headers and configurations only.

    Looks at pico, the Hub's cache, folders of other programs and what runs have used before.
    """
    pico = ASSETS / PICO
    models = [Model(base=PICO, where="lorakit", path=pico, told=recognise(pico))]
    for kept in hub_cache.models():
        models += _of_hub(kept)
    seen = {os.path.realpath(model.path) for model in models}
    for where, path in _paths(environment, home or Path.home(), runs or runs_root()):
        real = os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            models.append(Model(base=str(path), where=where, path=path, told=recognise(path)))
    return tuple(models)


def _paths(environment: Mapping[str, str], home: Path, runs: Path) -> Iterator[tuple[str, Path]]:
    """Files and folders that may be models, and whose place each is in."""
    for place in places(environment, home):
        for path in below(place.folder):
            yield place.owner or "folder", path
    for path in _used(runs):
        yield "used before", path


def _of_hub(kept: hub_cache.Kept) -> Iterator[Model]:
    """A pipeline of the Hub's cache, or checkpoints in single files; what else there is in it, such
    as models of language, is none of ours."""
    if (kept.folder / "model_index.json").exists() or (kept.folder / "unet").is_dir():
        told = recognise(kept.folder)
        lacking = hub_cache.missing(kept.folder, FAMILIES[family_of(kept.folder) or "sd1"])
        if lacking and told.kind in ("pipeline", "unknown"):
            told = replace(
                told,
                problem=f"{kept.model} is not complete{hub_cache.listed(lacking)}.",
                fix=f"lorakit models get {kept.model}",
            )
        yield Model(
            base=kept.model,
            revision=kept.revision,
            where="Hub cache",
            path=kept.folder,
            told=told,
        )
        return
    for path in _entries(kept.folder):
        if path.name.endswith(FILES) and (told := recognise(path)).kind == "checkpoint":
            yield Model(base=str(path), where="Hub cache", path=path, told=told)


def below(folder: Path, depth: int = DEPTH, above: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Files of weights and diffusers folders in a folder and those below it, by name.

    Links are followed, a folder within itself is not.
    """
    real = os.path.realpath(folder)
    if real in above or depth < 0:
        return
    entries = [path for path in _entries(folder) if not path.name.startswith(".")]
    folders = [path for path in entries if os.path.isdir(path)]
    pipelines = [path for path in folders if os.path.isfile(path / "model_index.json")]
    yield from pipelines
    yield from (p for p in entries if p.name.lower().endswith(FILES) and p not in folders)
    for path in folders:
        if path not in pipelines:
            yield from below(path, depth - 1, above | {real})


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir(), key=lambda path: path.name.lower())
    except OSError:
        return []


def _used(runs: Path) -> Iterator[Path]:
    """Bases in files and folders that the newest runs had, and that are still there."""
    for run in every(runs)[:RUNS]:
        try:
            text = run.bundle.read_text(encoding="utf-8")
            model = tomllib.loads(text.partition("\n[lock")[0])["base"]["model"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(model, str) and os.path.isabs(model) and os.path.exists(model):
            yield Path(model)
