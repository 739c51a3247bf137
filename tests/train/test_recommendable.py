"""Whatever is recommended can be trained: two steps of each value, on a small model.

xformers is the one that cannot be tried here; it is recommended only where a probe has used it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from trainings import changed, trained, watched

from lorakit.bundle.models import Bundle
from lorakit.bundle.schema import find
from lorakit.planner.optimizers import USED
from lorakit.planner.presets import shipped
from lorakit.runs.events import Stepped

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fresh_cache")]

SEARCHED = {
    "train.precision": ("fp32", "fp16", "bf16"),
    "train.optimizer": tuple(USED),
    "memory.checkpointing": ("none", 1, 2, "full"),
    "train.accumulation": (1, 2),
}


def values() -> list[tuple[str, Any]]:
    """What the search chooses among, and what presets say where only some values are allowed."""
    found = [(key, value) for key, those in SEARCHED.items() for value in those]
    for preset in shipped():
        for table, settings in preset.settings.items():
            for name, value in settings.items():
                doc = find(f"{table}.{name}")
                assert doc is not None
                if table != "base" and (doc.choices or doc.kind == "true or false"):
                    found.append((doc.key, value))
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("key", "value"), values(), ids=lambda v: str(v))
def test_two_steps_of_every_value(key: str, value: Any, bundle: Bundle, tmp_path: Path) -> None:
    table, name = key.split(".")
    tables: dict[str, dict[str, Any]] = {
        "train": {"steps": 2, "warmup_steps": 0},
        "sample": {"prompts": []},
        "save": {"every": 0},
    }
    tables[table] = {**tables.get(table, {}), name: value}
    log = watched(tmp_path / "run")
    finished = trained(changed(bundle, **tables), tmp_path / "run", log)
    assert (finished.outcome, finished.step) == ("done", 2)
    losses = [loss for event in log.of(Stepped) for loss in event.losses]
    assert len(losses) == 2
    assert all(loss is not None and math.isfinite(loss) for loss in losses)


def test_nothing_else_is_recommended() -> None:
    """What a preset or the search may say of a kernel of attention is PyTorch's own."""
    assert {value for key, value in values() if key == "memory.attention"} == {"sdpa"}
