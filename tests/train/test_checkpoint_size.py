"""What the planner foretells of a run's size on disk, against files that were really written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lorakit.bundle.models import Bundle
from lorakit.families.base_model import inspect
from lorakit.planner.disk import adapter_bytes, checkpoint_bytes, needed_bytes
from lorakit.runs.events import FILE, Log
from lorakit.train.control import Control
from lorakit.train.loop import train


def test_pico_writes_what_was_foretold(bundle: Bundle, tmp_path: Path) -> None:
    whole = bundle.model_dump(by_alias=True)
    whole["base"]["model"] = "pico"
    whole["dataset"]["resolution"] = 64
    whole["adapter"] = {"rank": 8, "targets": "attention"}
    whole["train"]["steps"] = 2
    whole["sample"]["prompts"] = []
    whole["save"]["every"] = 1
    wanted = Bundle.model_validate(whole)
    run = tmp_path / "run"
    run.mkdir()
    log = Log(run / FILE)
    train(wanted, run, log, Control(run, log), torch.device("cpu"))
    base = inspect(wanted.base, run)
    written = {f: f.stat().st_size for f in run.rglob("*") if f.is_file()}
    checkpoint = run / "checkpoints" / "step-000002"
    size = sum(n for f, n in written.items() if f.parent == checkpoint)
    assert checkpoint_bytes(wanted, base) == pytest.approx(size, rel=0.1)
    for layout in ("tiny.safetensors", "tiny.diffusers.safetensors"):
        assert adapter_bytes(wanted, base) == pytest.approx(written[run / layout], rel=0.1)
    assert sum(written.values()) < needed_bytes(wanted, base)
