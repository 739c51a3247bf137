"""Draws with the live UNet through the base's own pipeline; the VAE is loaded for each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from lorakit.train.families.stable_diffusion import StableDiffusion, release
from lorakit.train.step import Conditions


@dataclass(slots=True)
class Painter:
    """Draws what `train` has learned so far, or a finished LoRA on a UNet."""

    family: StableDiffusion
    base: Path
    """Its folder or file."""
    scheduler: Mapping[str, Any]
    """Configuration of what draws."""
    unet: Any
    size: tuple[int, int]
    """Width and height in pixels."""
    steps: int
    guidance: float
    texts: dict[str, Conditions] = field(default_factory=dict)
    """What every prompt and the negative prompt say, each alone."""

    def recover(self) -> None:
        """Free what a failed drawing has left."""
        release()

    def vae(self) -> Any:
        """The VAE in the UNet's dtype, but never in fp16: that of SDXL overflows there."""
        dtype = self.unet.dtype
        if dtype == torch.float16:
            dtype = torch.float32
        return self.family.load_vae(self.base).to(self.unet.device, dtype)

    @torch.no_grad()
    def draw_all(self, wanted: Sequence[tuple[str, int]], negative: str) -> list[Image.Image]:
        """A picture for each (prompt, seed), one at a time."""
        vae = self.vae()
        scheduler = self.family.load_scheduler(self.scheduler)
        pipe = self.family.pipeline(unet=self.unet, vae=vae, scheduler=scheduler)
        pipe.set_progress_bar_config(disable=True)
        told = self.family.against(self.base, negative, self.texts[negative])
        against = self._embeds(told, "negative_")
        pictures = []
        for prompt, seed in wanted:
            latents = pipe(
                **self._embeds(self.texts[prompt]),
                **against,
                generator=torch.Generator("cpu").manual_seed(seed),
                num_inference_steps=self.steps,
                guidance_scale=self.guidance,
                width=self.size[0],
                height=self.size[1],
                output_type="latent",
            ).images
            # Decoded here: the pipelines expect a VAE of the UNet's dtype.
            drawn = vae.decode(latents.to(vae.dtype) / vae.config.scaling_factor).sample
            pictures += pipe.image_processor.postprocess(drawn, output_type="pil")
        del pipe, vae
        release()
        return pictures

    def _embeds(self, told: Conditions, prefix: str = "") -> dict[str, Tensor]:
        """A text as the pipeline's keyword arguments."""
        named = {f"{prefix}prompt_embeds": told.hidden}
        if told.pooled is not None:
            named[f"{prefix}pooled_prompt_embeds"] = told.pooled
        return {k: v[None].to(self.unet.device, self.unet.dtype) for k, v in named.items()}
