"""What a person has answered so far: apart from what is recommended, and nothing else."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lorakit.bundle.models import PICO, Bundle
from lorakit.bundle.paths import absolute, resolve
from lorakit.bundle.write import tables
from lorakit.errors import LorakitError
from lorakit.families.families import FAMILIES

SECTIONS = ("dataset", "adapter", "train", "loss", "memory", "sample", "save")
"""Tables of the bundle whose values are settings."""

OF_BASE = ("base.prediction", "base.zero_snr", "base.pickle")
"""Settings of the base that go when another one is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One folder of pictures, as it was typed."""

    path: str = ""
    repeats: int = 1
    trigger: str = ""
    prior: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All answers. An empty one is not given yet, and a default stands for it."""

    base: str = PICO
    """pico, a diffusers folder, one file, or a Hub id."""
    revision: str = ""
    """Of a Hub id; it goes when another base is chosen."""
    family: str = ""
    """What a base is taken for as long as it is not here and not well known. Empty: sd1."""
    folders: tuple[Folder, ...] = (Folder(),)
    """At least one; its path may be empty."""
    name: str = ""
    """Of the run. Empty: that of the first folder."""
    preset: str = ""
    """Name of the preset. Empty: the one that suits best."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Values that the person chose over the recommended ones, by dotted key."""

    def with_base(self, model: str) -> Answers:
        """With another base; a revision, a family and settings of it belong to the base they were
        given for."""
        if model == self.base:
            return self
        kept = {k: v for k, v in self.changes.items() if k not in OF_BASE}
        return dataclasses.replace(self, base=model, revision="", family="", changes=kept)

    def with_family(self, name: str) -> Answers:
        """With a base that is taken for one of this family. Raises LorakitError for none."""
        if name not in FAMILIES:
            raise LorakitError(f"{name} is no family.", f"There are {', '.join(FAMILIES)}.")
        return dataclasses.replace(self, family=name)

    def with_folder(self, **values: Any) -> Answers:
        """With other values in the first folder."""
        first = dataclasses.replace(self.folders[0], **values)
        return dataclasses.replace(self, folders=(first, *self.folders[1:]))

    def with_change(self, key: str, value: Any) -> Answers:
        """With a value of the person's own."""
        return dataclasses.replace(self, changes={**self.changes, key: value})

    def without_change(self, key: str) -> Answers:
        """With the recommended value again."""
        kept = {k: v for k, v in self.changes.items() if k != key}
        return dataclasses.replace(self, changes=kept)

    @property
    def run_name(self) -> str:
        """The name given, or one made of the first folder's."""
        return self.name or _name_of(self.folders[0].path)

    def moved(self, old: Path, new: Path) -> Answers:
        """The same answers where relative paths count from another folder."""
        if old == new:
            return self
        local = self.base != PICO and Path(resolve(self.base, old)).exists()
        return dataclasses.replace(
            self,
            base=resolve(self.base, old) if local else self.base,
            folders=tuple(
                dataclasses.replace(f, path=resolve(f.path, old)) if f.path else f
                for f in self.folders
            ),
        )


def of_bundle(bundle: Bundle, folder: Path, here: Path) -> Answers:
    """The answers that lead to a bundle again: each of its settings is one of the person's own.

    Its relative paths count from `folder`, those of the answers from `here`.
    """
    moved = bundle if folder == here else absolute(bundle, folder)
    data = tables(moved)
    sources = data["dataset"].pop("sources")
    own = {key: data["base"][key.removeprefix("base.")] for key in OF_BASE}
    changes: dict[str, Any] = {key: value for key, value in own.items() if value}
    for section in SECTIONS:
        for name, value in data[section].items():
            if isinstance(value, Mapping):
                changes |= {f"{section}.{name}.{inner}": v for inner, v in value.items()}
            else:
                changes[f"{section}.{name}"] = list(value) if isinstance(value, tuple) else value
    return Answers(
        base=moved.base.model,
        revision=moved.base.revision,
        family=moved.base.family,
        folders=tuple(Folder(**source) for source in sources),
        name=bundle.name,
        changes=changes,
    )


def _name_of(path: str) -> str:
    """A name for a run out of a path; `my-lora` where it has no letter that a name may have."""
    last = re.sub(r"[^A-Za-z0-9._-]+", "-", path.rstrip("/").rpartition("/")[2])
    return last.strip("-._")[:80] or "my-lora"
