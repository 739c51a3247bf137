from __future__ import annotations

import json
from pathlib import Path

import pytest

import lorakit
from lorakit.families import counts

ASSETS = Path(lorakit.__file__).parent / "assets"


@pytest.mark.parametrize(
    ("config", "attention", "linear"),
    [
        ("configs/sd1/unet.json", 128, 192),
        ("configs/sd2/unet.json", 128, 192),
        ("configs/sdxl/unet.json", 560, 722),
        ("pico/unet/config.json", 56, 84),
    ],
)
def test_modules_of_real_models(config: str, attention: int, linear: int) -> None:
    found = json.loads((ASSETS / config).read_text(encoding="utf-8"))
    assert counts.modules(found, "attention") == attention
    assert counts.modules(found, "linear") == linear
