"""The checkpoints of a run as they lie on disk: which are complete, and why others are not.

`checkpoints/step-000500/` holds `adapter.safetensors`, `optimizer.safetensors`, `state.json` and,
written last, `manifest.json` with the size and hash of each. A checkpoint without a manifest that
fits is not one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorakit import durable
from lorakit.errors import ExitCode, LorakitError

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
ADAPTER = "adapter.safetensors"
OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
PARTS = (ADAPTER, OPTIMIZER, STATE)

ASIDE = ".broken"
"""Behind the name of one that was not complete when the run went on from an earlier one."""

_NAME = re.compile(r"step-(\d{1,12})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint."""

    step: int
    folder: Path
    state: dict[str, Any]
    """`state.json`: counters, and what the optimizer keeps in plain numbers."""


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to go on from."""

    newest: Checkpoint | None
    """The complete one with the highest step."""
    skipped: tuple[str, ...]
    """What would be newer but is not complete: its name and why, in words."""
    lost: bool
    """There were checkpoints, and not one of them is complete."""


def find(run: Path) -> Found:
    """The newest complete checkpoint of a run, by number, every byte of it verified."""
    skipped: list[str] = []
    lost = False
    for step, path in _entries(run):
        if path.name.endswith(ASIDE):
            continue
        named = _NAME.fullmatch(path.name) is not None
        why = _wrong(path, step, deep=True) if named else "it was not written to its end"
        if not why:
            state = json.loads((path / STATE).read_text(encoding="utf-8"))
            return Found(Checkpoint(step, path, state), tuple(skipped), False)
        skipped.append(f"{path.name}: {why}")
        lost = lost or named
    return Found(None, tuple(skipped), lost)


def start(run: Path, steps: int) -> Found:
    """What a run goes on from. Raises LorakitError where its checkpoints are all broken,
    or the newest is beyond `steps`."""
    found = find(run)
    if found.lost:
        lines = "\n".join(f"  {line}" for line in found.skipped)
        raise LorakitError(
            f"No checkpoint of {run.name} is complete.",
            f"{lines}\nBegin anew with: lorakit train {shlex.quote(str(run / 'bundle.toml'))}",
            ExitCode.DATA,
        )
    if found.newest and found.newest.step > steps:
        raise LorakitError(
            f"{run.name} is at step {found.newest.step} already, and {steps} are asked for.",
            "Ask for more with --set train.steps=N.",
        )
    return found


def complete(run: Path) -> list[int]:
    """Steps that have a complete checkpoint, ascending; sizes are looked at, contents are not."""
    named = [(step, path) for step, path in _entries(run) if _NAME.fullmatch(path.name)]
    return sorted(step for step, path in named if not _wrong(path, step, deep=False))


def beyond(run: Path, step: int) -> list[Path]:
    """What has the name of a checkpoint of a later step than this."""
    return [path for n, path in _entries(run) if n > step and _NAME.fullmatch(path.name)]


def write_manifest(folder: Path) -> None:
    """Close a checkpoint: sizes and hashes of what lies in the folder, flushed to the disk."""
    facts = {f.name: {"bytes": f.stat().st_size, "sha256": _sha256(f)} for f in folder.iterdir()}
    durable.write(folder / MANIFEST, json.dumps(dict(sorted(facts.items())), indent=1).encode())


def _entries(run: Path) -> list[tuple[int, Path]]:
    """What is named after a step, whatever it is, the highest step first."""
    try:
        found = list((run / FOLDER).iterdir())
    except OSError:
        return []
    named = ((_NAME.search(path.name), path) for path in found)
    return sorted(((int(m[1]), path) for m, path in named if m), reverse=True)


def _wrong(path: Path, step: int, *, deep: bool) -> str:
    """Why this is no complete checkpoint, or nothing."""
    if path.is_symlink() and not path.exists():
        return "it is a link to something that is not there"
    if not path.is_dir():
        return "it is not a folder"
    try:
        facts = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        for name in PARTS:
            file, fact = path / name, facts[name]
            size = file.stat().st_size
            if size != fact["bytes"]:
                return f"{name} has {size:,} of {fact['bytes']:,} bytes"
            if deep and _sha256(file) != fact["sha256"]:
                return f"{name} is damaged"
        if deep and json.loads((path / STATE).read_text(encoding="utf-8"))["step"] != step:
            return f"its state is of another step than {step}"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    except (ValueError, KeyError, TypeError):
        return f"{MANIFEST} or {STATE} is damaged"
    return ""


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
