"""Data of families that ships with lorakit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).resolve().parent.parent / "assets"
"""Its folder."""


def configuration(family: str, part: str) -> dict[str, Any]:
    """That of one part of a family's published model, such as `unet` or `scheduler`."""
    shipped = ASSETS / "configs" / family / f"{part}.json"
    made: dict[str, Any] = json.loads(shipped.read_text(encoding="utf-8"))
    return made


def published(family: str) -> dict[str, Any]:
    """Configuration of the UNet of a family's published model."""
    return configuration(family, "unet")
