"""Stable Diffusion 1.x."""

from __future__ import annotations

from lorakit.train.families.stable_diffusion import StableDiffusion

TINY = {
    "sample_size": 8,
    "block_out_channels": (16, 32),
    "layers_per_block": 1,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 32,
    "attention_head_dim": 2,
    "norm_num_groups": 8,
}

FAMILY = StableDiffusion("sd1", TINY)
