"""Stable Diffusion 1.x: load the parts, encode text and pictures, predict, draw.

pico is one of these; nothing here knows it by name.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from lorakit.errors import LorakitError
from lorakit.families.base_model import weight_files
from lorakit.train.step import Predict

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
"""Compute dtypes by `train.precision`."""


def load_unet(folder: Path, dtype: torch.dtype) -> Any:
    """The frozen UNet of a pipeline folder, on the CPU, every weight of it from the file."""
    from diffusers import UNet2DConditionModel

    return _load(UNet2DConditionModel, folder, "unet", dtype)


def load_vae(folder: Path) -> Any:
    """The VAE of a pipeline folder, fp32, on the CPU."""
    from diffusers import AutoencoderKL

    return _load(AutoencoderKL, folder, "vae", torch.float32)


def _load(kind: Any, folder: Path, part: str, dtype: torch.dtype) -> Any:
    file = next(iter(weight_files(folder, part)))
    variant = "fp16" if ".fp16" in file.name else None
    model, told = kind.from_pretrained(
        folder / part,
        torch_dtype=dtype,
        variant=variant,
        use_safetensors=True,
        local_files_only=True,
        low_cpu_mem_usage=True,
        output_loading_info=True,
    )
    complain(part, folder, told["missing_keys"], told["unexpected_keys"])
    return model.eval().requires_grad_(False)


def latent_scale(folder: Path) -> float:
    """What latents are multiplied by, from the VAE's configuration."""
    config = json.loads((folder / "vae" / "config.json").read_text("utf-8"))
    return float(config.get("scaling_factor", 0.18215))


def load_text(folder: Path) -> tuple[Any, Any]:
    """(tokenizer, text encoder fp32 on the CPU) of a pipeline folder.

    transformers 4 names the weights with `text_model.` in front, 5 writes them without and each
    fills what it does not find with random numbers after a mere warning. So the file is read here,
    in either style, and every weight is counted.
    """
    from safetensors.torch import load_file
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer", local_files_only=True)
    config = CLIPTextConfig.from_pretrained(folder / "text_encoder", local_files_only=True)
    encoder = CLIPTextModel(config)
    own = {k for k in encoder.state_dict() if not k.endswith("position_ids")}
    state: dict[str, Tensor] = {}
    for file in weight_files(folder, "text_encoder"):
        for key, value in load_file(file).items():
            bare = key.removeprefix("text_model.")
            if bare.startswith(("embeddings.", "encoder.", "final_layer_norm.")):
                named = next((k for k in (bare, f"text_model.{bare}") if k in own), bare)
            else:
                named = key
            if not named.endswith("position_ids"):
                state[named] = value.float()
    missing, unexpected = encoder.load_state_dict(state, strict=False)
    missing = [k for k in missing if k in own]
    complain("text_encoder", folder, missing, [k for k in unexpected if "projection" not in k])
    return tokenizer, encoder.float().eval().requires_grad_(False)


def complain(part: str, folder: Path, missing: Sequence[str], unexpected: Sequence[str]) -> None:
    """Raise where a part's file and its configuration do not hold the same weights."""
    if missing or unexpected:
        name = next(iter([*missing, *unexpected]))
        raise LorakitError(
            f"The {part} in {folder} does not fit its configuration: {len(missing)} weights are"
            f" missing and {len(unexpected)} are unknown, {name} for one.",
            "Download the base model again.",
        )


def release() -> None:
    """Hand memory of dropped models back."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@torch.no_grad()
def encode_text(tokenizer: Any, encoder: Any, text: str) -> Tensor:
    """The hidden states of one text, [tokens, width], fp32, on the CPU."""
    ids = tokenizer(
        [text],
        padding="max_length",
        max_length=encoder.config.max_position_embeddings,
        truncation=True,
        return_tensors="pt",
    ).input_ids
    hidden: Tensor = encoder(ids.to(encoder.device)).last_hidden_state[0]
    return hidden.float().cpu()


@torch.no_grad()
def encode_picture(vae: Any, picture: Image.Image) -> tuple[Tensor, Tensor]:
    """(mean, standard deviation) of a picture's latents, [c, h, w], fp32, unscaled, on the CPU."""
    posterior = vae.encode(pixels(picture)[None].to(vae.device)).latent_dist
    return posterior.mean[0].float().cpu(), posterior.std[0].float().cpu()


def pixels(picture: Image.Image) -> Tensor:
    """An RGB picture as [3, h, w], fp32, in -1..1."""
    import numpy as np

    array = np.array(picture, dtype=np.float32)
    return torch.from_numpy(array).permute(2, 0, 1) / 127.5 - 1


def load_adapter(unet: Any, file: Path, name: str = "loaded") -> None:
    """Put an adapter file on a UNet through diffusers' own loader, and make it the active one."""
    from diffusers import StableDiffusionPipeline

    state, alphas, metadata = StableDiffusionPipeline.lora_state_dict(
        file.parent, weight_name=file.name, local_files_only=True, return_lora_metadata=True
    )
    StableDiffusionPipeline.load_lora_into_unet(
        state, alphas, unet, adapter_name=name, metadata=metadata
    )
    unet.set_adapter(name)


def predictor(unet: Any, dtype: torch.dtype) -> Predict:
    """The UNet's answer to noisy latents, with every cast written out."""

    def predict(noisy: Tensor, timesteps: Tensor, text: Tensor) -> Tensor:
        answer = unet(noisy.to(dtype), timesteps, text.to(dtype), return_dict=False)[0]
        return answer.float()

    return predict


def load_scheduler(folder: Path) -> Any:
    """The sampler that a pipeline folder names, if it is one of diffusers'."""
    import diffusers

    config = json.loads((folder / "scheduler" / "scheduler_config.json").read_text("utf-8"))
    named = str(config.get("_class_name"))
    kind = getattr(diffusers, named, None)
    if not (isinstance(kind, type) and issubclass(kind, diffusers.SchedulerMixin)):
        raise LorakitError(
            f"The scheduler {named} in {folder} is none that diffusers has.",
            "Download the base model again, or update diffusers.",
        )
    return kind.from_config(config)  # type: ignore[attr-defined]


def alphas_cumprod(folder: Path) -> Tensor:
    """The noise schedule of a pipeline folder as the training uses it, [timesteps], fp32."""
    from diffusers import DDPMScheduler

    made = DDPMScheduler.from_pretrained(folder / "scheduler", local_files_only=True)
    return made.alphas_cumprod.float()


@dataclass(slots=True)
class Painter:
    """Draws with the live UNet through the base's own pipeline; the VAE is loaded for each call."""

    folder: Path
    unet: Any
    size: tuple[int, int]
    """Width and height in pixels."""
    steps: int
    guidance: float
    texts: dict[str, Tensor] = field(default_factory=dict)
    """Hidden states of every prompt and of the negative prompt, as `encode_text` makes them."""

    def recover(self) -> None:
        """Free what a failed drawing has left."""
        release()

    @torch.no_grad()
    def draw_all(self, wanted: Sequence[tuple[str, int]], negative: str) -> list[Image.Image]:
        """A picture for each (prompt, seed), one at a time."""
        from diffusers import StableDiffusionPipeline

        device, dtype = self.unet.device, self.unet.dtype
        # Made of parts: a folder's own index could name code to run.
        pipe = StableDiffusionPipeline(
            unet=self.unet,
            vae=load_vae(self.folder).to(device, dtype),
            scheduler=load_scheduler(self.folder),
            text_encoder=None,
            tokenizer=None,
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
        pipe.set_progress_bar_config(disable=True)
        against = self.texts[negative][None].to(device, dtype)
        pictures = []
        for prompt, seed in wanted:
            pictures += pipe(
                prompt_embeds=self.texts[prompt][None].to(device, dtype),
                negative_prompt_embeds=against,
                generator=torch.Generator("cpu").manual_seed(seed),
                num_inference_steps=self.steps,
                guidance_scale=self.guidance,
                width=self.size[0],
                height=self.size[1],
            ).images
        del pipe
        release()
        return pictures


def tiny() -> dict[str, Any]:
    """Keyword arguments of a small UNet with every kind of layer that SD 1.x has."""
    return {
        "sample_size": 8,
        "block_out_channels": (16, 32),
        "layers_per_block": 1,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        "cross_attention_dim": 32,
        "attention_head_dim": 2,
        "norm_num_groups": 8,
    }


def real() -> dict[str, Any]:
    """Keyword arguments of the UNet of Stable Diffusion 1.5."""
    shipped = Path(__file__).resolve().parents[2] / "assets" / "configs" / "sd1" / "unet.json"
    made: dict[str, Any] = json.loads(shipped.read_text(encoding="utf-8"))
    return made
