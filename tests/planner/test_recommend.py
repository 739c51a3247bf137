from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorakit.bundle.models import Bundle
from lorakit.bundle.read import build, parse
from lorakit.bundle.schema import find as find_field
from lorakit.bundle.write import dump
from lorakit.dataset.buckets import Fit
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.families.base_model import BaseFacts
from lorakit.families.families import FAMILIES
from lorakit.hardware.facts import Accelerator, Hardware, TorchBuild
from lorakit.hardware.files import load
from lorakit.planner.presets import Preset, find, merge, shipped
from lorakit.planner.recommend import Recommendation, recommend

MACHINES = sorted((Path(__file__).parent.parent / "data" / "hardware").glob("*.toml"))

PICTURES = {"schema": 1, "name": "x", "dataset": {"sources": [{"path": "photos"}]}}


def card(capability: tuple[int, int] | None, free: float | None = 20.0) -> Hardware:
    accelerator = Accelerator(kind="cuda", name="Card", capability=capability, memory_free_gib=free)
    return Hardware(torch=TorchBuild(version="2", cuda="12.8"), accelerators=(accelerator,))


CPU = Hardware(cpu_threads=2, ram_free_gib=16.0)


def pictures(count: int, repeats: int = 1, caption: str = "a dog {}") -> DatasetReport:
    fit = Fit(width=64, height=64, scale_width=64, scale_height=64, left=0, top=0)
    return DatasetReport(
        pictures=tuple(
            Picture(
                path=Path(f"/p/{n}.png"), name=f"{n}.png", source=0, repeats=repeats, width=64,
                height=64, fit=fit, caption=caption.format(n), caption_path=None, tokens=2,
                sha256="", turned=False,
            )
            for n in range(count)
        )
    )  # fmt: skip


def base(model: str, resolution: int, size_step: int = 8, family: str = "sd1") -> BaseFacts:
    return BaseFacts(
        model=model, folder=None, family=family, resolution=resolution, size_step=size_step,
        latent_factor=8, token_limit=75, prediction="epsilon", weight_bytes=None,
    )  # fmt: skip


def preset(**tables: Any) -> Preset:
    return Preset(name="x", title="x", settings=tables)


def whole(recommendation: Recommendation) -> Bundle:
    return build(merge(PICTURES, recommendation.settings))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda f: f.stem)
@pytest.mark.parametrize("chosen", shipped(), ids=lambda p: p.name)
@pytest.mark.parametrize("count", [0, 1, 7, 24, 500])
def test_every_preset_on_every_machine_is_a_bundle(
    machine: Path, chosen: Preset, count: int
) -> None:
    found = recommend(load(machine), pictures(count), base("pico", 64), chosen)
    bundle = whole(found)
    assert parse(dump(bundle, found.reasons)) == bundle
    for key, reason in found.reasons.items():
        assert find_field(key), key
        assert reason
        assert reason in dump(bundle, found.reasons)
    if count:
        assert bundle.train.batch_size * bundle.train.accumulation <= count
    assert bundle.dataset.resolution == 64


def test_what_is_not_known_stays_the_presets() -> None:
    chosen = find("pico-cpu")
    found = recommend(Hardware(), None, None, chosen)
    assert found.settings == chosen.settings
    assert found.reasons == chosen.reasons


@pytest.mark.parametrize(
    ("hardware", "given", "precision", "why"),
    [
        (card((8, 9)), "bf16", "bf16", "capability 8.9, which has bf16"),
        (card((8, 0)), "bf16", "bf16", "8.0"),
        (card((7, 5)), "bf16", "fp16", "capability 7.5, and bf16 needs 8.0"),
        (card((6, 1)), "bf16", "fp16", "6.1"),
        (card(None), "bf16", "fp16", "nobody could tell"),
        (card((9, 0)), "fp32", "fp32", ""),
        (card((9, 0)), None, "bf16", "9.0"),
        (CPU, "bf16", "fp32", "CPU"),
        (CPU, "fp16", "fp32", "CPU"),
        (CPU, None, "fp32", "CPU"),
    ],
)
def test_precision_follows_the_card(
    hardware: Hardware, given: str | None, precision: str, why: str
) -> None:
    chosen = preset(train={"precision": given}) if given else preset()
    found = recommend(hardware, None, None, chosen)
    assert found.settings["train"]["precision"] == precision
    assert why in found.reasons.get("train.precision", "")


@pytest.mark.parametrize(
    ("count", "repeats", "batch", "accumulation", "expected"),
    [
        (10, 1, 4, 4, (4, 2)), (1, 1, 4, 1, (1, 1)), (1, 10, 4, 1, (4, 1)), (3, 1, 8, 2, (3, 1)),
        (100, 1, 4, 4, (4, 4)),
    ],
)  # fmt: skip
def test_a_step_never_sees_more_pictures_than_there_are(
    count: int, repeats: int, batch: int, accumulation: int, expected: tuple[int, int]
) -> None:
    chosen = preset(train={"batch_size": batch, "accumulation": accumulation})
    train = recommend(CPU, pictures(count, repeats), None, chosen).settings["train"]
    assert (train["batch_size"], train["accumulation"]) == expected


@pytest.mark.parametrize(
    ("count", "steps"),
    [(1, 500), (5, 750), (10, 1500), (24, 1500), (40, 1500), (60, 2250), (9999, 6000)],
)
def test_steps_follow_the_number_of_pictures(count: int, steps: int) -> None:
    found = recommend(CPU, pictures(count), None, preset(train={"steps": 1500}))
    assert found.settings["train"]["steps"] == steps
    assert f"each seen about {steps / count:.0f} times" in found.reasons["train.steps"]


def test_warm_up_stays_a_small_part() -> None:
    chosen = preset(train={"steps": 300, "warmup_steps": 100})
    train = recommend(CPU, pictures(3), None, chosen).settings["train"]
    assert (train["steps"], train["warmup_steps"]) == (100, 10)


@pytest.mark.parametrize(
    ("given", "resolution", "step", "expected"),
    [
        (None, 64, 8, 64), (512, 64, 8, 64), (512, 512, 64, 512), (768, 512, 64, 768),
        (1000, 512, 64, 960), (64, 512, 64, 512),
    ],
)  # fmt: skip
def test_resolution_follows_the_base(
    given: int | None, resolution: int, step: int, expected: int
) -> None:
    chosen = preset(dataset={"resolution": given}) if given else preset()
    found = recommend(CPU, None, base("some/base", resolution, step), chosen)
    assert found.settings["dataset"]["resolution"] == expected
    assert ("dataset.resolution" in found.reasons) is (given != expected)


def test_another_base_than_the_presets_drops_its_revision() -> None:
    chosen = preset(base={"model": "a/b", "revision": "123"})
    same = recommend(CPU, None, base("a/b", 512), chosen).settings["base"]
    other = recommend(CPU, None, base("c/d", 512), chosen).settings["base"]
    assert same["revision"] == "123"
    assert (other["model"], other["revision"]) == ("c/d", "")


XL = {"base": {"family": "sdxl"}, "dataset": {"resolution": 1024}}


@pytest.mark.parametrize(
    ("free", "model", "tables", "expected"),
    [
        (20.0, "a/b", {}, "none"),
        (3.1, "a/b", {}, "none"),
        (2.9, "a/b", {}, "full"),
        (3.1, "a/b", {"train": {"batch_size": 2}}, "full"),
        (3.1, "a/b", {"dataset": {"resolution": 768}}, "full"),
        (4.0, "a/b", {"train": {"precision": "fp32"}}, "full"),
        (20.0, "a/b", {"memory": {"checkpointing": "full"}}, "full"),
        (10.9, "a/b", XL, "none"),
        (10.7, "a/b", XL, "full"),
        (0.5, "pico", {}, None),
        (None, "a/b", {}, None),
    ],
)
def test_checkpointing_follows_free_memory(
    free: float | None, model: str, tables: dict[str, Any], expected: str | None
) -> None:
    family = tables.get("base", {}).get("family", "sd1")
    known = base(model, FAMILIES[family].resolution, family=family)
    found = recommend(card((8, 9), free), None, known, preset(**tables))
    assert found.settings.get("memory", {}).get("checkpointing") == expected


def test_prompts_are_captions_where_the_preset_has_none() -> None:
    def prompts(report: DatasetReport, **tables: Any) -> Any:
        found = recommend(CPU, report, None, preset(**tables))
        return found.settings.get("sample", {}).get("prompts")

    assert prompts(pictures(4)) == ["a dog 0", "a dog 2"]
    assert prompts(pictures(4, caption="a dog")) == ["a dog"]
    assert prompts(pictures(4, caption="")) is None
    assert prompts(pictures(4), sample={"prompts": ["mine"]}) == ["mine"]
