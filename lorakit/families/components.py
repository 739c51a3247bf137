"""The parts of a diffusers folder: which of the files of each hold the weights that are loaded."""

from __future__ import annotations

from pathlib import Path

from lorakit.errors import LorakitError
from lorakit.families.families import Family

WEIGHTS = {
    "unet": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
    "text_encoder": "model",
    "text_encoder_2": "model",
}
"""File stem of the weights in each folder of a pipeline that has any."""


def weighty(family: Family) -> list[str]:
    """Those of a family's parts that have weights."""
    return [part for part in family.parts if part in WEIGHTS]


def weight_files(folder: Path, part: str) -> dict[Path, int]:
    """The safetensors files of one part, with sizes: the plain ones, else the fp16 variant.

    Raises LorakitError where there are none.
    """
    found = weights_of(folder, part)
    if found:
        return found
    raise LorakitError(
        f"The base model in {folder} has no weights in {part}.",
        f"Expected {part}/{WEIGHTS[part]}.safetensors. Pickled weights (.bin, .ckpt) are not read.",
    )


def weights_of(folder: Path, part: str) -> dict[Path, int]:
    """The safetensors files of one part, with sizes; empty where there are none."""
    stem = WEIGHTS[part]
    for pattern in (f"{stem}.safetensors", f"{stem}-*.safetensors", f"{stem}.fp16*.safetensors"):
        found = {f: f.stat().st_size for f in sorted((folder / part).glob(pattern))}
        if found:
            return found
    return {}
