"""How many modules an adapter has to have, counted from a UNet's configuration alone.

The names of a model's modules come from a library, which may rename or wrap them; then an adapter
silently has fewer. This count does not know any name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_IN_A_BLOCK = {"attention": 8, "linear": 10}
"""q, k, v and out of self- and cross-attention; two layers of feed-forward."""

_AROUND_BLOCKS = {"attention": 0, "linear": 2}
"""The projections into and out of the blocks of one transformer."""


def modules(config: Mapping[str, Any], targets: str) -> int:
    """Modules that `adapter.targets` means in a UNet with this configuration."""
    transformers = _transformers(config)
    return sum(_IN_A_BLOCK[targets] * blocks + _AROUND_BLOCKS[targets] for blocks in transformers)


def _transformers(config: Mapping[str, Any]) -> list[int]:
    """Blocks in each transformer of a UNet."""
    down, up = config["down_block_types"], config["up_block_types"]
    layers = each(config.get("layers_per_block", 2), len(down))
    depths = each(config.get("transformer_layers_per_block", 1), len(down))
    found: list[int] = []
    for kind, count, depth in zip(down, layers, depths, strict=True):
        found += [depth] * count if "CrossAttn" in kind else []
    if "CrossAttn" in (config.get("mid_block_type", "UNetMidBlock2DCrossAttn") or ""):
        found.append(depths[-1])
    for kind, count, depth in zip(up, reversed(layers), reversed(depths), strict=True):
        found += [depth] * (count + 1) if "CrossAttn" in kind else []
    return found


def each(value: Any, count: int) -> list[int]:
    """What a configuration says once for all levels, or for each."""
    return [value] * count if isinstance(value, int) else list(value)
