"""Checkpoints: complete or absent. Nothing in one is pickled.

`checkpoints/step-000500/` holds `adapter.safetensors` (kohya's layout, usable as it is),
`optimizer.safetensors` and `state.json` with counters and a manifest of sizes and hashes. It is
written under another name, flushed to the disk, and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lorakit.train import optim
from lorakit.train.adapters import files

FOLDER = "checkpoints"
_NAME = re.compile(r"^step-(\d+)$")


def save(
    run: Path,
    step: int,
    adapter: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    counters: Mapping[str, Any],
    keep: int,
) -> tuple[Path, int]:
    """Write the checkpoint of a step, remove the oldest beyond `keep`; returns (folder, bytes)."""
    root = run / FOLDER
    root.mkdir(exist_ok=True)
    final = root / f"step-{step:06d}"
    part = root / f".step-{step:06d}.part"
    shutil.rmtree(part, ignore_errors=True)
    try:
        _fill(part, step, adapter, metadata, optimizer, scaler, counters)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)  # half a checkpoint only takes room
        raise
    shutil.rmtree(final, ignore_errors=True)
    part.rename(final)
    _sync(root)
    size = sum(f.stat().st_size for f in final.iterdir())
    for old in sorted(complete(run))[:-keep]:
        shutil.rmtree(root / f"step-{old:06d}", ignore_errors=True)
    return final, size


def _fill(
    part: Path,
    step: int,
    adapter: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    counters: Mapping[str, Any],
) -> None:
    part.mkdir()
    tensors, numbers = optim.flatten(optimizer)
    files.write(part / "adapter.safetensors", adapter, metadata)
    files.write(part / "optimizer.safetensors", tensors, {"format": "pt"})
    manifest = {
        f.name: {"bytes": f.stat().st_size, "sha256": hashlib.sha256(f.read_bytes()).hexdigest()}
        for f in sorted(part.iterdir())
    }
    state = {
        "step": step,
        **counters,
        "optimizer": numbers,
        "scaler": scaler.state_dict(),
        "files": manifest,
    }
    with (part / "state.json").open("w", encoding="utf-8") as file:
        json.dump(state, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def complete(run: Path) -> list[int]:
    """Steps that have a checkpoint, in no order."""
    root = run / FOLDER
    if not root.is_dir():
        return []
    named = ((_NAME.match(f.name), f) for f in root.iterdir())
    return [int(m[1]) for m, f in named if m and (f / "state.json").is_file()]


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def probe(run: Path, size_bytes: int) -> None:
    """Raise OSError unless `size_bytes` can be written in the run's folder now."""
    path = run / ".probe"
    block = b"\0" * 2**20
    try:
        with path.open("wb") as file:
            for start in range(0, size_bytes, len(block)):
                file.write(block[: size_bytes - start])
            file.flush()
            os.fsync(file.fileno())
    finally:
        path.unlink(missing_ok=True)
