from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lorakit.bundle.models import Base
from lorakit.errors import LorakitError
from lorakit.families.base_model import ASSETS, digest, inspect, weight_files

PICO = ASSETS / "pico"
PARTS = ("scheduler", "text_encoder", "tokenizer", "unet", "vae")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of pico to damage."""
    return Path(shutil.copytree(PICO, tmp_path / "model"))


def edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_pico_says_what_it_is(tmp_path: Path) -> None:
    facts = inspect(Base(), tmp_path)
    assert (facts.family, facts.resolution, facts.latent_factor) == ("sd1", 64, 4)
    assert (facts.size_step, facts.token_limit, facts.prediction) == (8, 75, "epsilon")
    assert facts.weight_bytes is not None
    assert facts.weight_bytes <= 8 * 2**20


def test_a_folder_counts_from_where_the_bundle_lies(copy: Path) -> None:
    assert inspect(Base(model="model"), copy.parent).folder == copy
    assert inspect(Base(model=str(copy)), Path("/")).folder == copy


def test_a_hub_id_that_is_not_here_has_the_facts_of_its_family(tmp_path: Path) -> None:
    facts = inspect(Base(model="someone/some-model"), tmp_path)
    assert (facts.folder, facts.resolution, facts.size_step) == (None, 512, 64)


@pytest.mark.parametrize(
    "model", ["no/such/folder", "./nothing", "~nobody-here/x", "/nowhere", "word", "a b/c"]
)
def test_neither_folder_nor_hub_id(model: str, tmp_path: Path) -> None:
    with pytest.raises(LorakitError, match="neither a folder here nor a Hub id"):
        inspect(Base(model=model), tmp_path)


def test_a_single_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(LorakitError, match="single file"):
        inspect(Base(model="model.safetensors"), tmp_path)


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_part_is_named(part: str, copy: Path) -> None:
    shutil.rmtree(copy / part)
    with pytest.raises(LorakitError, match=part):
        inspect(Base(model=str(copy)), copy)


def test_missing_and_pickled_weights_are_named(copy: Path) -> None:
    weights = copy / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(LorakitError, match="no weights in unet") as failure:
        inspect(Base(model=str(copy)), copy)
    assert "Pickled" in failure.value.hint


def test_a_damaged_configuration_is_named(copy: Path) -> None:
    (copy / "unet" / "config.json").write_text("{")
    with pytest.raises(LorakitError, match=r"damaged config\.json"):
        inspect(Base(model=str(copy)), copy)


def test_another_family_is_one_line(copy: Path) -> None:
    edit(copy / "unet" / "config.json", addition_embed_type="text_time")
    with pytest.raises(LorakitError, match="is an SDXL model, and the bundle says sd1"):
        inspect(Base(model=str(copy)), copy)


def test_v_prediction_is_read_from_the_scheduler(copy: Path) -> None:
    edit(copy / "scheduler" / "scheduler_config.json", prediction_type="v_prediction")
    assert inspect(Base(model=str(copy)), copy).prediction == "v_prediction"


def test_half_precision_files_are_taken_where_there_are_no_others(copy: Path) -> None:
    plain = copy / "unet" / "diffusion_pytorch_model.safetensors"
    half = plain.with_name("diffusion_pytorch_model.fp16.safetensors")
    shutil.copyfile(plain, half)
    assert list(weight_files(copy, "unet")) == [plain]
    plain.unlink()
    assert list(weight_files(copy, "unet")) == [half]


def test_the_digest_follows_content_not_place(copy: Path, tmp_path: Path) -> None:
    assert digest(copy, "vae") == digest(PICO, "vae")
    assert digest(copy, "vae") != digest(copy, "unet")
    edit(copy / "vae" / "config.json", scaling_factor=2.0)
    assert digest(copy, "vae") != digest(PICO, "vae")
