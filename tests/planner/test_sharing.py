"""What of a bundle goes into a preset that others may see."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

from lorakit.bundle.lock import Lock
from lorakit.bundle.models import Bundle
from lorakit.bundle.read import build, parse
from lorakit.errors import LorakitError
from lorakit.planner.presets import find, merge
from lorakit.planner.sharing import of_bundle, save, write

PICTURES = {"schema": 1, "name": "x", "dataset": {"sources": [{"path": "photos"}]}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LORAKIT_PRESETS", str(tmp_path))
    return tmp_path


def bundle(*settings: str, name: str = "rex") -> Bundle:
    return parse(
        f"schema = 1\nname = '{name}'\n"
        "[[dataset.sources]]\npath = 'secret/place'\ntrigger = 'ohwx dog'\n",
        list(settings),
    )


def test_a_saved_preset_is_the_bundle_without_its_pictures(folder: Path) -> None:
    given = bundle("train.steps=77", "dataset.resolution=256")
    lock = Lock(lorakit="0.1.0", threads=2, attention="sdpa", determinism="bytes")
    given = given.model_copy(update={"lock": lock})
    made = of_bundle("my own", given, "My own", "For dogs.", {"train.steps": "enough"})
    path = save(made)
    assert path == folder / "my own.toml"
    text = path.read_text()
    for personal in ("secret", "lock", "ohwx", "rex"):
        assert personal not in text
    preset = find("my own")
    assert preset.reasons == {"train.steps": "enough"}
    assert build(merge(PICTURES, preset.settings)).train == given.train
    assert "sources" not in tomllib.loads(text)["dataset"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    with pytest.raises(LorakitError, match="already"):
        save(made)
    save(of_bundle("my own", given, "Again"), overwrite=True)
    assert find("my own").title == "Again"


def test_prompts_that_name_the_subject_stay_at_home() -> None:
    prompts = 'sample.prompts=["OHWX Dog on a beach", "a cat", "rex asleep", "a carex"]'
    made = of_bundle("mine", bundle(prompts, "sample.negative=not ohwx dog"), "Mine")
    assert made.settings["sample"]["prompts"] == ["a cat", "a carex"]
    assert made.settings["sample"]["negative"] == ""


def test_reasons_that_name_the_subject_or_a_place_stay_at_home() -> None:
    reasons = {
        "train.steps": "enough for rex",
        "train.seed": "as in ~/runs",
        "train.precision": "see C:\\me",
        "adapter.rank": "for the ohwx dog",
        "train.batch_size": "the pictures of place",
        "memory.attention": "comes with PyTorch",
    }
    made = of_bundle("mine", bundle(), "Mine", reasons=reasons)
    assert made.reasons == {"memory.attention": "comes with PyTorch"}


def test_a_preset_keeps_no_folder_of_this_machine_as_its_base() -> None:
    made = of_bundle("mine", bundle("base.model=/home/me/base"), "Mine")
    assert made.settings["base"] == {"family": "sd1"}
    made = of_bundle("mine", bundle("base.model=models/mine.safetensors"), "Mine")
    assert made.settings["base"] == {"family": "sd1"}
    made = of_bundle("mine", bundle("base.model=a/b", "base.prediction=v_prediction"), "Mine")
    assert made.settings["base"]["prediction"] == "v_prediction"
    made = of_bundle("mine", bundle("base.model=a/b", "base.revision=main"), "Mine")
    assert made.settings["base"] == {"family": "sd1", "model": "a/b", "revision": "main"}


@pytest.mark.parametrize("name", ["../up", "", "a/b", ".hidden", "pico-cpu"])
def test_a_name_that_cannot_be_is_refused(name: str, folder: Path) -> None:
    with pytest.raises(LorakitError):
        save(of_bundle(name, bundle(), "Title"))
    assert list(folder.iterdir()) == []


def test_a_copy_needs_no_other_preset(folder: Path) -> None:
    write(find("sdxl-8gib"), folder / "new" / "x.toml")
    assert "extends" not in (folder / "new" / "x.toml").read_text()
    assert find(str(folder / "new" / "x.toml")).settings == find("sdxl-8gib").settings
