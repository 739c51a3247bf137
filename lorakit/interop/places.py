"""Where other programs keep base models: ComfyUI, and A1111 with its forks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOTS = (Path("/workspace"), Path("/opt"))
"""Where images of rented machines put programs, beside a person's home."""

CHECKPOINTS = Path("models") / "checkpoints"
STABLE_DIFFUSION = Path("models") / "Stable-diffusion"

PROGRAMS: tuple[tuple[str, str, Path, tuple[str, ...]], ...] = (
    ("ComfyUI", "COMFYUI_PATH", CHECKPOINTS, ("ComfyUI", "comfy/ComfyUI")),
    ("A1111", "WEBUI_PATH", STABLE_DIFFUSION, ("stable-diffusion-webui",)),
    (
        "Forge",
        "FORGE_PATH",
        STABLE_DIFFUSION,
        ("stable-diffusion-webui-forge", "stable-diffusion-webui-reForge"),
    ),
    ("SD.Next", "SDNEXT_PATH", STABLE_DIFFUSION, ("automatic", "sdnext")),
)
"""Name, variable that says where it is, folder of its checkpoints, usual names of its folder."""

OWN = "LORAKIT_MODELS"
"""Folders of base models, with `:` between them, for any other place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder that may hold base models."""

    owner: str
    """The program whose folder it is; empty for one that was named."""
    folder: Path


def places(environment: Mapping[str, str], home: Path) -> Iterator[Place]:
    """Folders that are there, each once: those named by `$LORAKIT_MODELS`, then other programs'."""
    seen: set[str] = set()
    for place in _all(environment, home):
        real = os.path.realpath(place.folder)
        if real not in seen and os.path.isdir(real):
            seen.add(real)
            yield place


def _all(environment: Mapping[str, str], home: Path) -> Iterator[Place]:
    for named in filter(None, environment.get(OWN, "").split(os.pathsep)):
        yield Place(owner="", folder=Path(os.path.expanduser(named)))
    for program, variable, below, names in PROGRAMS:
        told = environment.get(variable)
        given = [Path(os.path.expanduser(told))] if told else []
        for root in (*given, *(top / name for top in (home, *ROOTS) for name in names)):
            yield Place(owner=program, folder=root / below)
            if program == "ComfyUI":
                for extra in extra_folders(root / "extra_model_paths.yaml"):
                    yield Place(owner=program, folder=extra)


def extra_folders(file: Path) -> Iterator[Path]:
    """The folders of checkpoints that ComfyUI's file of further folders names; none where there is
    no such file, or it is damaged."""
    if not os.path.isfile(file):
        return
    import yaml

    try:
        told = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return
    for section in told.values() if isinstance(told, dict) else ():
        if isinstance(section, dict):
            yield from _section(section, file.parent)


def _section(section: dict[str, Any], root: Path) -> Iterator[Path]:
    """A base folder, and folders below it, one on each line."""
    base = root / os.path.expandvars(os.path.expanduser(str(section.get("base_path") or "")))
    for key in ("checkpoints", "diffusers"):
        for line in str(section.get(key) or "").splitlines():
            if line.strip():
                yield base / os.path.expanduser(line.strip())
