"""Which weights of a diffusers folder are taken, part by part, and what is said of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lorakit.bundle.models import Base
from lorakit.errors import LorakitError
from lorakit.families.base_model import inspect
from lorakit.families.components import notes, weight_files, weights_of
from lorakit.families.families import FAMILIES
from lorakit.families.shipped import ASSETS

PLAIN = "diffusion_pytorch_model.safetensors"
HALF = "diffusion_pytorch_model.fp16.safetensors"
SHARDS = [f"diffusion_pytorch_model-0000{n}-of-00002.safetensors" for n in (1, 2)]
HALF_SHARDS = [f"diffusion_pytorch_model.fp16-0000{n}-of-00002.safetensors" for n in (1, 2)]
OLD_HALF_SHARDS = [f"diffusion_pytorch_model-0000{n}-of-00002.fp16.safetensors" for n in (1, 2)]


def unet(folder: Path, *names: str) -> Path:
    (folder / "unet").mkdir()
    for name in names:
        (folder / "unet" / name).write_bytes(name.encode())
    return folder


@pytest.mark.parametrize(
    ("there", "taken", "note"),
    [
        ([PLAIN], [PLAIN], ""),
        ([HALF], [HALF], f"unet: only half precision is there, {HALF}"),
        ([PLAIN, HALF], [PLAIN], f"unet: {PLAIN} is taken, and not {HALF}"),
        (SHARDS, SHARDS, ""),
        ([*SHARDS, HALF], SHARDS, f"unet: {SHARDS[0]} is taken, and not {HALF}"),
        ([SHARDS[0], HALF], [HALF], f"unet: only half precision is there, {HALF}"),
        (HALF_SHARDS, HALF_SHARDS, f"unet: only half precision is there, {HALF_SHARDS[0]}"),
        (OLD_HALF_SHARDS, OLD_HALF_SHARDS, "unet: only half precision is there"),
        ([PLAIN, "diffusion_pytorch_model.non_ema.safetensors"], [PLAIN], ""),
        ([PLAIN, "diffusion_pytorch_model.bin"], [PLAIN], ""),
    ],
)
def test_each_part_takes_what_is_there_and_says_so(
    there: list[str], taken: list[str], note: str, tmp_path: Path
) -> None:
    folder = unet(tmp_path, *there)
    assert [f.name for f in weight_files(folder, "unet")] == sorted(taken)
    assert weights_of(folder, "unet") == {folder / "unet" / n: len(n) for n in sorted(taken)}
    said = notes(folder, FAMILIES["sd1"])
    assert len(said) == bool(note)
    assert not note or said[0].startswith(note)


@pytest.mark.parametrize(
    ("there", "what"),
    [
        ([], "has no weights in unet."),
        (["diffusion_pytorch_model.bin"], "in unet. There is diffusion_pytorch_model.bin."),
        (["a.safetensors", "config.json", "b.bin"], "in unet. There are a.safetensors, b.bin."),
        ([SHARDS[1]], "has 1 of 2 files in unet."),
    ],
)
def test_what_is_missing_is_named_with_what_is_there(
    there: list[str], what: str, tmp_path: Path
) -> None:
    with pytest.raises(LorakitError) as told:
        weight_files(unet(tmp_path, *there), "unet")
    assert told.value.message.endswith(what)
    assert told.value.hint


def test_a_mixed_folder_is_resolved_part_by_part(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ASSETS / "pico", tmp_path / "model"))
    assert inspect(Base(model=str(folder)), tmp_path).notes == ()
    (folder / "unet" / PLAIN).rename(folder / "unet" / HALF)
    text = folder / "text_encoder"
    shutil.copyfile(text / "model.safetensors", text / "model.fp16.safetensors")
    facts = inspect(Base(model=str(folder)), tmp_path)
    assert facts.notes == (
        "text_encoder: model.safetensors is taken, and not model.fp16.safetensors",
        f"unet: only half precision is there, {HALF}",
    )
    assert facts.weight_bytes == inspect(Base(), tmp_path).weight_bytes


def test_a_missing_part_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ASSETS / "pico", tmp_path / "model"))
    shutil.rmtree(folder / "vae")
    with pytest.raises(LorakitError) as told:
        inspect(Base(model=str(folder)), tmp_path)
    assert told.value.message.endswith(
        "lacks vae; its folders: scheduler, text_encoder, tokenizer, unet."
    )
