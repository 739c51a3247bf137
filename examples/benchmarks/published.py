"""The dry run beside peaks that others have measured and published.

    python examples/benchmarks/published.py

Nothing is loaded and no card is needed: the step runs on the meta device, and what a driver takes
is left out, because the measured figures are the allocator's. They are of SimpleTuner, from its
documentation of segmented checkpointing: one card, after warm-up, latents and texts cached, batch
1. Each is counted twice: as lorakit trains, and with every norm in fp32 as `torch.autocast` has
them, under which other trainers run. Below stands what the two still do not have in common.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from lorakit.bundle.models import Bundle
from lorakit.train import dryrun, memory, sizes
from lorakit.train.families import family_of

GIB = 2**30


@dataclass(frozen=True)
class Published:
    family: str
    resolution: int
    checkpointing: str
    measured: dict[str, float]
    """GiB by card."""
    differs: str


LORA = "measured: bf16 adapter and optimizer, workspaces of cuBLAS and cuDNN; counted: fp32, none"
LOKR = (
    "measured: a LoKr of full matrices on attention, which builds each layer's whole update, and"
    " the workspaces; counted: a LoRA of rank 16 in fp32"
)

FIGURES = [
    Published("sd1", 512, "none", {"H100": 2.87, "L40S": 2.83}, LORA),
    Published("sd1", 512, "full", {"H100": 1.98, "L40S": 1.93}, LORA),
    Published("sdxl", 1024, "none", {"H100": 13.03, "L40S": 12.98}, LOKR),
    Published("sdxl", 1024, "full", {"H100": 6.53, "L40S": 6.48}, LOKR),
]


def bundle(figure: Published) -> Bundle:
    return Bundle.model_validate(
        {
            "schema": 1,
            "name": "published",
            "base": {"family": figure.family, "model": "owner/name"},
            "dataset": {"sources": [{"path": "."}], "resolution": figure.resolution},
            "adapter": {"rank": 16, "targets": "attention"},
            "train": {"precision": "bf16", "batch_size": 1},
            "memory": {"checkpointing": figure.checkpointing},
        }
    )


def counted(figure: Published) -> dryrun.Parts:
    wanted, shape = bundle(figure), sizes.of(figure.family)
    family = family_of(wanted)
    with memory.undisturbed():
        unet, weights = dryrun.prepared(family, shape, wanted)
        return dryrun.training(family, shape, wanted, "flash", unet, weights)


@contextlib.contextmanager
def as_autocast() -> Iterator[None]:
    """Norms in fp32, products and convolutions in bf16. autocast itself does nothing on meta."""
    group, layer, linear = F.group_norm, F.layer_norm, F.linear
    convolution = torch.nn.Conv2d._conv_forward

    def wide(value: Tensor | None) -> Tensor | None:
        return None if value is None else value.float()

    def narrow(value: Tensor) -> Tensor:
        return value.to(torch.bfloat16)

    F.group_norm = lambda x, groups, w=None, b=None, eps=1e-5: group(
        x.float(), groups, wide(w), wide(b), eps
    )
    F.layer_norm = lambda x, shape, w=None, b=None, eps=1e-5: layer(
        x.float(), shape, wide(w), wide(b), eps
    )
    F.linear = lambda x, w, b=None: linear(narrow(x), narrow(w), b)
    torch.nn.Conv2d._conv_forward = lambda self, x, w, b: convolution(self, narrow(x), narrow(w), b)
    try:
        yield
    finally:
        F.group_norm, F.layer_norm, F.linear = group, layer, linear
        torch.nn.Conv2d._conv_forward = convolution


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"{'GiB':18}{'lorakit':>9}{'autocast':>10}{'H100':>8}{'ratio':>7}{'L40S':>8}{'ratio':>7}")
    for figure in FIGURES:
        parts = counted(figure)
        with as_autocast():
            cast = sum(counted(figure).values()) / GIB
        beside = "".join(f"{gib:8.2f}{cast / gib:7.2f}" for gib in figure.measured.values())
        name = f"{figure.family} {figure.resolution}, {figure.checkpointing}"
        print(f"{name:18}{sum(parts.values()) / GIB:9.2f}{cast:10.2f}{beside}")
        print("    " + ", ".join(f"{part} {size / GIB:.2f}" for part, size in parts.items()))
        print(f"    {figure.differs}")


if __name__ == "__main__":
    main()
