"""Small real models: random pipelines of each family on disk, and pictures to learn from."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw
from trainings import changed, trained, watched

from lorakit.bundle.models import Bundle
from lorakit.families.shipped import ASSETS
from lorakit.runs.events import Event, Finished
from lorakit.train.families import sd1, sd2, sdxl

torch.set_num_threads(1)  # tests already run in parallel

SIDE = 32
"""Side of the pictures that the small models are made for, in pixels."""


MODULES = {"sd1": sd1, "sd2": sd2, "sdxl": sdxl}


def tokenizer(pad: str | None = None) -> Any:
    """pico's tokenizer; SD 2 and the second one of SDXL pad with `!`, and not with the end mark."""
    from transformers import CLIPTokenizer

    made = CLIPTokenizer.from_pretrained(ASSETS / "pico" / "tokenizer")
    if pad:
        made.pad_token = pad
    return made


def text_encoder(tokens: Any, layers: int = 1, projected: bool = False) -> Any:
    """A random text encoder of width 32."""
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    kind = CLIPTextModelWithProjection if projected else CLIPTextModel
    return kind(
        CLIPTextConfig(
            vocab_size=len(tokens),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=layers,
            num_attention_heads=2,
            projection_dim=32,
            bos_token_id=tokens.bos_token_id,
            eos_token_id=tokens.eos_token_id,
            pad_token_id=tokens.pad_token_id,
        )
    )


def write_base(folder: Path, prediction: str = "epsilon", family: str = "sd1") -> Path:
    """A pipeline folder with random weights, small enough for a step in milliseconds."""
    from diffusers import AutoencoderKL, DDIMScheduler
    from diffusers import UNet2DConditionModel as UNet

    torch.manual_seed(0)
    made = MODULES[family].FAMILY
    tokens = tokenizer("!" if family == "sd2" else None)
    if family == "sdxl":
        second = tokenizer("!")
        texts = {
            "text_encoder": text_encoder(tokens, 2),
            "text_encoder_2": text_encoder(second, 3, projected=True),
            "tokenizer_2": second,
        }
    else:
        texts = {
            "text_encoder": text_encoder(tokens),
            "safety_checker": None,
            "feature_extractor": None,
            "requires_safety_checker": False,
        }
    pipe = made.pipeline_class()(
        **texts,
        tokenizer=tokens,
        unet=UNet(**made.tiny()),
        vae=AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 3,
            up_block_types=("UpDecoderBlock2D",) * 3,
            block_out_channels=(8, 8, 8),
            layers_per_block=1,
            norm_num_groups=4,
            mid_block_add_attention=False,
        ),
        scheduler=DDIMScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            clip_sample=False,
            set_alpha_to_one=False,
            steps_offset=1,
            prediction_type=prediction,
            rescale_betas_zero_snr=prediction == "v_prediction",
        ),
    )
    pipe.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random epsilon model."""
    made = write_base(tmp_path_factory.mktemp("base") / "epsilon")
    gc.collect()
    gc.freeze()  # a training collects garbage; what the libraries are is none
    return made


@pytest.fixture(scope="session")
def tiny_v_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random v-prediction model whose schedule ends at SNR 0."""
    return write_base(tmp_path_factory.mktemp("base") / "v", "v_prediction")


@pytest.fixture(scope="session")
def bases(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A random model of each family; that of sd2 predicts v."""
    folder = tmp_path_factory.mktemp("bases")
    return {
        "sd1": tiny_base,
        "sd2": write_base(folder / "sd2", "v_prediction", "sd2"),
        "sdxl": write_base(folder / "sdxl", family="sdxl"),
    }


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five captioned pictures in two shapes."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, size in enumerate([(40, 40), (64, 64), (33, 35), (64, 32), (80, 40)]):
        picture = Image.new("RGB", size, (40 * number, 90, 200))
        ImageDraw.Draw(picture).ellipse((5, 5, 25, 25), fill=(250, 220, 50))
        picture.save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text(f"a yellow circle number {number}")
    return folder


@pytest.fixture
def bundle(tiny_base: Path, drawn: Path) -> Bundle:
    """A request that trains in less than a second, as it draws nothing."""
    return request(tiny_base, drawn)


def request(tiny_base: Path, drawn: Path) -> Bundle:
    return Bundle.model_validate(
        {
            "schema": 1,
            "name": "tiny",
            "base": {"model": str(tiny_base)},
            "dataset": {"sources": [{"path": str(drawn)}], "resolution": SIDE},
            "adapter": {"rank": 4, "alpha": 2.0, "targets": "linear"},
            "train": {
                "steps": 6,
                "batch_size": 2,
                "learning_rate": 1e-2,
                "precision": "fp32",
                "warmup_steps": 2,
            },
            "sample": {"every": 3, "prompts": [], "steps": 2},
            "save": {"every": 2, "keep": 2},
        }
    )


PROMPTS = {"prompts": ["a yellow circle", "a robot"]}


@pytest.fixture
def drawing(bundle: Bundle) -> Bundle:
    """The same, with pictures on the way."""
    return changed(bundle, sample=PROMPTS)


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all trainings that are about something else."""
    return tmp_path_factory.mktemp("shared") / "cache"


@pytest.fixture(autouse=True)
def warm_cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most pictures and captions are encoded already."""
    monkeypatch.setenv("LORAKIT_CACHE", str(shared_cache))


@pytest.fixture(scope="session")
def once(
    tiny_base: Path, drawn: Path, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Finished, Path, list[Event]]:
    """One run of `drawing` for all tests that look at one, or go on from it."""
    run = tmp_path_factory.mktemp("once") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LORAKIT_CACHE", str(shared_cache))
        log = watched(run)
        wanted = changed(request(tiny_base, drawn), sample=PROMPTS)
        return trained(wanted, run, log), run, log.events


@pytest.fixture
def finished(
    once: tuple[Finished, Path, list[Event]], tmp_path: Path
) -> tuple[Finished, Path, list[Event]]:
    """How that run ended, a copy of it, and what it said."""
    ended, run, events = once
    return ended, Path(shutil.copytree(run, tmp_path / "run")), events


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that no other test has filled."""
    folder = tmp_path / "cache"
    shutil.rmtree(folder, ignore_errors=True)
    monkeypatch.setenv("LORAKIT_CACHE", str(folder))
    return folder
