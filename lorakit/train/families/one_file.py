"""Parts of a base that lies in one file of the original layout, under diffusers' names of layers.

One part is read at a time, tensor by tensor, in the dtype that is asked for.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from lorakit.errors import LorakitError
from lorakit.families import components, layouts
from lorakit.families.single_file import SingleFile, opened


def load(kind: Any, base: Path, part: str, dtype: torch.dtype) -> tuple[Any, list[str], list[str]]:
    """(a UNet or VAE of diffusers' class `kind` on the CPU, its weights that the file lacks, what
    the file has beyond them)."""
    from diffusers.loaders.single_file_utils import (
        convert_ldm_unet_checkpoint,
        convert_ldm_vae_checkpoint,
    )

    config = components.config(base, part)
    with torch.device("meta"):
        model = kind.from_config(config)
    file = opened(base)
    usual = layouts.UNET if part == "unet" else layouts.VAE[0]
    state = {usual + name: value for name, value in _read(file, part, dtype).items()}
    convert = convert_ldm_unet_checkpoint if part == "unet" else convert_ldm_vae_checkpoint
    try:
        told = model.load_state_dict(convert(state, config=config), strict=False, assign=True)
    except (RuntimeError, LookupError) as error:
        raise LorakitError(
            f"The {part} in {base} has weights of other sizes than its family's:"
            f" {str(error).strip().splitlines()[-1].strip()}",
            "Download it again, or choose another model.",
        ) from None
    return model, told.missing_keys, told.unexpected_keys


def text_weights(base: Path, part: str) -> dict[str, Tensor]:
    """The weights of a text encoder, fp32, named as transformers names them."""
    from diffusers.loaders.single_file_utils import convert_open_clip_checkpoint

    file = opened(base)
    state = _read(file, part, torch.float32)
    if not any(name.startswith("transformer.resblocks.") for name in state):
        return state
    width = SimpleNamespace(config=SimpleNamespace(hidden_size=file.configs[part]["hidden_size"]))
    made: dict[str, Tensor] = convert_open_clip_checkpoint(width, state, prefix="")
    return made


def _read(file: SingleFile, part: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """The tensors of one part by their names behind its prefix, each a copy: what is mapped into
    memory may lie at an odd address."""
    prefix, wanted = file.prefixes[part], file.tensors(part)
    found = {}
    if not file.header.offsets:
        pickled = _unpickled(file.path)
        for name in wanted:
            found[name.removeprefix(prefix)] = pickled[name].to(dtype, copy=True)
        return found
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file.path, framework="pt") as weights:
            for name in wanted:
                found[name.removeprefix(prefix)] = weights.get_tensor(name).to(dtype, copy=True)
    except (SafetensorError, OSError) as error:
        raise LorakitError(
            f"The {part} in {file.path.name} cannot be read: {error}", "Download it again."
        ) from None
    return found


def _unpickled(file: Path) -> dict[str, Tensor]:
    """The tensors of a .ckpt, mapped and not read; nothing but tensors is let in."""
    try:
        told = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0]
        raise LorakitError(
            f"{file.name} holds more than weights, and is not read: {first}",
            "Get the .safetensors file of the same model.",
        ) from None
    inside: dict[str, Tensor] = told.get("state_dict", told)
    return inside
