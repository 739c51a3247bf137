"""Presets: partial bundles to start from, each value with its reason, made for some machines."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as copy_with
from pathlib import Path
from typing import Any

import lorakit
from lorakit.bundle import keys, layout, syntax
from lorakit.bundle.document import document
from lorakit.bundle.models import PICO, SCHEMA, Bundle
from lorakit.bundle.problems import BundleError, Problem
from lorakit.bundle.read import build, validate
from lorakit.bundle.write import replace, tables
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.base_model import HUB_ID
from lorakit.hardware.facts import Hardware
from lorakit.planner.preset_file import HEAD, PresetFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A partial bundle to share, with the machines that it is for."""

    name: str
    title: str
    """A few words."""
    description: str = ""
    """A sentence or two."""
    family: str = "sd1"
    min_memory_gib: float = 0.0
    """Free memory that it wants: of the card, or of the machine without one."""
    devices: tuple[str, ...] = ()
    """Of cpu, cuda, rocm. Empty: any."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Tables and values by the names of a bundle."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a value is what it is, by dotted key: the comments of its file."""
    path: Path | None = None
    """The file it is from."""

    def suits(self, hardware: Hardware) -> bool:
        """Whether it is for this machine. What nobody could tell rules nothing out."""
        card = hardware.accelerator
        free = card.memory_free_gib if card else hardware.ram_free_gib
        if self.devices and (card.kind if card else "cpu") not in self.devices:
            return False
        return free is None or free >= self.min_memory_gib


def parse(text: str, where: str = "") -> Preset:
    """The preset in a text. Raises BundleError with every problem and its line."""
    data = syntax.load(text, where)
    file, problems = validate(PresetFile, data, text=text)
    if file is None:
        raise BundleError(problems, where)
    settings = {name: given for name, given in data.items() if name not in HEAD}
    return Preset(
        name=file.name,
        title=file.title,
        description=file.description,
        family=file.for_.family,
        min_memory_gib=file.for_.min_memory_gib,
        devices=file.for_.devices,
        settings=settings,
        reasons={
            keys.join(path): place.comment
            for path, place in layout.places(text).items()
            if place.comment and path[0] in settings
        },
        path=Path(where) if where else None,
    )


def read(path: Path) -> Preset:
    """The preset in a file. Raises BundleError with every problem and its line."""
    return parse(syntax.read_text(path), str(path))


def shipped() -> list[Preset]:
    """The presets that come with lorakit, by name."""
    packed = Path(lorakit.__file__).parent / "_presets"
    folder = packed if packed.is_dir() else Path(lorakit.__file__).parent.parent / "presets"
    return [read(path) for path in sorted(folder.glob("*.toml"))]


def user_folder() -> Path:
    """Where a person's own presets lie: `$LORAKIT_PRESETS`, else below the system's folder."""
    if given := os.environ.get("LORAKIT_PRESETS"):
        return Path(given).expanduser()
    import platformdirs

    return platformdirs.user_config_path("lorakit") / "presets"


def user() -> list[Preset]:
    """A person's own presets, by file name; broken ones are left out, see `problems`."""
    return _user()[0]


def problems() -> list[Problem]:
    """What is wrong with a person's own presets; `where` is the file."""
    return _user()[1]


def find(name: str) -> Preset:
    """The preset of this name, a person's own before a shipped one, or in a file given by path.

    Raises LorakitError where there is none, BundleError where it is broken.
    """
    if name.endswith(".toml") or os.sep in name:
        return read(Path(name).expanduser())
    known = {preset.name: preset for preset in (*shipped(), *user())}
    if name in known:
        return known[name]
    own = user_folder() / f"{name}.toml"
    if own.is_file():
        return read(own)  # it is broken, and says how
    near = difflib.get_close_matches(name, known, n=1)
    raise LorakitError(
        f"There is no preset {name}.",
        f"Did you mean {near[0]}?" if near else f"There are {', '.join(sorted(known))}.",
    )


def merge(settings: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, table by table, and where both have a value that of `over`. Changes neither."""
    merged: dict[str, Any] = {}
    for name in (*settings, *(n for n in over if n not in settings)):
        below, above = settings.get(name, {}), over.get(name, {})
        if isinstance(below, Mapping) and isinstance(above, Mapping):
            merged[name] = merge(below, above)
        else:
            merged[name] = over.get(name, below)
    return merged


def save(
    name: str,
    bundle: Bundle,
    title: str,
    description: str = "",
    reasons: Mapping[str, str] = {},
    *,
    overwrite: bool = False,
) -> Path:
    """Keep a bundle's settings as a preset, without its name, pictures and lock. Returns the file.

    A base that is a folder on this machine stays out, too. Raises LorakitError where the name is
    taken (unless `overwrite`, for a person's own) or cannot be a name.
    """
    settings = {k: v for k, v in tables(bundle).items() if k not in ("schema", "name", "lock")}
    settings["dataset"].pop("sources")
    if bundle.base.model != PICO and not HUB_ID.match(bundle.base.model):
        settings["base"] = {"family": bundle.base.family}
    if any(preset.name == name for preset in shipped()):
        raise LorakitError(f"The name {name} is that of a shipped preset.", "Choose another name.")
    head = {"schema": SCHEMA, "name": name, "title": title, "description": description}
    text = document({**head, "for": {"family": bundle.base.family}, **settings}, reasons)
    path = user_folder() / f"{parse(text).name}.toml"  # a bad name is a problem before it is a path
    if path.exists() and not overwrite:
        raise LorakitError(f"There is a preset {name} already: {path}.", "Choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"{path.parent} cannot be made: {error.strerror}."
        raise LorakitError(what, code=ExitCode.DATA) from None
    whole = tables(bundle)
    replace(path, text, lambda back: build(merge(whole, parse(back).settings)) == bundle)
    return path


def _user() -> tuple[list[Preset], list[Problem]]:
    presets: dict[str, Preset] = {}
    found: list[Problem] = []
    folder = user_folder()
    for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
        try:
            preset = read(path)
        except BundleError as error:
            found += [copy_with(p, where=str(path), severity="warning") for p in error.problems]
            continue
        if preset.name in presets:
            what = f"The name {preset.name} is that of {presets[preset.name].path}, too."
            found.append(Problem(where=str(path), what=what, fix="Rename one.", severity="warning"))
        presets.setdefault(preset.name, preset)
    return list(presets.values()), found
