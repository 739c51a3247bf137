"""The family of a diffusers folder, by its configuration files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lorakit.bundle.models import Base
from lorakit.errors import LorakitError
from lorakit.families.families import FAMILIES


def family_of(folder: Path) -> str | None:
    """The family of a diffusers folder by its configuration files, which alone are read; None:
    none that is known here, or not to be told."""
    try:
        index = json.loads((folder / "model_index.json").read_text(encoding="utf-8"))
        unet = json.loads((folder / "unet" / "config.json").read_text(encoding="utf-8"))
        return family_by([part for part in ENCODERS if any(index.get(part) or ())], unet)
    except (OSError, ValueError, AttributeError, TypeError):
        return None


ENCODERS = ("text_encoder", "text_encoder_2", "text_encoder_3")
"""Folders of text encoders that pipelines have."""


def family_by(encoders: list[str], unet: dict[str, Any]) -> str | None:
    """The family of a pipeline with these of `ENCODERS`, and this configuration of its UNet.

    It goes by what makes the families different, not by sizes: two text encoders, or linear
    instead of convolutional projections.
    """
    added = unet.get("addition_embed_type")
    if encoders == ["text_encoder", "text_encoder_2"] and added == "text_time":
        return "sdxl"
    if encoders == ["text_encoder"] and added is None:
        return "sd2" if unet.get("use_linear_projection") else "sd1"
    return None


def agree(base: Base, found: str | None) -> None:
    """Raise where a base turns out to be of another family than the bundle says."""
    if found and found != base.family:
        raise LorakitError(
            f"The base model {base.model} is {FAMILIES[found].title} ({found}), and the bundle says"
            f" {base.family}.",
            f'Set base.family = "{found}", or choose a {FAMILIES[base.family].title} model.',
        )


def schedule_of(folder: Path) -> tuple[str, bool]:
    """(prediction, zero SNR) as the scheduler of a diffusers folder says; "" and False where it
    does not."""
    try:
        text = (folder / "scheduler" / "scheduler_config.json").read_text(encoding="utf-8")
        told = json.loads(text)
        return str(told.get("prediction_type", "")), bool(told.get("rescale_betas_zero_snr"))
    except (OSError, ValueError, AttributeError):
        return "", False
