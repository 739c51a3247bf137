"""How much a run writes, for bases that are here and for one that is not."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lorakit.bundle.models import Bundle
from lorakit.dataset.scan import scan
from lorakit.families.base_model import BaseFacts, Extent, inspect
from lorakit.families.shipped import ASSETS
from lorakit.planner.disk import (
    EXTENTS,
    PICTURE_BYTES,
    RESERVE_BYTES,
    Written,
    adapter_bytes,
    cache_bytes,
    checkpoint_bytes,
    needed_bytes,
)


def bundle(**sections: dict[str, Any]) -> Bundle:
    whole: dict[str, Any] = {
        "name": "dog",
        "dataset": {"sources": [{"path": "dog"}]},
        "train": {"steps": 1000},
        "sample": {"prompts": ["a dog"]},
    }
    return Bundle.model_validate({**whole, **sections})


@pytest.fixture(scope="module")
def pico() -> BaseFacts:
    return inspect(bundle().base, Path("/"))


def test_the_bound_grows_with_what_is_kept() -> None:
    small = needed_bytes(bundle(adapter={"rank": 4}), None)
    assert needed_bytes(bundle(adapter={"rank": 128}), None) > 8 * small
    many = needed_bytes(bundle(save={"keep": 50, "every": 10}), None)
    assert many > 8 * needed_bytes(bundle(), None)


def test_the_sizes_of_stable_diffusion_15() -> None:
    """Rank 4 on attention has 797,184 weights, rank 16 on linear layers 6.8 million."""
    attention = bundle(adapter={"rank": 4, "targets": "attention"})
    assert 3_200_000 < adapter_bytes(attention, None) < 3_300_000  # measured: 3.25 MB
    linear = bundle(adapter={"rank": 16, "targets": "linear"})
    assert 16 * EXTENTS["sd1"]["linear"].weights_a_rank == 6_782_976
    assert 27_000_000 < adapter_bytes(linear, None) < 27_500_000
    assert checkpoint_bytes(linear, None) == pytest.approx(3 * 4 * 6_782_976, rel=0.01)


def test_a_base_that_is_here_is_counted(pico: BaseFacts) -> None:
    assert pico.extents == {
        "attention": Extent(layers=56, weights_a_rank=5_824),
        "linear": Extent(layers=84, weights_a_rank=12_160),
    }
    wanted = bundle(save={"every": 10, "keep": 100})
    assert needed_bytes(wanted, pico) < needed_bytes(wanted, None) / 5


def test_weights_that_cannot_be_looked_at_count_as_those_of_the_family(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ASSETS / "pico", tmp_path / "model"))
    wanted = bundle(base={"model": str(folder)})
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    shapeless = json.dumps({"a.weight": {"dtype": "F16"}}).encode()
    shapeless = bytes([len(shapeless), *[0] * 7]) + shapeless
    for broken in (b"", b"\xff" * 9, b"\2\0\0\0\0\0\0\0[]", shapeless):
        weights.write_bytes(broken)
        facts = inspect(wanted.base, tmp_path)
        assert facts.extents == {}
        assert needed_bytes(wanted, facts) == needed_bytes(wanted, None)


@pytest.mark.parametrize("keep", [1, 3, 9])
@pytest.mark.parametrize("every", [0, 1, 4, 50])
@pytest.mark.parametrize("step", [0, 8, 20, 23])
def test_a_run_that_goes_on_needs_room_for_what_is_to_come(
    keep: int, every: int, step: int
) -> None:
    """Against a count of the checkpoints that lie there after each step up to 23 and a stop."""
    wanted = bundle(train={"steps": 23}, save={"every": every, "keep": keep}, sample={"every": 10})
    there = [s for s in range(1, step + 1) if every and s % every == 0][-keep:]
    before, most = len(there), len(there)
    for now in range(step + 1, 24):
        if every and (now % every == 0 or now == 23):
            there.append(now)
            most = max(most, len(there))
            del there[:-keep]
    stopped = max(most, len(there) + 1) - before  # a stop saves, whatever `every` is
    written = Written(step=step, checkpoints=before)
    size = checkpoint_bytes(wanted, None)
    more = needed_bytes(wanted, None, written)
    least = stopped * size + 2 * adapter_bytes(wanted, None)
    assert least < more < least + size + RESERVE_BYTES + 5 * PICTURE_BYTES
    assert more <= needed_bytes(wanted, None)


def test_masks_are_in_the_cache_as_well(tmp_path: Path, pico: BaseFacts) -> None:
    """Four bytes more for each cell of a picture that has one, in all its versions."""
    Image.new("RGB", (64, 64), "red").save(tmp_path / "a.png")
    Image.new("RGB", (64, 64), "blue").save(tmp_path / "b.png")
    Image.new("L", (64, 64), 255).save(tmp_path / "a-mask.png")
    shape = {"sources": [{"path": str(tmp_path)}], "resolution": 64, "masks": "files"}
    wanted = bundle(dataset={**shape, "flip": True, "variants": 3})
    report = scan(wanted.dataset, tmp_path, pico)
    plain = dataclasses.replace(
        report, pictures=tuple(dataclasses.replace(p, mask="") for p in report.pictures)
    )
    more = cache_bytes(wanted, pico, report) - cache_bytes(wanted, pico, plain)
    assert more == 3 * (64 // pico.latent_factor) ** 2 * 4
