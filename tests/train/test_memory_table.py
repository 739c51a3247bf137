"""The shipped table against dry runs of settings that it was not made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lorakit.bundle.models import PICO, Bundle
from lorakit.families.base_model import usual
from lorakit.families.blocks import units
from lorakit.families.shipped import ASSETS
from lorakit.hardware.facts import Hardware
from lorakit.planner import memory as planned
from lorakit.planner.overheads import PROGRAM
from lorakit.train import dryrun, sizes, table
from lorakit.train.families import family_of

HUB = "owner/name"


def request(family: str, **keys: Any) -> Bundle:
    """Dotted keys with two underscores in the place of the dot."""
    whole: dict[str, Any] = {
        "schema": 1,
        "name": "planned",
        "base": {"family": family, "model": HUB},
        "dataset": {"sources": [{"path": "."}]},
        "sample": {"prompts": ["a robot"]},
    }
    for key, value in keys.items():
        section, _, name = key.partition("__")
        whole.setdefault(section, {})[name] = value
    return Bundle.model_validate(whole)


def from_table(bundle: Bundle, kernel: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Bytes of each phase, without the program itself."""
    monkeypatch.setattr(planned, "kernel", lambda *_: kernel)
    base = None if bundle.base.model == PICO else usual(bundle.base.family)
    found = planned.phases(bundle, base, Hardware())
    assert found is not None
    return {
        phase.name: sum(p.gib for p in phase.parts if p != PROGRAM) * planned.GIB for phase in found
    }


def from_dry_run(bundle: Bundle, kernel: Any) -> dict[str, float]:
    folder = ASSETS / "pico" if bundle.base.model == PICO else None
    shape = sizes.of(bundle.base.family, folder)
    found = dryrun.dry_run(family_of(bundle), shape, bundle, kernel)
    return {name: sum(parts.values()) for name, parts in found.items()}


@pytest.mark.parametrize(
    ("kernel", "keys"),
    [
        ("cpu", {"dataset__resolution": 96, "train__batch_size": 3, "train__precision": "fp32"}),
        ("flash", {"dataset__resolution": 64, "adapter__rank": 200, "train__batch_size": 1}),
        ("cpu", {"dataset__resolution": 64, "train__precision": "fp32", "train__batch_size": 5,
                 "adapter__targets": "linear", "memory__checkpointing": "full",
                 "train__accumulation": 2}),
        ("math", {"dataset__resolution": 128, "train__optimizer": "adafactor",
                  "train__batch_size": 2}),
        ("flash", {"dataset__resolution": 128, "memory__cache_latents": False}),
        ("flash", {"dataset__resolution": 64, "memory__cache_text": False}),
    ],
)  # fmt: skip
def test_pico(kernel: str, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = request("sd1", base__model=PICO, **keys)
    told, counted = from_table(bundle, kernel, monkeypatch), from_dry_run(bundle, kernel)
    assert told == pytest.approx(counted, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "kernel", "keys"),
    [
        ("sd1", "flash", {"dataset__resolution": 512, "train__batch_size": 4}),
        ("sd1", "efficient", {"dataset__resolution": 256, "train__precision": "fp32",
                              "adapter__targets": "linear", "train__batch_size": 1}),
        ("sd1", "math", {"dataset__resolution": 512, "train__batch_size": 1}),
        ("sd2", "flash", {"dataset__resolution": 768, "adapter__targets": "linear",
                          "adapter__rank": 128, "memory__checkpointing": "full"}),
        ("sdxl", "flash", {"dataset__resolution": 1024, "adapter__rank": 16}),
        ("sdxl", "flash", {"dataset__resolution": 768, "train__batch_size": 3,
                           "adapter__targets": "linear", "train__optimizer": "adafactor",
                           "memory__checkpointing": "full", "adapter__rank": 64}),
        ("sdxl", "flash", {"dataset__resolution": 1024, "train__optimizer": "adafactor",
                           "adapter__targets": "linear", "adapter__rank": 256}),
        ("sdxl", "flash", {"dataset__resolution": 1024, "memory__checkpointing": "full",
                           "memory__cache_latents": False, "memory__cache_text": False}),
        ("sdxl", "efficient", {"dataset__resolution": 1024, "train__precision": "fp16",
                               "memory__checkpointing": 30, "adapter__rank": 8}),
    ],
)  # fmt: skip
def test_families(
    family: str, kernel: str, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = request(family, **keys)
    told, counted = from_table(bundle, kernel, monkeypatch), from_dry_run(bundle, kernel)
    assert told == pytest.approx(counted, rel=0.02)


def test_the_table_is_of_the_blocks_and_targets_that_there_are() -> None:
    """Else it is time for `python -m lorakit.train.table`."""
    shipped = planned._table()["bases"]
    for name, entry in shipped.items():
        shape = sizes.of("sd1", ASSETS / "pico") if name == PICO else sizes.of(name)
        for key, training in entry["training"].items():
            assert training["blocks"] == len(units(shape.unet)), (name, key)
            assert training["fused"]["training"][-1]["recomputed"] == training["blocks"]


def test_sizes_tell_what_they_grow_with() -> None:
    area = table.ROWS * table.SQUARE**2
    assert table.terms_of(4 * 320) == (table.TERMS.index((0, 0, 0)), 1280)
    assert table.terms_of(8 * table.RANK) == (table.TERMS.index((0, 0, 1)), 8)
    assert table.terms_of(table.BATCH * area // 4) == (table.TERMS.index((1, 1, 0)), 0.25)
    quadratic = table.terms_of(2 * table.BATCH * area**2)
    assert quadratic == (table.TERMS.index((1, 2, 0)), 2)
    padded = (table.ROWS * table.SQUARE + 1) * (table.SQUARE + 1)
    assert table.terms_of(table.BATCH * padded)[0] == table.TERMS.index((1, 1, 0))


def test_the_envelope_is_as_high_as_all_moments() -> None:
    drawn = np.random.default_rng(1).uniform(0, 5, (40, len(table.TERMS)))
    chosen = table.envelope(drawn, table.NOTHING)
    heights = drawn @ table.points().T
    assert len(chosen) < 40
    assert (heights[chosen].max(0) >= table.CLOSE * heights.max(0) - 1e-9).all()
