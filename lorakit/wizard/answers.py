"""What a person has answered so far: apart from what is recommended, and nothing else."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lorakit.bundle.models import PICO, Bundle
from lorakit.bundle.paths import absolute, resolve
from lorakit.bundle.write import tables
from lorakit.dataset.layout import repeated
from lorakit.errors import LorakitError
from lorakit.families.families import FAMILIES

SECTIONS = ("dataset", "adapter", "train", "loss", "memory", "sample", "save")
"""Tables of the bundle whose values are settings."""

OF_BASE = ("base.prediction", "base.zero_snr", "base.pickle")
"""Settings of the base that go when another one is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One folder of pictures, relative as it was typed."""

    path: str = ""
    repeats: int = 1
    trigger: str = ""
    prior: bool = False
    typed: str = ""
    """The folder that was typed, in which this one was found by its name. Empty: nobody has looked
    for such names."""


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

    @property
    def typed(self) -> str:
        """The first folder as it was typed."""
        return self.folders[0].typed or self.folders[0].path

    def with_typed(self, path: str, trigger: str) -> Answers:
        """With another first folder, in the place of all that were found in the one before it, and
        its trigger."""
        first = dataclasses.replace(self.folders[0], trigger=trigger)
        if path == self.typed:
            return dataclasses.replace(self, folders=(first, *self.folders[1:]))
        named = repeated(os.path.basename(first.path)) if first.typed else None
        if named and trigger == named[1]:
            trigger = ""
        # Repeats and a trigger that came from a name go with it; those of a bundle stay.
        first = dataclasses.replace(
            first, path=path, trigger=trigger, typed="", repeats=1 if first.typed else first.repeats
        )
        return dataclasses.replace(self, folders=(first, *self._others))

    def with_found(self, found: Sequence[Folder]) -> Answers:
        """With the folders that were found in the first one by their names."""
        return dataclasses.replace(self, folders=(*found, *self._others))

    @property
    def _others(self) -> tuple[Folder, ...]:
        """The folders that were not found in the first one."""
        first, *others = self.folders
        return tuple(f for f in others if not (first.typed and f.typed == first.typed))

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
        return self.name or _name_of(self.typed)

    def moved(self, old: Path, new: Path) -> Answers:
        """The same answers where relative paths count from another folder."""
        if old == new:
            return self
        local = self.base != PICO and Path(resolve(self.base, old)).exists()
        return dataclasses.replace(
            self,
            base=resolve(self.base, old) if local else self.base,
            folders=tuple(
                dataclasses.replace(
                    f,
                    path=resolve(f.path, old) if f.path else "",
                    typed=resolve(f.typed, old) if f.typed else "",
                )
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
        folders=tuple(Folder(**source, typed=source["path"]) for source in sources),
        name=bundle.name,
        changes=changes,
    )


def _name_of(path: str) -> str:
    """A name for a run out of a path; `my-lora` where it has no letter that a name may have."""
    last = re.sub(r"[^A-Za-z0-9._-]+", "-", path.rstrip("/").rpartition("/")[2])
    return last.strip("-._")[:80] or "my-lora"
