"""Presets: partial bundles to start from, each value with its reason, made for some machines."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lorakit
from lorakit.bundle import keys, layout, syntax
from lorakit.bundle.document import document
from lorakit.bundle.explain import check_schema
from lorakit.bundle.models import PICO, SCHEMA, Bundle
from lorakit.bundle.problems import BundleError, Problem
from lorakit.bundle.read import build, check
from lorakit.bundle.write import replace as replace_file
from lorakit.bundle.write import tables
from lorakit.errors import LorakitError
from lorakit.families.base_model import HUB_ID
from lorakit.hardware.facts import Hardware
from lorakit.planner.preset_head import Head, read_head

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,79}")

_PICTURES = {"schema": SCHEMA, "name": "preset", "dataset": {"sources": [{"path": "."}]}}
"""What a bundle needs and a preset has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A partial bundle to share, with the machines that it is for."""

    name: str
    title: str
    """A few words."""
    description: str = ""
    """A sentence or two."""
    family: str | None = None
    """Family of base models; None: any."""
    min_memory_gib: float | None = None
    """Free memory that it wants, of the card or without one of the machine. None: any."""
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
        return free is None or self.min_memory_gib is None or free >= self.min_memory_gib


def parse(text: str, where: str = "") -> Preset:
    """The preset in a text. Raises BundleError with every problem and its line."""
    data = syntax.load(text, where)
    places = layout.places(text)
    head, problems = read_head(data)
    settings = {name: given for name, given in data.items() if name not in Head.KEYS}
    if wrong_schema := check_schema(data):
        problems.append(wrong_schema)
    if "lock" in settings:
        what, fix = "lock is in a preset, which has no run behind it.", "Leave it out."
        problems.append(Problem(where="lock", what=what, fix=fix))
    if "sources" in (settings.get("dataset") or {}):
        what, fix = "dataset.sources is in a preset, which goes with any pictures.", "Leave it out."
        problems.append(Problem(where="dataset.sources", what=what, fix=fix))
    if not problems or "newer" not in problems[-1].what:
        problems = [
            replace(p, line=place.line if (place := places.get(_path(p.where))) else None)
            for p in problems
        ]
        problems += check(merge(_PICTURES, settings), text=text)[1]
    if problems:
        raise BundleError(sorted(problems, key=lambda p: p.line or 0), where)
    reasons = {keys.join(path): place.comment for path, place in places.items()}
    return Preset(
        name=head.name,
        title=head.title,
        description=head.description,
        family=head.family,
        min_memory_gib=head.min_memory_gib,
        devices=head.devices,
        settings=settings,
        reasons={k: why for k, why in reasons.items() if why and k.split(".")[0] in settings},
        path=Path(where) if where else None,
    )
