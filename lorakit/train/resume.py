"""Where a training begins: at a checkpoint of its run, if there is one."""

from __future__ import annotations

from pathlib import Path

from lorakit.bundle.models import Bundle, Train
from lorakit.runs import checkpoints
from lorakit.runs.checkpoints import Checkpoint
from lorakit.runs.events import FILE, Log, Noted, Resumed, Sampled, Stepped, Tail
from lorakit.train import checkpoint, optim


def start(bundle: Bundle, run: Path, log: Log) -> Checkpoint | None:
    """The checkpoint to go on from, if the run has any. Raises LorakitError where none is left.

    Broken ones beyond it are put aside: this training writes those steps anew.
    """
    found = checkpoints.start(run, bundle.train.steps)
    for line in found.skipped:
        log.append(Noted(text=f"not a complete checkpoint: {line}", level="warning"))
    newest = found.newest
    checkpoint.tidy(run, newest.step if newest else -1)
    if newest is None:
        if any(isinstance(e, Stepped | Sampled) for e in Tail(run / FILE).read()):
            log.append(Resumed(step=0))  # what an earlier process did before its first checkpoint
        return None
    log.append(Resumed(step=newest.step))
    return newest


def reading(train: Train, planned: int, done: int) -> str:
    """What it means for the learning rate that `planned` steps have become `train.steps` after
    `done` of them; empty: nothing."""
    if planned == train.steps or train.schedule not in ("linear", "cosine"):
        return ""
    then = optim.learning_rate(train.model_copy(update={"steps": planned}), done)
    now = optim.learning_rate(train, done + 1)
    return (
        f"the {train.schedule} schedule now runs over {train.steps} steps, not {planned}: after"
        f" {then:.2e} at step {done} the learning rate goes on at {now:.2e}"
    )
