from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

import lorakit
from lorakit.bundle.lock import Lock
from lorakit.bundle.problems import BundleError
from lorakit.bundle.read import build
from lorakit.bundle.read import parse as parse_bundle
from lorakit.bundle.schema import find as find_field
from lorakit.errors import LorakitError
from lorakit.hardware.facts import Accelerator, Hardware, TorchBuild
from lorakit.planner import presets
from lorakit.planner.presets import Preset, find, merge, parse, save, shipped, user

PICTURES = {"schema": 1, "name": "x", "dataset": {"sources": [{"path": "photos"}]}}

MINE = """\
schema = 1
name = "mine"
title = "Mine"

[train]
steps = 9   # because
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LORAKIT_PRESETS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("preset", shipped(), ids=lambda p: p.name)
def test_a_shipped_preset_is_whole(preset: Preset) -> None:
    bundle = build(merge(PICTURES, preset.settings))
    assert preset.path is not None
    assert preset.path.stem == preset.name
    assert preset.title
    assert preset.description.endswith(".")
    assert preset.devices
    reasoned = set(preset.reasons)
    for table, values in preset.settings.items():
        for name in values:
            key = f"{table}.{name}"
            assert find_field(key), key
            assert key in reasoned or table == "base", f"{key} has no reason"
    assert bundle.base.family == preset.family


def test_what_ships() -> None:
    found = {p.name: p for p in shipped()}
    assert found.keys() == {"pico-cpu", "sd1-standard", "sd2-standard", "sdxl-standard"}
    assert found["pico-cpu"].settings["train"]["steps"] == 600
    assert "Min-SNR" in found["sd1-standard"].reasons["loss.snr_gamma"]


def test_an_installed_lorakit_has_its_presets_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lorakit" / "_presets").mkdir(parents=True)
    (tmp_path / "lorakit" / "_presets" / "mine.toml").write_text(MINE)
    monkeypatch.setattr(lorakit, "__file__", str(tmp_path / "lorakit" / "__init__.py"))
    assert [p.name for p in shipped()] == ["mine"]


def test_a_preset_brings_its_reasons() -> None:
    assert parse(MINE).reasons == {"train.steps": "because"}
    assert parse(MINE).settings == {"train": {"steps": 9}}
    assert parse(MINE.replace("\n", "\r\n")).reasons == {"train.steps": "because"}


@pytest.mark.parametrize(
    ("change", "where", "fix", "line"),
    [
        (("steps = 9", "stepz = 9"), "train.stepz", "Did you mean train.steps?", 6),
        (("[train]", "[trian]"), "trian", "Did you mean [train]?", 5),
        (("title", "titel"), "titel", "Did you mean title?", 3),
        (('title = "Mine"', ""), "title", "", None),
        (("steps = 9", 'steps = "9"'), "train.steps", "Remove the quotes", 6),
        (("[train]\nsteps = 9", "[for]\ndevices = ['tpu']"), "for.devices[0]", 'mean "cpu"?', 6),
        (("[train]\nsteps", "[for]\nmin_memory"), "for.min_memory", "for.min_memory_gib?", 6),
        (("[train]\nsteps", "[dataset]\nsources"), "dataset.sources", "takes resolution", 6),
        (("[train]", "[lock]"), "lock", "A preset takes", 5),
        (("schema = 1", "schema = 2"), "schema", "Update lorakit.", 1),
        (("schema = 1\n", ""), "schema", "Put schema = 1", None),
        (('"mine"', '"../mine"'), "name", "letters", 2),
    ],
)
def test_a_preset_is_read_as_strictly_as_a_bundle(
    change: tuple[str, str], where: str, fix: str, line: int | None
) -> None:
    with pytest.raises(BundleError) as caught:
        parse(MINE.replace(*change))
    (found,) = caught.value.problems
    assert (found.where, found.line) == (where, line)
    assert fix in found.fix
    assert "bundle" not in found.what + found.fix


def test_a_broken_preset_is_reported_and_hides_no_other(folder: Path) -> None:
    (folder / "mine.toml").write_text(MINE)
    (folder / "bad.toml").write_text(MINE.replace("steps", "stepz").replace("mine", "bad"))
    (folder / "worse.toml").write_text("steps =")
    (folder / "copy.toml").write_text(MINE)
    assert [p.name for p in user()] == ["mine"]
    found = {Path(p.where).name: p for p in presets.problems()}
    assert found.keys() == {"bad.toml", "worse.toml", "mine.toml"}
    assert "copy.toml" in found["mine.toml"].what
    assert found["bad.toml"].line == 6
    assert {p.severity for p in found.values()} == {"warning"}
    with pytest.raises(BundleError, match=r"train\.stepz"):
        find("bad")


def test_presets_are_found_by_name_and_by_path(folder: Path) -> None:
    (folder / "mine.toml").write_text(MINE)
    assert find("mine") == find(str(folder / "mine.toml"))
    assert find("pico-cpu").settings["base"]["model"] == "pico"
    with pytest.raises(LorakitError, match="no preset pico-cpi") as caught:
        find("pico-cpi")
    assert caught.value.hint == "Did you mean pico-cpu?"
    with pytest.raises(LorakitError) as caught:
        find("zzz")
    assert caught.value.hint == (
        "There are mine, pico-cpu, sd1-standard, sd2-standard, sdxl-standard."
    )


def test_without_a_folder_there_are_no_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert presets.user_folder().name == "presets"
    assert user() == []
    assert presets.problems() == []


def test_a_saved_preset_is_the_bundle_without_its_pictures(folder: Path) -> None:
    bundle = parse_bundle(
        "schema = 1\nname = 'dog'\n[[dataset.sources]]\npath = 'secret/place'\n",
        ["train.steps=77", 'sample.prompts=["a dog"]', "dataset.resolution=256"],
    )
    lock = Lock(lorakit="0.1.0", threads=2, attention="sdpa", determinism="bytes")
    bundle = bundle.model_copy(update={"lock": lock})
    path = save("my own", bundle, "My own", "For dogs.", {"train.steps": "enough", "name": "no"})
    assert path == folder / "my own.toml"
    text = path.read_text()
    assert "secret" not in text
    assert "lock" not in text
    preset = find("my own")
    assert preset.reasons == {"train.steps": "enough"}
    assert build(merge(PICTURES, preset.settings)).train == bundle.train
    assert "sources" not in tomllib.loads(text)["dataset"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    with pytest.raises(LorakitError, match="already"):
        save("my own", bundle, "Again")
    save("my own", bundle, "Again", overwrite=True)
    assert find("my own").title == "Again"


def test_a_preset_keeps_no_folder_of_this_machine_as_its_base(folder: Path) -> None:
    bundle = parse_bundle(
        "schema = 1\nname = 'dog'\n[[dataset.sources]]\npath = 'p'\n", ["base.model=/home/me/base"]
    )
    save("mine", bundle, "Mine")
    assert find("mine").settings["base"] == {"family": "sd1"}


@pytest.mark.parametrize("name", ["../up", "", "a/b", ".hidden", "pico-cpu"])
def test_a_name_that_cannot_be_is_refused(name: str, folder: Path) -> None:
    bundle = parse_bundle("schema = 1\nname = 'dog'\n[[dataset.sources]]\npath = 'p'\n")
    with pytest.raises(LorakitError):
        save(name, bundle, "Title")
    assert list(folder.iterdir()) == []


def test_merge_goes_table_by_table_and_changes_nothing() -> None:
    below = {"train": {"steps": 1, "seed": 2}, "name": "x", "list": [1]}
    above = {"train": {"steps": 3}, "list": [2], "more": {"a": 1}}
    assert merge(below, above) == {
        "train": {"steps": 3, "seed": 2}, "name": "x", "list": [2], "more": {"a": 1},
    }  # fmt: skip
    assert below["train"] == {"steps": 1, "seed": 2}
    merge(below, {})["train"]["steps"] = 9
    assert below["train"] == {"steps": 1, "seed": 2}


@pytest.mark.parametrize(
    ("kind", "free", "suits"),
    [("cuda", 22.0, True), ("cuda", None, True), ("cuda", 1.0, False), ("rocm", 22.0, False)],
)
def test_a_preset_knows_its_machines(kind: str, free: float | None, suits: bool) -> None:
    preset = parse(MINE + "[for]\nmin_memory_gib = 4\ndevices = ['cuda']\n")
    build_of = TorchBuild(version="2", cuda="12.8" if kind == "cuda" else None, hip="6")
    card = Accelerator(kind=kind, name="card", memory_free_gib=free)  # type: ignore[arg-type]
    assert preset.suits(Hardware(torch=build_of, accelerators=(card,))) is suits


def test_without_a_card_the_machine_counts() -> None:
    assert find("pico-cpu").suits(Hardware(ram_free_gib=3.0))
    assert not find("pico-cpu").suits(Hardware(ram_free_gib=1.0))
    assert not find("sd1-standard").suits(Hardware(ram_free_gib=64.0))
