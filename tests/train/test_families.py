"""Each family through the real loop, and what it gives to plain diffusers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lorakit.bundle.models import Bundle
from lorakit.bundle.write import write
from lorakit.dataset.buckets import fit
from lorakit.families.components import config
from lorakit.runs.events import FILE, Log, Noted, Stepped, decode
from lorakit.train import draw
from lorakit.train.adapters import verify
from lorakit.train.control import Control
from lorakit.train.families import sd2, sdxl
from lorakit.train.families.stable_diffusion import StableDiffusion
from lorakit.train.loop import train
from lorakit.train.step import Batch, Conditions, Model, step

FAMILY: dict[str, StableDiffusion] = {"sd2": sd2.FAMILY, "sdxl": sdxl.FAMILY}
CPU = torch.device("cpu")


def trained(bundle: Bundle, run: Path) -> list:
    """Train in a run directory and return the events."""
    run.mkdir(exist_ok=True)
    write(run / "bundle.toml", bundle)
    log = Log(run / FILE)
    assert train(bundle, run, log, Control(run, log), CPU).outcome == "done"
    return [decode(line) for line in (run / FILE).read_text().splitlines()]


def request(bundle: Bundle, family: str, base: Path, **sections: dict) -> Bundle:
    """The bundle for another base."""
    whole = bundle.model_dump(by_alias=True)
    whole["base"].update(family=family, model=str(base))
    for name, values in sections.items():
        whole[name].update(values)
    return Bundle.model_validate(whole)


def from_folder(family: str, base: Path, **options: object) -> object:
    """The plain pipeline, as anybody loads it."""
    kind = FAMILY[family].pipeline_class()
    return kind.from_pretrained(base, local_files_only=True, **options)


@pytest.mark.parametrize("family", [pytest.param("sd2", marks=pytest.mark.slow), "sdxl"])
@pytest.mark.parametrize(
    ("precision", "checkpointing"),
    [
        ("fp32", "none"),
        pytest.param("bf16", "full", marks=pytest.mark.slow),
        pytest.param("fp16", "none", marks=pytest.mark.slow),
    ],
)
def test_a_run_leaves_what_plain_diffusers_loads(
    family: str,
    precision: str,
    checkpointing: str,
    bundle: Bundle,
    tmp_path: Path,
    bases: dict[str, Path],
) -> None:
    """The pictures of the pipeline with the LoRA are those that were drawn while training."""
    run, base = tmp_path / "run", bases[family]
    wanted = request(
        bundle,
        family,
        base,
        train={"steps": 3, "precision": precision},
        memory={"checkpointing": checkpointing},
        sample={"every": 2, "prompts": ["a yellow circle"]},
    )
    events = trained(wanted, run)
    losses = [loss for e in events if isinstance(e, Stepped) for loss in e.losses]
    assert len(losses) == 3
    assert all(isinstance(loss, float) for loss in losses)
    assert not [e for e in events if isinstance(e, Noted) and e.level != "info"]
    assert len(list((run / "samples").glob("00000[023]-1.png"))) == 3
    if precision != "fp32":
        return
    own = np.asarray(Image.open(run / "samples/000003-1.png"), dtype=float) / 255
    before = np.asarray(Image.open(run / "samples/000000-1.png"), dtype=float) / 255
    assert np.abs(own - before).max() > 0.01
    write(run / "bundle.toml", wanted)
    given = ["--seed", f"{wanted.sample.seed}", "--out", str(tmp_path / "later.png")]
    assert draw.main([str(run), "a yellow circle", *given]) == 0
    later = np.asarray(Image.open(tmp_path / "later.png"), dtype=float) / 255
    assert np.abs(later - own).max() <= 1 / 255 + 1e-9
    for name in ("tiny.safetensors", "tiny.diffusers.safetensors"):
        pipe = from_folder(family, base)
        pipe.load_lora_weights(run / name)
        [picture] = pipe(
            "a yellow circle",
            num_inference_steps=2,
            guidance_scale=wanted.sample.guidance,
            generator=torch.Generator().manual_seed(wanted.sample.seed),
            width=32,
            height=32,
        ).images
        assert np.abs(np.asarray(picture, dtype=float) / 255 - own).max() <= 1 / 255 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILY)
def test_the_answer_of_plain_diffusers_is_the_trainers_own(
    family: str, bundle: Bundle, tmp_path: Path, bases: dict[str, Path], monkeypatch: object
) -> None:
    """To 1e-5 of the largest value, for both files: the UNet that was trained is kept and asked."""
    asked = []
    real = verify.answers

    def keep(unet: object, files: list[Path], load: object, ask: object) -> None:
        real(unet, files, load, ask)
        asked.append(unet)

    monkeypatch.setattr(verify, "answers", keep)
    wanted = request(bundle, family, bases[family], train={"steps": 3}, sample={"prompts": []})
    trained(wanted, tmp_path / "run")
    made = FAMILY[family]
    [encoded] = [made.encode_text(made.load_text(bases[family]), "a robot")]
    told = Conditions(**{k: v[None] for k, v in encoded.items()})
    if family == "sdxl":
        told = Conditions(told.hidden, told.pooled, torch.tensor([[40.0, 64, 0, 9, 32, 32]]))
    noisy = torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(1))

    @torch.no_grad()
    def answer(unet: object) -> torch.Tensor:
        return made.predictor(unet, torch.float32)(noisy, torch.tensor([500]), told)

    own = answer(asked[0])
    plain = from_folder(family, bases[family])
    untrained = answer(plain.unet)
    assert (own - untrained).abs().max() > 1e-3 * own.abs().max()
    for name in ("tiny.safetensors", "tiny.diffusers.safetensors"):
        pipe = from_folder(family, bases[family])
        pipe.load_lora_weights(tmp_path / "run" / name)
        assert (answer(pipe.unet) - own).abs().max() <= 1e-5 * own.abs().max()


def test_each_picture_brings_its_own_sizes_and_texts(
    bundle: Bundle, tmp_path: Path, bases: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(model: Model, batches: list[Batch]) -> torch.Tensor:
        seen.extend(batches)
        return step(model, batches)

    monkeypatch.setattr("lorakit.train.loop.step", watched)
    wanted = request(
        bundle,
        "sdxl",
        bases["sdxl"],
        train={"precision": "bf16", "steps": 5},
        sample={"prompts": []},
    )
    trained(wanted, tmp_path / "run")
    sizes = [tuple(row.tolist()) for batch in seen for row in batch.conditions.sizes]
    pictures = [(40, 40), (64, 64), (33, 35), (64, 32), (80, 40)]
    expected = {sdxl.FAMILY.sizes(w, h, fit(w, h, 32, 8)) for w, h in pictures}
    assert set(sizes) == expected
    assert len(expected) == 5
    for batch in seen:
        told, count = batch.conditions, len(batch.latents)
        assert told.hidden.shape == (count, 77, 64)
        assert told.pooled.shape == (count, 32)
        assert told.sizes.shape == (count, 6)
        assert (told.hidden.dtype, told.pooled.dtype) == (torch.bfloat16,) * 2
        assert told.sizes.dtype == torch.float32


@pytest.mark.parametrize("family", FAMILY)
@pytest.mark.parametrize("text", ["a yellow circle", ""])
def test_texts_are_read_as_the_pipeline_reads_them(
    family: str, text: str, bases: dict[str, Path]
) -> None:
    made = FAMILY[family]
    own = made.encode_text(made.load_text(bases[family]), text)
    pipe = from_folder(family, bases[family])
    theirs = pipe.encode_prompt(
        text, device="cpu", num_images_per_prompt=1, do_classifier_free_guidance=False
    )
    assert torch.equal(own["hidden"], theirs[0][0])
    if family == "sdxl":
        assert torch.equal(own["pooled"], theirs[2][0])
        assert own["hidden"].shape == (77, 64)
        assert own["pooled"].shape == (32,)


def test_the_two_tokenizers_of_sdxl_pad_differently(bases: dict[str, Path]) -> None:
    first, second = (e.tokenizer for e in sdxl.FAMILY.load_text(bases["sdxl"]))
    assert first.pad_token != second.pad_token


@pytest.mark.parametrize("forced", [True, False])
def test_no_negative_prompt_means_what_the_index_says(
    forced: bool, bases: dict[str, Path], tmp_path: Path
) -> None:
    told = Conditions(torch.ones(77, 64), torch.ones(32))
    (tmp_path / "model_index.json").write_text(
        f'{{"force_zeros_for_empty_prompt": {str(forced).lower()}}}'
    )
    empty = sdxl.FAMILY.against(tmp_path, "", told)
    assert bool(empty.hidden.any()) is not forced
    assert empty.pooled is not None
    assert bool(empty.pooled.any()) is not forced
    assert sdxl.FAMILY.against(tmp_path, "blurry", told) is told


def test_sizes_are_those_of_the_upright_picture_and_of_its_crop() -> None:
    """A picture of 3000 x 2000 pixels in a bucket of 1216 x 832: scaled to 1248 x 832."""
    made = fit(3000, 2000, 1024, 64)
    assert (made.width, made.height) == (1216, 832)
    assert sdxl.FAMILY.sizes(3000, 2000, made) == (2000, 3000, 0, 16, 832, 1216)
    assert sd2.FAMILY.sizes(3000, 2000, made) is None


@pytest.mark.parametrize(
    ("precision", "expected"),
    [("fp32", torch.float32), ("fp16", torch.float32), ("bf16", torch.bfloat16)],
)
@pytest.mark.parametrize("family", FAMILY)
def test_the_vae_never_runs_in_fp16(
    family: str, precision: str, expected: torch.dtype, bases: dict[str, Path]
) -> None:
    """Neither for encoding, which is fp32, nor for drawing."""
    from lorakit.train.step import DTYPES

    made = FAMILY[family]
    assert made.load_vae(bases[family]).dtype == torch.float32
    unet = made.load_unet(bases[family], DTYPES[precision])
    encoded = made.encode_text(made.load_text(bases[family]), "")
    drawing = (bases[family], config(bases[family], "scheduler"), unet, (32, 32), 1, 5.0)
    painter = made.painter(*drawing, {"": Conditions(**encoded)})
    assert painter.vae().dtype == expected
    [picture] = painter.draw_all([("", 1)], "")
    assert picture.size == (32, 32)
