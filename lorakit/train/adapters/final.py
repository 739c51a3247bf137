"""The two files that come out of a training, right or not there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from lorakit.bundle.models import Bundle
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.families import FAMILIES
from lorakit.train.adapters import files, lora, metadata, verify

if TYPE_CHECKING:
    from lorakit.train.families.stable_diffusion import StableDiffusion


FOLDER = ".final.part"
"""Where the files lie until they are known to be right."""


def write(
    folder: Path,
    bundle: Bundle,
    unet: Any,
    notes: Mapping[str, str],
    family: StableDiffusion,
    ask: Callable[[], Tensor],
) -> tuple[list[Path], int]:
    """Write the adapter of a UNet in both layouts; returns (files, kohya's first, bytes in all).

    Each is reloaded, compared with what is in memory, and put on the model, which must answer `ask`
    as it does now. Until then they lie in a folder of their own. Raises LorakitError, and then the
    files of an earlier end are as they were.
    """
    matrices = lora.matrices(unet)
    verify.learned(matrices)
    facts, adapter = FAMILIES[bundle.base.family], bundle.adapter
    fresh = folder / FOLDER
    written = {
        fresh / f"{bundle.name}.safetensors": (
            files.kohya(matrices, facts, adapter.alpha),
            notes,
        ),
        fresh / f"{bundle.name}.diffusers.safetensors": (
            files.diffusers(matrices),
            {**notes, **metadata.diffusers(matrices, adapter.rank, adapter.alpha)},
        ),
    }
    size = 0
    try:
        fresh.mkdir(exist_ok=True)
        for path, (content, told) in written.items():
            size += files.write(path, content, told)
            verify.tensors(path, content)
        verify.modules(next(iter(written)), unet.config, adapter.targets)
        verify.answers(unet, list(written), family.load_adapter, ask)
        return [path.replace(folder / path.name) for path in written], size
    except OSError as error:
        raise LorakitError(
            f"The LoRA cannot be written in {folder}: {error.strerror or error}.",
            "Make room there. The checkpoints in the run's folder are intact.",
            ExitCode.DATA,
        ) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
