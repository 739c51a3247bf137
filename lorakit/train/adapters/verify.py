"""Does a written file hold the adapter that is in memory, and do its readers see it?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from lorakit.errors import ExitCode, LorakitError
from lorakit.families import counts
from lorakit.train.adapters import files, lora

TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Largest difference of an answer that is taken for the same, as a share of the largest value.

Below fp32 the loader computes the branch in another precision than the training did.
"""


def learned(matrices: dict[str, tuple[Tensor, Tensor]]) -> None:
    """Raise for an adapter that must not be written as final: not finite, or all zero."""
    if not all(torch.isfinite(t).all() for pair in matrices.values() for t in pair):
        raise LorakitError(
            "The adapter holds numbers that are not finite.",
            "Lower the learning rate, or train in fp32 or bf16. Earlier checkpoints are kept.",
            ExitCode.TRAINING_FAILED,
        )
    if not any(up.any() for _, up in matrices.values()):
        raise LorakitError(
            "The adapter is empty: no weight has moved from zero, so nothing was learned.",
            "Raise the learning rate or the number of steps.",
            ExitCode.TRAINING_FAILED,
        )


def modules(path: Path, config: Mapping[str, Any], targets: str) -> None:
    """Raise unless a file in kohya's layout holds as many modules as a UNet of this configuration
    has for `targets`."""
    found = files.modules(path)
    meant = counts.modules(config, targets)
    if found != meant:
        raise LorakitError(
            f"{path.name} holds {found} modules, and this base model has {meant} for {targets}.",
            "Another version of diffusers or peft may name layers otherwise; please report this.",
            ExitCode.TRAINING_FAILED,
        )


def tensors(path: Path, expected: dict[str, Tensor]) -> None:
    """Raise unless the file holds exactly these tensors."""
    found = load_file(path)
    wrong = [
        key
        for key in sorted({*found, *expected})
        if key not in found or key not in expected or not torch.equal(found[key], expected[key])
    ]
    if wrong:
        raise _differs(path, f"{len(wrong)} of {len(expected)} tensors, {wrong[0]} for one")


@torch.no_grad()
def answers(
    unet: Any,
    files: list[Path],
    load: Callable[[Any, Path, str], None],
    ask: Callable[[], Tensor],
) -> None:
    """Raise unless each file, loaded by its reader, makes the model answer as it does now.

    `load(unet, file, name)` puts a file on the model; `ask` returns the answer to a fixed question.
    The trained adapter is active before and after.
    """
    live = ask()
    unet.disable_adapters()
    plain = ask()
    unet.enable_adapters()
    if torch.equal(live, plain):
        raise LorakitError(
            "The adapter changes nothing in what the model answers.",
            "Raise the learning rate or the number of steps.",
            ExitCode.TRAINING_FAILED,
        )
    for layer in lora.layers(unet).values():
        layer.cast_input_dtype_enabled = True
    try:
        for path in files:
            with warnings.catch_warnings():  # two adapters at once are meant here
                warnings.simplefilter("ignore", UserWarning)
                load(unet, path, "reloaded")
                again = ask()
                unet.delete_adapters("reloaded")
                unet.set_adapter(lora.NAME)
            apart = (again - live).abs().max() / live.abs().max()
            # Below fp32 the tolerance may be more than a young LoRA does: it must show as well.
            seen = (again - live).norm() <= 0.5 * (again - plain).norm()
            if not (apart <= TOLERANCE[unet.dtype] and seen):
                raise _differs(path, f"the model's answer, by {apart:.1e} of its largest value")
    finally:
        for layer in lora.layers(unet).values():
            layer.cast_input_dtype_enabled = False


def _differs(path: Path, how: str) -> LorakitError:
    return LorakitError(
        f"{path.name} does not hold what was trained: it differs in {how}.",
        "The checkpoints in the run's folder are intact; please report this.",
        ExitCode.TRAINING_FAILED,
    )
