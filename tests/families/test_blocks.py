"""Which blocks of a UNet can recompute, counted from its configuration alone."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from lorakit.families import blocks
from lorakit.families.shipped import ASSETS

FILES = {
    "sd1": "configs/sd1/unet.json",
    "sd2": "configs/sd2/unet.json",
    "sdxl": "configs/sdxl/unet.json",
    "pico": "pico/unet/config.json",
}


def config(name: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((ASSETS / FILES[name]).read_text(encoding="utf-8"))
    return made


@pytest.mark.parametrize(
    ("name", "resnets", "transformers"),
    [("sd1", 21, 15), ("sd2", 21, 15), ("sdxl", 14, 70), ("pico", 7, 6)],
)
def test_how_many_there_are(name: str, resnets: int, transformers: int) -> None:
    """Without resnets before the first transformer, and without a transformer at the very end."""
    units = blocks.units(config(name))
    kinds = [unit.kind for unit in units]
    assert (kinds.count("resnet"), kinds.count("transformer")) == (resnets, transformers)
    assert blocks.count(config(name)) == len({unit.name for unit in units}) == len(units)


@pytest.mark.parametrize("targets", ["attention", "linear"])
@pytest.mark.parametrize("name", FILES)
def test_what_frees_most_for_its_work_comes_first(name: str, targets: str) -> None:
    units = blocks.units(config(name), targets)
    worth = [unit.bytes_share / unit.flops_share for unit in units]
    assert all(a >= b * (1 - 1e-12) for a, b in itertools.pairwise(worth))
    assert sum(unit.bytes_share for unit in units) == pytest.approx(1)
    assert 0.6 < sum(unit.flops_share for unit in units) < 0.95
    assert {unit.name for unit in units} == {unit.name for unit in blocks.units(config(name))}


def test_the_first_of_sdxl_are_the_earliest_of_its_wide_transformers() -> None:
    first = blocks.units(config("sdxl"))[0]
    assert first.name == "down_blocks.1.attentions.0.transformer_blocks.0"
    assert (first.kind, first.level) == ("transformer", 1)


def test_half_of_the_freed_bytes_of_sdxl_cost_less_than_half_of_the_work() -> None:
    units = blocks.units(config("sdxl"))
    freed = list(itertools.accumulate(unit.bytes_share for unit in units))
    again = list(itertools.accumulate(unit.flops_share for unit in units))
    half = next(n for n, share in enumerate(freed) if share >= 0.5)
    assert again[half] < 0.45 * again[-1]


def test_a_lopsided_unet_without_a_middle() -> None:
    """As distilled relatives of SDXL have it: other depths on the way up, and no middle."""
    lopsided = {
        **config("sdxl"),
        "mid_block_type": None,
        "transformer_layers_per_block": [0, [2, 2], [4, 4]],
        "reverse_transformer_layers_per_block": [[4, 4, 10], [2, 1, 1], 1],
    }
    names = [unit.name for unit in blocks.units(lopsided)]
    assert sum("transformer_blocks" in name for name in names) == 2 * 2 + 2 * 4 + 18 + 4
    assert "up_blocks.0.attentions.2.transformer_blocks.9" in names
    assert "up_blocks.1.attentions.1.transformer_blocks.1" not in names
    assert not [name for name in names if name.startswith("mid_block")]
