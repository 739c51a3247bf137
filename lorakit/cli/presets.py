"""`lorakit presets`, and what can be done with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorakit.cli import streams
from lorakit.cli.machine import believed
from lorakit.errors import LorakitError
from lorakit.hardware.detect import detect
from lorakit.hardware.facts import Hardware
from lorakit.planner import sharing
from lorakit.planner.presets import Preset, find, problems, shipped, user
from lorakit.runs.words import clean, number


def list_presets(as_json: bool, machine: Path | None) -> int:
    """List the presets, a person's own first, and say which are not for this machine, or for the
    one in a file."""
    found, hardware = [*user(), *shipped()], believed(machine) or detect()
    if as_json:
        streams.out_json([_facts(preset, hardware) for preset in found])
    else:
        streams.out(*_table(found, hardware))
    streams.problems(problems())
    return 0


def show(name: str, as_json: bool) -> int:
    """Print one preset with all its settings."""
    preset = find(name)
    if as_json:
        facts = _facts(preset, detect())
        streams.out_json({**facts, "settings": preset.settings, "reasons": preset.reasons})
    else:
        streams.out(*(clean(line) for line in preset.text.splitlines()))
    return 0


def copy(name: str, path: Path) -> int:
    """Write a whole preset to a file, to change or to share."""
    if path.exists():
        raise LorakitError(f"{path} exists already.", "Choose another file.")
    sharing.write(find(name), path)
    streams.err(f"written to {clean(str(path))}")
    return 0


def save(name: str, source: Path, title: str, overwrite: bool) -> int:
    """Keep the settings of a bundle as a preset of one's own."""
    from lorakit.bundle import keys, layout, syntax
    from lorakit.bundle.read import parse

    text = syntax.read_text(source)
    reasons = {keys.join(k): p.comment for k, p in layout.places(text).items() if p.comment}
    bundle = parse(text, where=str(source))
    path = sharing.save(
        sharing.of_bundle(name, bundle, title or name, reasons=reasons), overwrite=overwrite
    )
    streams.out(clean(str(path)))
    return 0


def _facts(preset: Preset, hardware: Hardware) -> dict[str, Any]:
    return {
        "name": preset.name,
        "title": preset.title,
        "description": preset.description,
        "family": preset.family,
        "purpose": preset.purpose,
        "min_memory_gib": preset.min_memory_gib,
        "devices": preset.devices,
        "path": None if preset.path is None else str(preset.path),
        "unfit": preset.unfit(hardware),
    }


def _table(found: list[Preset], hardware: Hardware) -> Iterator[str]:
    """Those for this machine with their titles, then the others with the reason."""
    width = max((len(preset.name) for preset in found), default=0)
    others = [(preset.name, why) for preset in found if (why := preset.unfit(hardware))]
    for preset in found:
        if not preset.unfit(hardware):
            memory = number(preset.min_memory_gib, ".3g", "GiB")
            least = f" (from {memory} free)" if preset.min_memory_gib else ""
            yield clean(f"{preset.name:<{width}}  {preset.title}{least}")
    if others:
        yield ""
        yield clean(f"Not for this machine, {hardware.device}:")
    for name, why in others:
        yield clean(f"{name:<{width}}  {why}")
