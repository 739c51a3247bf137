"""Sizes of the attention in a UNet, from its configuration alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lorakit.families.blocks import each


class Attention(NamedTuple):
    """One size of attention."""

    heads: int
    width: int
    """Of one head."""
    queries: int
    keys: int


def sizes(config: Mapping[str, Any], side: int, tokens: int) -> list[Attention]:
    """Every size of attention in a UNet with this configuration, over pictures and over captions.

    `side` is that of square latents, `tokens` the length of a caption with its ends. What the
    configuration calls the width of a head is the number of heads; the middle is as the last level.
    """
    down, channels = config["down_block_types"], config["block_out_channels"]
    told = config.get("num_attention_heads") or config.get("attention_head_dim", 8)
    middle = config.get("mid_block_type", "UNetMidBlock2DCrossAttn") or ""
    found: list[Attention] = []
    for level, (kind, wide, heads) in enumerate(
        zip(down, channels, each(told, len(down)), strict=True), 1
    ):
        if "CrossAttn" in (kind + middle if level == len(down) else kind):
            queries = side * side
            found += [Attention(heads, wide // heads, queries, keys) for keys in (queries, tokens)]
        side = -(-side // 2)
    return found
