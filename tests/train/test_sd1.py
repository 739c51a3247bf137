"""Loading the parts of a Stable Diffusion 1.x folder: every weight is counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from lorakit.errors import LorakitError
from lorakit.families.shipped import ASSETS
from lorakit.train.families.sd1 import FAMILY as sd1
from lorakit.train.families.stable_diffusion import pixels

WEIGHTS = "text_encoder/model.safetensors"


@pytest.fixture
def copy(tiny_base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_base, tmp_path / "model"))


def renamed(folder: Path, rename: object) -> None:
    state = load_file(folder / WEIGHTS)
    save_file({rename(k): v for k, v in state.items()}, folder / WEIGHTS)  # type: ignore[operator]


def test_both_styles_of_text_encoder_keys_give_the_same_numbers(copy: Path) -> None:
    """transformers 4 writes `text_model.` in front, 5 does not."""
    answers = []
    for prefix in ("", "text_model."):
        renamed(copy, lambda k, p=prefix: p + k.removeprefix("text_model."))
        answers.append(sd1.encode_text(sd1.load_text(copy), "a red circle")["hidden"])
    assert torch.equal(answers[0], answers[1])
    assert answers[0].shape == (77, 32)


def test_a_text_encoder_of_other_names_is_refused(copy: Path) -> None:
    renamed(copy, lambda k: "other." + k)
    with pytest.raises(LorakitError, match="weights are missing"):
        sd1.load_text(copy)


@pytest.mark.parametrize("part", ["unet", "vae"])
def test_missing_weights_are_refused(copy: Path, part: str) -> None:
    file = copy / part / "diffusion_pytorch_model.safetensors"
    state = load_file(file)
    state.pop(next(iter(state)))
    save_file(state, file)
    with pytest.raises(LorakitError, match="1 weights are missing"):
        sd1.load_unet(copy, torch.float32) if part == "unet" else sd1.load_vae(copy)


def test_fp16_files_are_loaded(copy: Path) -> None:
    file = copy / "unet" / "diffusion_pytorch_model.safetensors"
    file.rename(file.with_name("diffusion_pytorch_model.fp16.safetensors"))
    assert sd1.load_unet(copy, torch.float32).dtype == torch.float32


def test_pico_is_loaded_by_diffusers_alone_with_its_own_weights() -> None:
    from diffusers import StableDiffusionPipeline

    folder = ASSETS / "pico"
    pipe = StableDiffusionPipeline.from_pretrained(folder, local_files_only=True)
    kept = load_file(folder / WEIGHTS)
    loaded = {k.removeprefix("text_model."): v for k, v in pipe.text_encoder.state_dict().items()}
    for key, value in kept.items():
        assert torch.equal(loaded[key.removeprefix("text_model.")], value), key
    assert pipe.unet.dtype == pipe.text_encoder.dtype == torch.float32
    [encoder] = sd1.load_text(folder)
    caption = "a red circle on a blue background"
    own = sd1.encode_text([encoder], caption)["hidden"]
    theirs, _ = pipe.encode_prompt(caption, "cpu", 1, False)
    assert torch.equal(own, theirs[0])
    assert (
        len(encoder.tokenizer(caption).input_ids) == 9
    )  # every word of pico's captions is one token


def test_a_picture_goes_through_the_vae_and_back() -> None:
    """pico's VAE knows its colours: decoded latents are near the picture."""
    vae = sd1.load_vae(ASSETS / "pico")
    picture = Image.new("RGB", (64, 64), (40, 90, 200))
    mean, std = sd1.encode_picture(vae, picture)
    assert mean.shape == std.shape == (4, 16, 16)
    with torch.no_grad():
        back = vae.decode(mean[None]).sample[0]
    assert (back - pixels(picture)).abs().mean() < 0.05
