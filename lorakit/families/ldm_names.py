"""The names that the original implementation of latent diffusion gives to the layers of a UNet."""

from __future__ import annotations

import re

LAYERS = 2
"""Attention layers of each level on the way down; every published SDXL has this many."""


def ldm_name(module: str) -> str:
    """The original name of a module inside an attention layer that diffusers names `module`.

    diffusers counts levels and the layers within each; the original counts through. The way down
    (`input_blocks`) begins with the first convolution, and each level has two layers and the one
    that halves the size; the way up (`output_blocks`) has three layers a level. In each of these
    blocks part 0 is the convolutions and part 1 the attention.

        down_blocks.1.attentions.0.proj_in  ->  input_blocks.4.1.proj_in
        mid_block.attentions.0.proj_in      ->  middle_block.1.proj_in
        up_blocks.0.attentions.2.proj_in    ->  output_blocks.2.1.proj_in

    Raises ValueError for a module that is not inside an attention layer.
    """
    match module.split("."):
        case ["down_blocks", level, "attentions", layer, *rest]:
            block = f"input_blocks.{1 + int(level) * (LAYERS + 1) + int(layer)}"
        case ["mid_block", "attentions", "0", *rest]:
            block = "middle_block"
        case ["up_blocks", level, "attentions", layer, *rest]:
            block = f"output_blocks.{int(level) * (LAYERS + 1) + int(layer)}"
        case _:
            raise ValueError(f"{module} is not inside an attention layer")
    return ".".join((block, "1", *rest))


def as_attentions(name: str) -> str:
    """An original name with part 1 of a block called `attentions`, as diffusers calls it; blocks
    keep their numbers. What stands in part 1 where there is no attention is called so, too."""
    return _PART_1.sub(r"\1.attentions.1.", name)


_PART_1 = re.compile(r"^(input_blocks\.\d+|middle_block|output_blocks\.\d+)\.1\.")
