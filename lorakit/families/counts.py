"""How many modules an adapter has to have, counted from a UNet's configuration alone.

The names of a model's modules come from a library, which may rename or wrap them; then an adapter
silently has fewer. This count does not know any name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorakit.families.blocks import stages

_IN_A_BLOCK = {"attention": 8, "linear": 10}
"""q, k, v and out of self- and cross-attention; two layers of feed-forward."""

_AROUND_BLOCKS = {"attention": 0, "linear": 2}
"""The projections into and out of the blocks of one transformer."""


def modules(config: Mapping[str, Any], targets: str) -> int:
    """Modules that `adapter.targets` means in a UNet with this configuration."""
    depths = [depth for stage in stages(config) for depth in stage.depths]
    return sum(_IN_A_BLOCK[targets] * depth + _AROUND_BLOCKS[targets] for depth in depths)
