"""Writes checkpoints, complete or absent, and puts a training back to one. Nothing is pickled.

A checkpoint is written under another name, flushed to the disk, closed by its manifest, and
renamed. How one is found and verified is in `runs/checkpoints.py`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from lorakit import durable
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs import checkpoints
from lorakit.runs.checkpoints import Checkpoint
from lorakit.train import optim
from lorakit.train import sample as samples
from lorakit.train.adapters import files

PROBE = ".probe.part"


def save(
    run: Path,
    step: int,
    adapter: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    names: Sequence[str],
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    counters: Mapping[str, Any],
    keep: int,
) -> tuple[Path, int]:
    """Write the checkpoint of a step, remove the oldest beyond `keep`; returns (folder, bytes).

    `names` are those of the trained weights, in the optimizer's order. A complete one that is there
    already stays as it is. Raises OSError, and then nothing is left of it and the earlier ones are
    intact.
    """
    root = run / checkpoints.FOLDER
    root.mkdir(exist_ok=True)
    whole = root / f"step-{step:06d}"
    part = root / f".step-{step:06d}.part"
    shutil.rmtree(part, ignore_errors=True)
    if step not in checkpoints.complete(run):
        try:
            tensors, numbers = optim.flatten(optimizer, names)
            kept = {"optimizer": numbers, "scaler": scaler.state_dict()}
            _fill(part, adapter, metadata, tensors, {"step": step, **counters, **kept})
            _remove(whole)  # something that was never complete
            part.rename(whole)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)  # half a checkpoint only takes room
            raise
        durable.sync(root)
    others = [old for old in checkpoints.complete(run) if old != step]
    for old in others[: max(0, len(others) - keep + 1)]:
        _remove(root / f"step-{old:06d}")
    return whole, sum(f.stat().st_size for f in whole.iterdir())


def _fill(
    part: Path,
    adapter: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    optimizer: Mapping[str, Tensor],
    state: Mapping[str, Any],
) -> None:
    part.mkdir()
    files.write(part / checkpoints.ADAPTER, adapter, metadata)
    files.write(part / checkpoints.OPTIMIZER, optimizer, {"format": "pt"})
    durable.write(part / checkpoints.STATE, json.dumps(state, indent=1).encode())
    checkpoints.write_manifest(part)
    durable.sync(part)


def _remove(path: Path) -> None:
    """Take a checkpoint away so that no part of it is ever taken for a whole one."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    gone = path.with_name(f".{path.name}.gone.part")
    shutil.rmtree(gone, ignore_errors=True)
    path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def tidy(run: Path, step: int) -> None:
    """Remove what was cut off while it was written; put checkpoints beyond `step` aside."""
    for folder in (run, run / checkpoints.FOLDER, run / samples.FOLDER):
        durable.sweep(folder)
    for path in checkpoints.beyond(run, step):
        aside = path.with_name(path.name + checkpoints.ASIDE)
        _remove(aside)
        path.rename(aside)


def restore(
    found: Checkpoint,
    adapter: Mapping[str, Tensor],
    names: Sequence[str],
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
) -> None:
    """Put the trained weights, the optimizer and the loss scaling back to a checkpoint.

    `adapter` are the live weights and alphas under the names that the file has; weights are filled
    in place, so that the model and the optimizer go on sharing them. Raises LorakitError where the
    checkpoint is of another adapter.
    """
    saved = load_file(found.folder / checkpoints.ADAPTER)
    for name in sorted({*adapter, *saved}):
        there, asked = _described(saved.get(name), name), _described(adapter.get(name), name)
        if there != asked:
            raise LorakitError(
                f"The checkpoint {found.folder.name} is of another adapter: {name} is {there} in"
                f" its {checkpoints.ADAPTER}, and {asked} by the bundle.",
                "Put the [adapter] of the run's bundle back to what it was.",
                ExitCode.DATA,
            )
    with torch.no_grad():
        for name, weight in adapter.items():
            weight.copy_(saved[name])
    tensors = load_file(found.folder / checkpoints.OPTIMIZER)
    try:
        optim.restore(optimizer, names, tensors, found.state["optimizer"])
    except (KeyError, ValueError) as error:
        raise LorakitError(
            f"The optimizer's state in {found.folder.name} does not fit: {error}.",
            "Put the [train] of the run's bundle back to what it was.",
            ExitCode.DATA,
        ) from error
    if scaler.is_enabled() and found.state["scaler"]:  # none where fp16 comes only now
        scaler.load_state_dict(found.state["scaler"])


def _described(tensor: Tensor | None, name: str) -> str:
    if tensor is None:
        return "missing"
    return f"{tensor.item():g}" if name.endswith(".alpha") else f"of shape {list(tensor.shape)}"


def probe(run: Path, size_bytes: int) -> None:
    """Raise OSError unless `size_bytes` can be written in the run's folder now."""
    path = run / PROBE
    block = b"\0" * 2**20
    try:
        with path.open("wb") as file:
            for start in range(0, size_bytes, len(block)):
                file.write(block[: size_bytes - start])
            file.flush()
            os.fsync(file.fileno())
    finally:
        path.unlink(missing_ok=True)
