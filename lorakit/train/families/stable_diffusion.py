"""What all Stable Diffusion families share: load the parts, encode, predict, put a LoRA on.

pico is one of these; nothing here knows it by name.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image
from torch import Tensor

from lorakit.dataset.buckets import Fit
from lorakit.errors import ExitCode, LorakitError
from lorakit.families import components
from lorakit.families.families import FAMILIES
from lorakit.families.shipped import published
from lorakit.train.adapters import files, lora
from lorakit.train.families import clip, one_file
from lorakit.train.families.clip import Encoder, complain
from lorakit.train.step import Conditions, Predict

if TYPE_CHECKING:
    from lorakit.train.families.painter import Painter


class StableDiffusion:
    """One family: sd1 and sd2 are this class, sdxl changes what it has more of."""

    def __init__(self, name: str, tiny: Mapping[str, Any]) -> None:
        self.facts = FAMILIES[name]
        self._tiny = dict(tiny)

    def load_unet(self, base: Path, dtype: torch.dtype) -> Any:
        """The frozen UNet of a base, on the CPU, every weight of it from its files."""
        from diffusers import UNet2DConditionModel

        return _load(UNet2DConditionModel, base, "unet", dtype)

    def load_vae(self, base: Path) -> Any:
        """The VAE of a base, fp32, on the CPU."""
        from diffusers import AutoencoderKL

        return _load(AutoencoderKL, base, "vae", torch.float32)

    def load_text(self, base: Path, device: torch.device | str = "cpu") -> list[Encoder]:
        """The tokenizers and text encoders of a base, fp32, on a device."""
        return [clip.load(base, *pair, device) for pair in self.facts.text]

    @torch.no_grad()
    def encode_text(self, encoders: Sequence[Encoder], text: str) -> dict[str, Tensor]:
        """One text by the names of `Conditions`, fp32, on the CPU: hidden [tokens, width]."""
        [encoder] = encoders
        return {"hidden": encoder.read(text).last_hidden_state[0].float().cpu()}

    @torch.no_grad()
    def encode_picture(self, vae: Any, picture: Image.Image) -> tuple[Tensor, Tensor]:
        """(mean, standard deviation) of a picture's latents, [c, h, w], fp32, unscaled, on the
        CPU."""
        posterior = vae.encode(pixels(picture)[None].to(vae.device)).latent_dist
        return posterior.mean[0].float().cpu(), posterior.std[0].float().cpu()

    def latent_scale(self, base: Path) -> float:
        """What latents are multiplied by, from the VAE's configuration."""
        config = components.config(base, "vae")
        return float(config.get("scaling_factor", 0.18215))

    def sizes(self, width: int, height: int, fit: Fit) -> tuple[int, ...] | None:
        """What the model is told of a picture's size and crop; None: nothing."""
        return None

    def predictor(self, unet: Any, dtype: torch.dtype) -> Predict:
        """The UNet's answer to noisy latents, with every cast written out."""

        def predict(noisy: Tensor, timesteps: Tensor, told: Conditions) -> Tensor:
            more = {}
            if told.pooled is not None:
                more = {"text_embeds": told.pooled.to(dtype), "time_ids": told.sizes}
            answer = unet(
                noisy.to(dtype),
                timesteps,
                told.hidden.to(dtype),
                added_cond_kwargs=more,
                return_dict=False,
            )[0]
            return answer.float()

        return predict

    def alphas_cumprod(self, scheduler: Mapping[str, Any]) -> Tensor:
        """The noise schedule of a scheduler's configuration as the training uses it, [timesteps],
        fp32."""
        from diffusers import DDPMScheduler

        return DDPMScheduler.from_config(dict(scheduler)).alphas_cumprod.float()

    def load_scheduler(self, scheduler: Mapping[str, Any]) -> Any:
        """The sampler that a configuration names, if it is one of diffusers'.

        Not all of them can draw from SNR 0; where that is asked for, DDIM does it in their place.
        """
        import diffusers

        named = str(scheduler.get("_class_name"))
        kind: Any = getattr(diffusers, named, None)
        if not (isinstance(kind, type) and issubclass(kind, diffusers.SchedulerMixin)):
            raise LorakitError(
                f"The scheduler {named} of the base model is none that diffusers has.",
                "Download the base model again, or update diffusers.",
            )
        rescale = "rescale_betas_zero_snr"
        if scheduler.get(rescale) and rescale not in inspect.signature(kind).parameters:
            kind = diffusers.DDIMScheduler
        return kind.from_config(dict(scheduler))

    def pipeline_class(self) -> Any:
        """diffusers' pipeline of this family."""
        from diffusers import StableDiffusionPipeline

        return StableDiffusionPipeline

    def pipeline(self, **parts: Any) -> Any:
        """That pipeline made of parts, without text encoders: a folder's own index could name code
        to run."""
        return self.pipeline_class()(
            **parts,
            text_encoder=None,
            tokenizer=None,
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )

    def against(self, base: Path, negative: str, told: Conditions) -> Conditions:
        """What the pipeline of a base means by a negative prompt that says `told`."""
        return told

    def load_adapter(self, unet: Any, file: Path, name: str = "loaded") -> None:
        """Put an adapter file on a UNet through diffusers' own loader, and make it the active one.

        That loader says no more than a line in the log where names do not match, so the modules are
        counted. Raises LorakitError where some of the file's are not taken.
        """
        reader, before = self.pipeline_class(), lora.count(unet, name)
        held, why = files.modules(file), ""
        try:
            state, alphas, metadata = reader.lora_state_dict(
                file.parent,
                weight_name=file.name,
                local_files_only=True,
                return_lora_metadata=True,
                unet_config=unet.config,
            )
            reader.load_lora_into_unet(state, alphas, unet, adapter_name=name, metadata=metadata)
        except (ValueError, KeyError, IndexError) as error:
            why = f": {error}"
        taken = lora.count(unet, name) - before
        if why or taken != held or not held:
            raise LorakitError(
                f"{file.name} holds {held} modules, and this base model takes {taken}{why}.",
                f"Is it a LoRA of a {self.facts.title} model, with layers of the UNet alone?",
                ExitCode.DATA,
            )
        unet.set_adapter(name)

    def painter(self, *given: Any) -> Painter:
        """Draws with a live UNet; takes the fields of `Painter` behind its family."""
        from lorakit.train.families.painter import Painter

        return Painter(self, *given)

    def tiny(self) -> dict[str, Any]:
        """Keyword arguments of a small UNet with every kind of layer that the family has."""
        return dict(self._tiny)

    def real(self) -> dict[str, Any]:
        """Keyword arguments of the UNet of the family's published model."""
        return published(self.facts.name)


def _load(kind: Any, base: Path, part: str, dtype: torch.dtype) -> Any:
    if base.is_file():
        model, missing, unexpected = one_file.load(kind, base, part, dtype)
    else:
        file = next(iter(components.weight_files(base, part)))
        variant = "fp16" if ".fp16" in file.name else None
        model, told = kind.from_pretrained(
            base / part,
            torch_dtype=dtype,
            variant=variant,
            use_safetensors=True,
            local_files_only=True,
            low_cpu_mem_usage=True,
            output_loading_info=True,
        )
        missing, unexpected = told["missing_keys"], told["unexpected_keys"]
    complain(part, base, missing, unexpected)
    return model.eval().requires_grad_(False)


def pixels(picture: Image.Image) -> Tensor:
    """An RGB picture as [3, h, w], fp32, in -1..1."""
    import numpy as np

    array = np.array(picture, dtype=np.float32)
    return torch.from_numpy(array).permute(2, 0, 1) / 127.5 - 1


def release() -> None:
    """Hand memory of dropped models back."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
