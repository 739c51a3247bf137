"""Presets: partial bundles to start from, each value with its reason, made for some machines."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as copy_with
from pathlib import Path
from typing import Any

import lorakit
from lorakit.bundle import keys, layout, syntax
from lorakit.bundle.document import document
from lorakit.bundle.models import SCHEMA
from lorakit.bundle.problems import BundleError, Problem
from lorakit.bundle.read import validate
from lorakit.errors import LorakitError
from lorakit.hardware.facts import Hardware
from lorakit.planner.budget import budget
from lorakit.planner.preset_file import HEAD, PresetFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A partial bundle to share, with the machines that it is for."""

    name: str
    title: str
    """A few words."""
    description: str = ""
    """A sentence or two."""
    family: str = "any"
    """Of the base; `any` is for goals, which suit every one."""
    purpose: str = "usual"
    """usual, goal or benchmark: only the first is proposed unasked."""
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

    def unfit(self, hardware: Hardware) -> str:
        """Why it is not for this machine, in words that follow its name; empty: it is.

        What nobody could tell rules nothing out.
        """
        card = hardware.accelerator
        kind, free = card.kind if card else "cpu", budget(hardware).free_gib
        if self.devices and kind not in self.devices:
            return f"is for {' or '.join(self.devices)}, and training here runs on {kind}"
        if free is not None and free < self.min_memory_gib:
            return f"is made for {self.min_memory_gib:.1f} GiB free, and {free:.1f} are"
        return ""

    def over(self, below: Preset) -> Preset:
        """This preset with the settings of another where it has none of its own."""
        own = {f"{table}.{name}" for table, values in self.settings.items() for name in values}
        kept = {key: why for key, why in below.reasons.items() if key not in own}
        return copy_with(
            self,
            settings=merge(below.settings, self.settings),
            reasons={**kept, **self.reasons},
        )

    @property
    def text(self) -> str:
        """The whole preset as TOML, to share: whatever it extends is written out in it."""
        made_for = {
            "family": self.family,
            "purpose": self.purpose,
            "min_memory_gib": self.min_memory_gib,
            "devices": list(self.devices),
        }
        head = {"schema": SCHEMA, "name": self.name, "title": self.title}
        head |= {"description": self.description} if self.description else {}
        return _COMMENT + document({**head, "for": made_for, **self.settings}, self.reasons)


_COMMENT = (
    "# lorakit preset. The comment behind a value is the reason that the wizard gives for it.\n"
)


def parse(text: str, where: str = "") -> Preset:
    """The preset in a text. Raises BundleError with every problem and its line."""
    data = syntax.load(text, where)
    file, problems = validate(PresetFile, data, text=text)
    if file is None:
        raise BundleError(problems, where)
    settings = {name: given for name, given in data.items() if name not in HEAD}
    preset = Preset(
        name=file.name,
        title=file.title,
        description=file.description,
        family=file.for_.family,
        purpose=file.for_.purpose,
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
    if not file.extends:
        return preset
    below = _extended(file.extends, where, text)
    if "for" not in data:
        preset = copy_with(
            preset,
            family=below.family,
            purpose=below.purpose,
            min_memory_gib=below.min_memory_gib,
            devices=below.devices,
        )
    return preset.over(below)


def _extended(name: str, where: str, text: str) -> Preset:
    """The shipped preset that another starts from."""
    path = _shipped_folder() / f"{name}.toml"
    known = sorted(p.stem for p in _shipped_folder().glob("*.toml"))
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        problem = Problem(
            where="extends",
            what=f"There is no shipped preset {name} to start from.",
            fix=f"Did you mean {near[0]}?" if near else "lorakit presets lists them.",
            line=layout.places(text)[("extends",)].line,
        )
        raise BundleError([problem], where)
    return _shipped(path)


def read(path: Path) -> Preset:
    """The preset in a file. Raises BundleError with every problem and its line."""
    return parse(syntax.read_text(path), str(path))


def shipped() -> list[Preset]:
    """The presets that come with lorakit: by family and what they are for, small ones first."""
    found = [_shipped(path) for path in sorted(_shipped_folder().glob("*.toml"))]
    return sorted(found, key=lambda p: (p.purpose != "usual", p.family, p.min_memory_gib))


@functools.cache
def _shipped(path: Path) -> Preset:
    return read(path)


def _shipped_folder() -> Path:
    packed = Path(lorakit.__file__).parent / "_presets"
    return packed if packed.is_dir() else Path(lorakit.__file__).parent.parent / "presets"


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
