"""The kernel that the lock names is the one that serves the real step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from trainings import changed

from lorakit.bundle.models import Bundle
from lorakit.families import attention as sizes
from lorakit.families.base_model import inspect
from lorakit.train.attention import kernel
from lorakit.train.loop import family_of
from lorakit.train.step import DTYPES, Conditions

CPU = torch.device("cpu")


class Seen(TorchDispatchMode):
    """The kernels of attention that are called, and the sizes they are called with."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: set[str] = set()
        self.sizes: set[tuple[int, ...]] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        if "attention" in name and "backward" not in name:
            self.kernels.add("flash" if "flash_attention_for_cpu" in name else name)
            q, k = args[:2]
            self.sizes.add((q.shape[1], q.shape[3], q.shape[2], k.shape[2]))
        if "softmax" in name:
            self.kernels.add("math")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("family", ["sd1", "sd2", "sdxl"])
def test_the_kernel_is_the_one_that_serves(
    bundle: Bundle, bases: dict[str, Path], family: str, precision: str
) -> None:
    wanted = changed(
        bundle,
        base={"model": str(bases[family]), "family": family},
        train={"precision": precision},
        dataset={"resolution": 64},
    )
    base, dtype = inspect(wanted.base, Path("/")), DTYPES[precision]
    made = family_of(wanted)
    unet = made.load_unet(bases[family], dtype)
    side, width = 64 // base.latent_factor, unet.config.cross_attention_dim
    told = Conditions(torch.randn(2, 77, width))
    if family == "sdxl":
        pooled = unet.config.projection_class_embeddings_input_dim
        told = Conditions(
            told.hidden,
            torch.randn(2, pooled - 6 * unet.config.addition_time_embed_dim),
            torch.zeros(2, 6),
        )

    def served() -> Seen:
        noisy = torch.randn(2, 4, side, side)
        with Seen() as seen:
            made.predictor(unet, dtype)(noisy, torch.tensor([1, 2]), told)
        return seen

    seen = served()
    assert seen.sizes == set(sizes.sizes(unet.config, side, 77))
    assert {kernel(wanted, base, CPU)} == seen.kernels == {"flash"}
    with sdpa_kernel(SDPBackend.MATH):
        assert {kernel(wanted, base, CPU)} == served().kernels == {"math"}


def test_what_is_not_known_is_empty(bundle: Bundle) -> None:
    base = inspect(bundle.base, Path("/"))
    assert kernel(changed(bundle, memory={"attention": "xformers"}), base, CPU) == ""
    away = inspect(bundle.base.model_copy(update={"model": "owner/name"}), Path("/"))
    assert kernel(bundle, away, CPU) == ""
