"""`lorakit presets`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorakit.cli import streams
from lorakit.planner.presets import Preset, find, problems, shipped, user
from lorakit.runs.words import clean, number


def presets(name: str | None, as_json: bool) -> int:
    """List the presets, or print the file of one."""
    if name is not None:
        return _one(find(name), as_json)
    found = [*user(), *shipped()]
    if as_json:
        streams.out_json([_facts(preset) for preset in found])
    else:
        streams.out(*_table(found))
    streams.problems(problems())
    return 0


def _one(preset: Preset, as_json: bool) -> int:
    if as_json:
        streams.out_json({**_facts(preset), "settings": preset.settings, "reasons": preset.reasons})
    elif preset.path is not None:
        lines = preset.path.read_text(encoding="utf-8-sig").splitlines()
        streams.out(*(clean(line) for line in lines))
    return 0


def _facts(preset: Preset) -> dict[str, Any]:
    return {
        "name": preset.name,
        "title": preset.title,
        "description": preset.description,
        "family": preset.family,
        "min_memory_gib": preset.min_memory_gib,
        "devices": preset.devices,
        "path": _text(preset.path),
    }


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _table(found: list[Preset]) -> Iterator[str]:
    width = max((len(preset.name) for preset in found), default=0)
    for preset in found:
        where = "/".join(preset.devices) or "any device"
        memory = number(preset.min_memory_gib, ".0f", "GiB")
        yield clean(f"{preset.name:<{width}}  {preset.title}  ({where}, from {memory} free)")
