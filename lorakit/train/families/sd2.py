"""Stable Diffusion 2.x: a wider text encoder, linear projections, often v-prediction.

All of that stands in the configuration files, so the code is that of 1.x.
"""

from __future__ import annotations

from lorakit.train.families import sd1
from lorakit.train.families.stable_diffusion import StableDiffusion

TINY = {**sd1.TINY, "attention_head_dim": (2, 4), "use_linear_projection": True}

FAMILY = StableDiffusion("sd2", TINY)
