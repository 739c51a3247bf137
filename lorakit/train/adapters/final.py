"""The two files that come out of a training, right or not there."""

from __future__ import annotations

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
    as it does now. Raises LorakitError, and then neither file is left.
    """
    matrices = lora.matrices(unet)
    verify.learned(matrices)
    facts, adapter = FAMILIES[bundle.base.family], bundle.adapter
    written = {
        folder / f"{bundle.name}.safetensors": (
            files.kohya(matrices, facts, adapter.alpha),
            notes,
        ),
        folder / f"{bundle.name}.diffusers.safetensors": (
            files.diffusers(matrices),
            {**notes, **metadata.diffusers(matrices, adapter.rank, adapter.alpha)},
        ),
    }
    size = 0
    try:
        for path, (content, told) in written.items():
            size += files.write(path, content, told)
            verify.tensors(path, content)
        verify.modules(next(iter(written)), unet.config, adapter.targets)
        verify.answers(unet, list(written), family.load_adapter, ask)
    except BaseException as error:
        for path in written:  # what is not known to be right does not stay under that name
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise LorakitError(
                f"The LoRA cannot be written in {folder}: {error.strerror or error}.",
                "Make room there. The checkpoints in the run's folder are intact.",
                ExitCode.DATA,
            ) from error
        raise
    return list(written), size
