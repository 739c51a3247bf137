"""Stable Diffusion XL: two text encoders, and a model that is told of sizes and crops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lorakit.dataset.buckets import Fit
from lorakit.families import components
from lorakit.train.families.clip import Encoder
from lorakit.train.families.stable_diffusion import StableDiffusion
from lorakit.train.step import Conditions

TINY = {
    "sample_size": 8,
    "block_out_channels": (16, 32),
    "layers_per_block": 2,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    "transformer_layers_per_block": (1, 2),
    "cross_attention_dim": 64,
    "attention_head_dim": (2, 4),
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 32 + 6 * 8,
    "norm_num_groups": 8,
}


class StableDiffusionXL(StableDiffusion):
    """What SDXL has beyond its forerunners."""

    @torch.no_grad()
    def encode_text(self, encoders: Sequence[Encoder], text: str) -> dict[str, Tensor]:
        """hidden [tokens, both widths]: both encoders' last layer but one, side by side; pooled
        [width]: the second one's projection. fp32, on the CPU."""
        answers = [encoder.read(text) for encoder in encoders]
        hidden = torch.cat([answer.hidden_states[-2][0] for answer in answers], dim=-1)
        return {"hidden": hidden.float().cpu(), "pooled": answers[-1].text_embeds[0].float().cpu()}

    def sizes(self, width: int, height: int, fit: Fit) -> tuple[int, ...]:
        """Height and width of the picture as it was, top and left of the crop in the scaled
        picture, height and width of what is left, all in pixels.

        In this order the model was trained on them, and the pipelines give them.
        """
        return (height, width, fit.top, fit.left, fit.height, fit.width)

    def pipeline_class(self) -> Any:
        """diffusers' pipeline of this family."""
        from diffusers import StableDiffusionXLPipeline

        return StableDiffusionXLPipeline

    def pipeline(self, **parts: Any) -> Any:
        """That pipeline made of parts, without text encoders, and without a watermark."""
        return self.pipeline_class()(
            **parts,
            text_encoder=None,
            text_encoder_2=None,
            tokenizer=None,
            tokenizer_2=None,
            add_watermarker=False,
        )

    def against(self, base: Path, negative: str, told: Conditions) -> Conditions:
        """Zeros for no negative prompt, unless its folder's index says that it is an empty one."""
        index = components.index(base)
        if negative or not index.get("force_zeros_for_empty_prompt", True):
            return told
        assert told.pooled is not None
        return Conditions(torch.zeros_like(told.hidden), torch.zeros_like(told.pooled))


FAMILY = StableDiffusionXL("sdxl", TINY)
