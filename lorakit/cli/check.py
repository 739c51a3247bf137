"""`lorakit check`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from lorakit.cli import streams
from lorakit.cli.examined import examine
from lorakit.cli.machine import believed
from lorakit.runs.words import plural


def check(path: Path, settings: list[str], machine: Path | None, as_json: bool) -> int:
    """Print every problem of a bundle. The exit code is that of the first error."""
    examined = examine(path, settings, hardware=believed(machine))
    if as_json:
        streams.out_json([dataclasses.asdict(p) for p in examined.problems])
        return examined.exit_code
    streams.problems(examined.problems, str(path))
    errors = sum(p.severity == "error" for p in examined.problems)
    warnings = len(examined.problems) - errors
    streams.out(f"{path}: {plural(errors, 'error')}, {plural(warnings, 'warning')}")
    return examined.exit_code
