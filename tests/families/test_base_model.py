from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lorakit.bundle.models import Base
from lorakit.errors import LorakitError
from lorakit.families.base_model import inspect, recognised
from lorakit.families.locate import locate
from lorakit.families.pipelines import family_of
from lorakit.families.shipped import ASSETS

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
    "model",
    [
        "no/such/folder",
        "./nothing",
        "~nobody-here/x",
        "/nowhere",
        "word",
        "a b/c",
        "models/a.safetensors",
    ],
)
def test_neither_folder_nor_hub_id(model: str, tmp_path: Path) -> None:
    with pytest.raises(LorakitError, match="no file or folder here, and no Hub id"):
        inspect(Base(model=model), tmp_path)


def test_a_single_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(LorakitError, match=r"model\.safetensors is empty"):
        inspect(Base(model="model.safetensors"), tmp_path)


def test_a_damaged_file_is_not_looked_for_elsewhere(tmp_path: Path) -> None:
    """Its path may look like a Hub id: what is said is what is wrong here."""
    (tmp_path / "someone").mkdir()
    (tmp_path / "someone" / "model").write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(LorakitError) as told:
        inspect(Base(family="sdxl", model="someone/model"), tmp_path)
    assert told.value.message == "model is a web page of 15 bytes, not a model."


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


def as_sdxl(folder: Path) -> Path:
    """What tells SDXL from others, put into a copy of pico."""
    for part in ("text_encoder", "tokenizer"):
        shutil.copytree(folder / part, folder / f"{part}_2")
    encoder = ["transformers", "CLIPTextModelWithProjection"]
    edit(folder / "model_index.json", text_encoder_2=encoder)
    edit(folder / "unet" / "config.json", addition_embed_type="text_time", layers_per_block=2)
    return folder


def as_sd2(folder: Path) -> Path:
    edit(folder / "unet" / "config.json", use_linear_projection=True)
    return folder


def test_the_family_of_a_folder_is_told_by_how_it_is_built(tmp_path: Path) -> None:
    made = [Path(shutil.copytree(PICO, tmp_path / name)) for name in ("a", "b", "c", "d")]
    assert family_of(made[0]) == "sd1"
    assert family_of(as_sd2(made[1])) == "sd2"
    assert family_of(as_sdxl(made[2])) == "sdxl"
    edit(as_sdxl(made[3]) / "model_index.json", text_encoder=[None, None])  # SDXL's refiner
    assert family_of(made[3]) is None
    assert family_of(tmp_path) is None


@pytest.mark.parametrize("family", ["sd1", "sdxl"])
def test_a_clash_names_both_families_and_the_fix(family: str, copy: Path) -> None:
    as_sd2(copy)
    with pytest.raises(LorakitError, match=rf"2\.x \(sd2\), and the bundle says {family}") as told:
        inspect(Base(family=family, model=str(copy)), copy)
    assert told.value.hint.startswith('Set base.family = "sd2"')


def test_a_model_of_no_known_family_is_refused(copy: Path) -> None:
    edit(copy / "unet" / "config.json", addition_embed_type="image")
    with pytest.raises(LorakitError, match=r"is none of Stable Diffusion 1\.x"):
        inspect(Base(model=str(copy)), copy)


def test_an_sdxl_folder_has_the_weights_of_both_encoders(copy: Path) -> None:
    before = inspect(Base(model=str(copy)), copy)
    second = copy / "text_encoder" / "model.safetensors"
    facts = inspect(Base(family="sdxl", model=str(as_sdxl(copy))), copy)
    assert before.weight_bytes is not None
    assert facts.weight_bytes == before.weight_bytes + second.stat().st_size
    assert (facts.family, facts.token_limit, facts.prediction) == ("sdxl", 75, "epsilon")
    (copy / "text_encoder_2" / "model.safetensors").unlink()
    with pytest.raises(LorakitError, match="no weights in text_encoder_2"):
        inspect(Base(family="sdxl", model=str(copy)), copy)


@pytest.mark.parametrize(
    ("part", "values", "words"),
    [
        ("unet", {"in_channels": 9}, "takes 9 channels"),
        ("unet", {"layers_per_block": 1}, "has 1 layers a block"),
        ("vae", {"latents_mean": [0.1, 0.1, 0.1, 0.1]}, "shifts its latents"),
        ("scheduler", {"prediction_type": "sample"}, "predicts sample"),
    ],
)
def test_relatives_of_sdxl_that_train_otherwise_are_refused(
    part: str, values: dict, words: str, copy: Path
) -> None:
    as_sdxl(copy)
    name = "scheduler_config.json" if part == "scheduler" else "config.json"
    edit(copy / part / name, **values)
    with pytest.raises(LorakitError, match=words):
        inspect(Base(family="sdxl", model=str(copy)), copy)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("stabilityai/stable-diffusion-xl-base-1.0", "sdxl"),
        ("stabilityai/stable-diffusion-2-1", "sd2"),
        ("runwayml/Stable-Diffusion-v1-5", "sd1"),
        ("someone/some-model", "sd2"),  # as it was
    ],
)
def test_well_known_hub_ids_are_recognised(model: str, family: str, tmp_path: Path) -> None:
    assert recognised(Base(family="sd2", model=model), tmp_path).family == family
    assert inspect(Base(family=family, model=model), tmp_path).family == family


def test_a_folder_is_recognised_whatever_was_said(copy: Path) -> None:
    assert recognised(Base(family="sdxl", model=str(copy)), copy).family == "sd1"


def test_a_hub_id_in_the_cache_is_recognised(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complete by what its own family needs, whatever the bundle says."""
    snapshots = tmp_path / "hub" / "models--someone--some-xl"
    (snapshots / "refs").mkdir(parents=True)
    (snapshots / "refs" / "main").write_text("c0ffee")
    folder = shutil.copytree(as_sdxl(copy), snapshots / "snapshots" / "c0ffee")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    base = Base(model="someone/some-xl")
    assert locate(base, tmp_path) == folder
    assert recognised(base, tmp_path).family == "sdxl"
    (folder / "text_encoder_2" / "model.safetensors").unlink()
    assert locate(base, tmp_path) is None


def test_v_prediction_is_read_from_the_scheduler(copy: Path) -> None:
    edit(copy / "scheduler" / "scheduler_config.json", prediction_type="v_prediction")
    assert inspect(Base(model=str(copy)), copy).prediction == "v_prediction"
