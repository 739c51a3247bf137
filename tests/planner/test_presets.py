from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import lorakit
from lorakit.bundle.problems import BundleError
from lorakit.bundle.read import build
from lorakit.bundle.schema import find as find_field
from lorakit.errors import LorakitError
from lorakit.families.base_model import usual
from lorakit.hardware.facts import Accelerator, Hardware, TorchBuild
from lorakit.planner import presets
from lorakit.planner.budget import budget
from lorakit.planner.estimate import estimate
from lorakit.planner.presets import Preset, find, merge, parse, shipped, user
from lorakit.planner.recommend import recommend

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
    assert preset.family in (bundle.base.family, "any")


def test_what_ships() -> None:
    found = {p.name: p for p in shipped()}
    ladder = {f"{family}-{gib}gib" for family in ("sd1", "sdxl") for gib in LADDER}
    assert found.keys() == ladder | {
        "pico-cpu", "sd1-standard", "sd2-standard", "sdxl-standard", "sd1-rocm", "sdxl-rocm",
        "character", "style", "object", "quick-look", "benchmark-sdxl",
    }  # fmt: skip
    assert found["pico-cpu"].settings["train"]["steps"] == 600
    assert "Min-SNR" in found["sd1-standard"].reasons["loss.snr_gamma"]


LADDER = (6, 8, 12, 16, 24, 48, 80)


@pytest.mark.parametrize("family", ["sd1", "sdxl"])
@pytest.mark.parametrize("gib", LADDER)
def test_a_rung_fits_the_card_it_is_made_for(family: str, gib: int) -> None:
    rung = find(f"{family}-{gib}gib")
    free = rung.min_memory_gib
    assert 0.9 * gib <= free < gib
    machine = Hardware(
        torch=TorchBuild(version="2", cuda="12.8"),
        accelerators=(Accelerator(kind="cuda", name="Card", memory_free_gib=free),),
    )
    drawing = preset_with(rung, sample={"prompts": ["a dog"]})
    facts = replace(usual(family), model="owner/name")
    found = recommend(machine, None, facts, drawing)
    bundle = build(merge(PICTURES, found.settings))
    peak = estimate(bundle, facts, None, machine).peak_gib
    assert budget(machine).verdict(peak) in ("fits", "tight")
    assert found.refusal is None
    assert bool(bundle.sample.prompts) == ((family, gib) not in (("sdxl", 6), ("sdxl", 8)))


def preset_with(preset: Preset, **tables: dict[str, object]) -> Preset:
    return replace(preset, settings=merge(preset.settings, tables))


@pytest.mark.parametrize("preset", shipped(), ids=lambda p: p.name)
def test_the_learning_rate_follows_rank_and_batch(preset: Preset) -> None:
    """1e-4 for rank 16 and one picture; the fourth root of the rank, the square root of more."""
    bundle = build(merge(PICTURES, preset.settings))
    if preset.name in ("pico-cpu", "benchmark-sdxl"):
        return
    usual = 1e-4 * (16 / bundle.adapter.rank) ** 0.25 * bundle.train.batch_size**0.5
    usual *= 2 if preset.name == "quick-look" else 1
    assert bundle.train.learning_rate == pytest.approx(usual, rel=0.03)


def test_the_published_benchmark() -> None:
    bundle = build(merge(PICTURES, find("benchmark-sdxl").settings))
    assert (bundle.dataset.resolution, bundle.train.batch_size, bundle.train.steps) == (
        1024, 1, 13 * 40,
    )  # fmt: skip
    assert (bundle.train.optimizer, bundle.memory.checkpointing) == ("adafactor", "none")
    assert bundle.train.accumulation == 1


def test_a_preset_that_extends_another_has_its_settings_and_reasons() -> None:
    rung, standard = find("sdxl-24gib"), find("sdxl-standard")
    assert rung.settings["adapter"] == standard.settings["adapter"]
    assert rung.settings["train"] == {
        **standard.settings["train"], "batch_size": 2, "steps": 1050, "learning_rate": 1.4e-4,
    }  # fmt: skip
    assert rung.reasons["loss.snr_gamma"] == standard.reasons["loss.snr_gamma"]
    assert rung.reasons["train.steps"] != standard.reasons["train.steps"]
    assert parse(rung.text) == replace(rung, path=None)


def test_any_shipped_preset_can_be_extended() -> None:
    """One that extends another itself, too; it is then for the same machines."""
    rung = find("sdxl-24gib")
    mine = parse(MINE.replace("[train]", 'extends = "sdxl-24gib"\n[train]'))
    assert mine.settings == merge(rung.settings, {"train": {"steps": 9}})
    assert mine.reasons["train.steps"] == "because"
    assert (mine.family, mine.min_memory_gib, mine.devices) == ("sdxl", 21.6, ("cuda",))
    anywhere = parse(MINE + '[for]\nfamily = "sdxl"\n')
    assert (anywhere.min_memory_gib, anywhere.devices) == (0.0, ())


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("sdxl-standart", "mean sdxl-standard?"),
        ("zz", "lorakit presets lists them."),
    ],
)
def test_what_cannot_be_extended(name: str, fix: str) -> None:
    with pytest.raises(BundleError) as caught:
        parse(MINE.replace("[train]", f'extends = "{name}"\n[train]'))
    (found,) = caught.value.problems
    assert (found.where, found.line) == ("extends", 5)
    assert fix in found.fix


@pytest.mark.parametrize("preset", shipped(), ids=lambda p: p.name)
def test_a_preset_written_out_is_the_same_preset(preset: Preset) -> None:
    assert parse(preset.text) == replace(preset, path=None)


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
    assert caught.value.hint.startswith("There are benchmark-sdxl, character, mine, object,")


def test_without_a_folder_there_are_no_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert presets.user_folder().name == "presets"
    assert user() == []
    assert presets.problems() == []


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
    ("kind", "free", "why"),
    [
        ("cuda", 22.0, ""),
        ("cuda", None, ""),
        ("cuda", 1.0, "is made for 4.0 GiB free, and 1.0 are"),
        ("rocm", 22.0, "is for cuda, and training here runs on rocm"),
    ],
)
def test_a_preset_knows_its_machines(kind: str, free: float | None, why: str) -> None:
    preset = parse(MINE + "[for]\nmin_memory_gib = 4\ndevices = ['cuda']\n")
    build_of = TorchBuild(version="2", cuda="12.8" if kind == "cuda" else None, hip="6")
    card = Accelerator(kind=kind, name="card", memory_free_gib=free)  # type: ignore[arg-type]
    assert preset.unfit(Hardware(torch=build_of, accelerators=(card,))) == why


def test_without_a_card_the_machine_counts() -> None:
    assert not find("pico-cpu").unfit(Hardware(ram_free_gib=3.0))
    assert find("pico-cpu").unfit(Hardware(ram_free_gib=1.0))
    assert find("sd1-standard").unfit(Hardware(ram_free_gib=64.0))
