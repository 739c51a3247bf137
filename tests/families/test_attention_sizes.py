from __future__ import annotations

import json
from pathlib import Path

import pytest

import lorakit
from lorakit.families.attention import sizes

ASSETS = Path(lorakit.__file__).parent / "assets"


@pytest.mark.parametrize(
    ("config", "side", "levels"),
    [
        ("configs/sd1/unet.json", 64, [(8, 40, 4096), (8, 80, 1024), (8, 160, 256), (8, 160, 64)]),
        ("configs/sd2/unet.json", 64, [(5, 64, 4096), (10, 64, 1024), (20, 64, 256), (20, 64, 64)]),
        ("configs/sdxl/unet.json", 128, [(10, 64, 4096), (20, 64, 1024)]),
    ],
)  # fmt: skip
def test_sizes_of_real_models(config: str, side: int, levels: list[tuple[int, int, int]]) -> None:
    found = sizes(json.loads((ASSETS / config).read_text(encoding="utf-8")), side, 77)
    assert [(h.heads, h.width, h.queries) for h in found if h.keys == 77] == levels
    assert [(h.heads, h.width, h.queries) for h in found if h.keys == h.queries] == levels
