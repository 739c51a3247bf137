from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from lorakit.bundle.models import Bundle
from lorakit.bundle.problems import Problem
from lorakit.bundle.read import build, parse
from lorakit.bundle.schema import find as find_field
from lorakit.bundle.write import dump
from lorakit.dataset.buckets import Fit
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.errors import ExitCode
from lorakit.families.base_model import BaseFacts, usual
from lorakit.hardware.facts import Accelerator, Hardware, Probe, Process, TorchBuild, Tried
from lorakit.hardware.files import load
from lorakit.planner.budget import budget
from lorakit.planner.check import check
from lorakit.planner.estimate import estimate
from lorakit.planner.facts import Facts
from lorakit.planner.presets import Preset, find, merge, shipped
from lorakit.planner.recommend import Recommendation, recommend

MACHINES = Path(__file__).parent.parent / "data" / "hardware"

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
                folder="/p", name=f"{n}.png", source=0, repeats=repeats, width=64,
                height=64, fit=fit, caption=caption.format(n), caption_name=None, tokens=2,
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


@pytest.mark.parametrize("machine", ["cpu-only", "rtx4090"])
@pytest.mark.parametrize("count", [0, 1, 24])
def test_every_preset_becomes_a_bundle_with_its_reasons(machine: str, count: int) -> None:
    """Any number of pictures; on other machines see the table of all of them."""
    hardware = load(MACHINES / f"{machine}.toml")
    for chosen in shipped():
        found = recommend(hardware, pictures(count), base("pico", 64), chosen)
        bundle, text = whole(found), dump(whole(found), found.reasons)
        assert parse(text) == bundle
        for key, reason in found.reasons.items():
            assert find_field(key), key
            assert reason
            assert reason in text
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
        (10, 1, 4, 4, 8), (1, 1, 4, 1, 1), (1, 10, 4, 1, 4), (3, 1, 8, 2, 3), (100, 1, 4, 4, 16),
    ],
)  # fmt: skip
def test_a_step_never_sees_more_pictures_than_there_are(
    count: int, repeats: int, batch: int, accumulation: int, expected: int
) -> None:
    chosen = preset(train={"batch_size": batch, "accumulation": accumulation})
    train = recommend(CPU, pictures(count, repeats), None, chosen).settings["train"]
    assert train["batch_size"] * train["accumulation"] == expected


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


def test_fewer_pictures_in_a_step_want_a_lower_learning_rate() -> None:
    chosen = preset(train={"batch_size": 12, "learning_rate": 3.5e-4})
    found = recommend(CPU, pictures(3), None, chosen)
    assert found.settings["train"]["learning_rate"] == 1.7e-4
    assert "square root of 3 / 12" in found.reasons["train.learning_rate"]
    same = recommend(CPU, pictures(12), None, chosen)
    assert same.settings["train"]["learning_rate"] == 3.5e-4


def test_published_rates_of_higher_ranks() -> None:
    """1e-4 at rank 16, 8e-5 at 64, 6e-5 at 128, 5.1e-5 at 256: the fourth root comes near."""
    for rank, published in ((64, 8e-5), (128, 6e-5), (256, 5.1e-5)):
        found = recommend(CPU, None, None, preset(), {"adapter.rank": rank})
        assert found.settings["train"]["learning_rate"] == pytest.approx(published, rel=0.12)


def test_no_batch_is_larger_than_the_fullest_size() -> None:
    """Twelve pictures of four sizes: batches of three, and as many pictures a step as asked for."""
    wide = [
        replace(p, fit=replace(p.fit, width=64 + n % 4))
        for n, p in enumerate(pictures(12).pictures)
    ]
    found = recommend(
        CPU, DatasetReport(pictures=tuple(wide)), None, preset(train={"batch_size": 6})
    )
    train = found.settings["train"]
    assert (train["batch_size"], train["accumulation"]) == (3, 2)
    assert "the fullest size has 3 pictures" in found.reasons["train.batch_size"]


XL = {"base": {"family": "sdxl", "model": "a/b"}, "dataset": {"resolution": 1024}}


def peak(hardware: Hardware, tables: dict[str, Any], **memory: Any) -> float:
    """What the table predicts for a preset with these tables."""
    whole_of = build(merge(merge(PICTURES, tables), {"memory": memory}))
    found = estimate(whole_of, None, None, hardware).peak_gib
    assert found is not None
    return found


def free_for(gib: float, share: float = 1.0) -> Hardware:
    """A card with so much that may be used, and its reserve beside it."""
    reserve = budget(card((8, 9))).reserve_gib
    return card((8, 9), gib * share + reserve)


@pytest.mark.parametrize(
    "tables",
    [
        {"base": {"model": "a/b"}},
        {"base": {"model": "a/b"}, "dataset": {"resolution": 768}},
        XL,
        merge(XL, {"adapter": {"rank": 128, "targets": "linear"}}),
        merge(XL, {"memory": {"checkpointing": "full"}}),
    ],
)
def test_checkpointing_is_used_where_its_memory_is_needed(tables: dict[str, Any]) -> None:
    held = {"train.optimizer": "adamw", "train.precision": "bf16"}
    any_card = card((8, 9))
    most = peak(any_card, tables, checkpointing="none")
    roomy = recommend(free_for(most, 1.1), None, None, preset(**tables), held)
    assert roomy.settings["memory"]["checkpointing"] == "none"
    assert f"takes {most:.1f} of the {1.1 * most:.1f}" in roomy.reasons["memory.checkpointing"]
    short = recommend(free_for(most, 0.99), None, None, preset(**tables), held)
    chosen = short.settings["memory"]["checkpointing"]
    assert chosen != "none"
    assert f"with none it is {most:.1f}" in short.reasons["memory.checkpointing"]
    (rejected,) = [r for r in short.rejected if r[0] == "memory.checkpointing"]
    assert rejected[1] == "none"
    assert f"takes {most:.1f} GiB, and {0.99 * most:.1f} may be used" in rejected[2]
    assert short.refusal is None


def test_where_nothing_fits_the_least_is_named_and_what_would_help() -> None:
    small = free_for(3.0)
    found = recommend(small, None, usual("sdxl", "a/b"), preset(**XL))
    assert found.refusal is not None
    assert found.refusal.code == ExitCode.OUT_OF_MEMORY
    assert "3.0 of 3.2 GiB free may be used. Kept free: 0.25 for" in found.refusal.what
    assert re.search(r"The least that it can take is \d+\.\d GiB", found.refusal.fix)
    assert "Stable Diffusion 1.x" in found.refusal.fix


def test_processes_that_hold_the_card_are_named() -> None:
    hardware = free_for(3.0)
    held = (Process(pid=2113, name="blender", memory_gib=30.0),)
    busy = replace(hardware, accelerators=(replace(hardware.accelerators[0], processes=held),))
    refusal = recommend(busy, None, None, preset(**XL)).refusal
    assert refusal is not None
    assert "blender (30.0 GiB). Without them there is room enough." in refusal.fix


def test_what_is_not_known_of_memory_decides_nothing() -> None:
    found = recommend(card((8, 9), None), None, None, preset(memory={"checkpointing": "full"}))
    assert found.settings["memory"]["checkpointing"] == "full"
    assert found.refusal is None


def test_a_persons_own_values_stay_and_the_others_suit_them() -> None:
    """A high rank takes memory that rank 16 leaves free, and wants a lower learning rate."""
    most = peak(card((8, 9)), XL, checkpointing="none")
    hardware = free_for(most, 1.1)
    chosen = preset(**XL, train={"learning_rate": 1e-4})
    assert recommend(hardware, None, None, chosen).settings["memory"]["checkpointing"] == "none"
    own = {"adapter.rank": 256, "train.optimizer": "adamw"}
    found = recommend(hardware, None, None, chosen, own)
    assert found.settings["adapter"]["rank"] == 256
    assert found.settings["train"]["optimizer"] == "adamw"
    assert found.settings["train"]["learning_rate"] == 5e-5
    assert found.reasons["train.learning_rate"] == (
        "1e-4 times the fourth root of 16 / 256, for the rank"
    )
    assert found.settings["memory"]["checkpointing"] != "none"


def test_rocm_gets_checkpointing_at_high_ranks_with_its_surcharge_named() -> None:
    """24 GiB of a Radeon RX 7900 XTX."""
    radeon = Accelerator(
        kind="rocm", name="AMD Radeon RX 7900 XTX", architecture="gfx1100",
        memory_total_gib=24.0, memory_free_gib=23.4,
    )  # fmt: skip
    machine = Hardware(
        torch=TorchBuild(version="2.11.0+rocm7.1", hip="7.1"), accelerators=(radeon,)
    )
    for targets, rank in (("attention", 256), ("linear", 128), ("linear", 256)):
        own = {"adapter.rank": rank, "adapter.targets": targets, "train.optimizer": "adamw"}
        found = recommend(machine, None, usual("sdxl", "a/b"), find("sdxl-rocm"), own)
        assert found.refusal is None
        assert found.settings["memory"] == {"checkpointing": ANY, "attention": "sdpa"}
        assert found.settings["memory"]["checkpointing"] != "none"
        why = found.reasons["memory.checkpointing"]
        assert re.search(r"with none it is [\d.]+, [\d.]+ of them ROCm's surcharge", why)


def with_probe(hardware: Hardware, **seen: Any) -> Hardware:
    """A machine whose card was tried."""
    one = replace(hardware.accelerators[0], uuid="GPU-1")
    looked = Tried(kind=one.kind, name=one.name, uuid="GPU-1", **seen)
    return replace(hardware, accelerators=(one,), probe=Probe(devices=(looked,)))


@pytest.mark.parametrize(
    ("capability", "modules", "attention"),
    [
        ((8, 6), {"xformers": ""}, "xformers"),
        ((8, 0), {"xformers": ""}, "xformers"),
        ((8, 9), {"xformers": ""}, "sdpa"),
        ((8, 6), {"xformers": "no kernel"}, "sdpa"),
        ((8, 6), {}, "sdpa"),
    ],
)
def test_xformers_is_for_ampere_cards_where_it_works(
    capability: tuple[int, int], modules: dict[str, str], attention: str
) -> None:
    found = recommend(with_probe(card(capability), modules=modules), None, None, find("sd1-6gib"))
    assert found.settings["memory"]["attention"] == attention
    rejected = [r for r in found.rejected if r[0] == "memory.attention"]
    assert bool(rejected) is (capability == (8, 6) and attention == "sdpa")


def test_a_precision_that_was_tried_and_failed_is_not_used() -> None:
    hardware = with_probe(card((8, 9)), precisions=("fp32", "fp16"))
    found = recommend(hardware, None, None, find("sd1-standard"))
    assert found.settings["train"]["precision"] == "fp16"


def test_an_optimizer_that_is_changed_to_loses_the_options_of_the_other() -> None:
    """Adafactor where adamw's two numbers for each of 680 million weights are too many."""
    tables = merge(XL, {"adapter": {"rank": 256, "targets": "linear"}})
    tables["train"] = {"optimizer": "adamw", "optimizer_options": {"beta1": 0.8}}
    least = peak(card((8, 9)), tables, checkpointing="full")
    found = recommend(free_for(least, 0.8), None, None, preset(**tables))
    assert found.settings["train"]["optimizer"] == "adafactor"
    assert found.settings["train"]["optimizer_options"] == {}
    assert "adamw would take" in found.reasons["train.optimizer"]


def test_prompts_are_captions_where_the_preset_has_none() -> None:
    def prompts(report: DatasetReport, **tables: Any) -> Any:
        found = recommend(CPU, report, None, preset(**tables))
        return found.settings.get("sample", {}).get("prompts")

    assert prompts(pictures(4)) == ["a dog 0", "a dog 2"]
    assert prompts(pictures(4, caption="a dog")) == ["a dog"]
    assert prompts(pictures(4, caption="")) is None
    assert prompts(pictures(4), sample={"prompts": ["mine"]}) == ["mine"]


def test_where_drawing_does_not_fit_and_training_does_none_are_drawn() -> None:
    """A card of 8 GiB without bf16: SDXL trains in 6 GiB, and its VAE in fp32 takes 9."""
    hardware, facts = card((7, 5), free=7.7), named("sdxl")
    found = recommend(hardware, pictures(20), facts, find("sdxl-8gib"))
    made = whole(found)
    assert found.refusal is None
    assert made.sample.prompts == ()
    assert re.match(
        r"none: drawing takes 8\.\d GiB, and 7\.\d may", found.reasons["sample.prompts"]
    )
    assert not said_of_memory(made, hardware, facts)

    drawn = made.model_copy(update={"sample": made.sample.model_copy(update={"prompts": ("a",)})})
    [problem] = [p for p in problems(drawn, hardware, facts) if p.severity == "error"]
    assert (problem.where, problem.code) == ("sample.prompts", ExitCode.OUT_OF_MEMORY)
    assert problem.fix.startswith("--set 'sample.prompts=[]' takes ")

    held = recommend(hardware, pictures(20), facts, find("sdxl-8gib"), {"sample.prompts": ["a"]})
    assert held.settings["sample"]["prompts"] == ["a"]
    assert held.refusal is not None
    assert "--set 'sample.prompts=[]'" in held.refusal.fix


def test_no_prompt_is_asked_for_where_no_picture_can_be_drawn() -> None:
    """Whether training fits or not."""
    facts, small = named("sdxl"), card((7, 5), free=7.7)
    silent = whole(recommend(small, None, facts, find("sdxl-8gib")))
    for checkpointing in ("none", "full"):
        memory = silent.memory.model_copy(update={"checkpointing": checkpointing})
        made = silent.model_copy(update={"memory": memory})
        assert not [p for p in problems(made, small, facts) if p.where == "sample.prompts"]
        large = problems(made, card((7, 5), free=20.0), facts)
        assert "No sample prompts" in next(p.what for p in large if p.where == "sample.prompts")


def test_a_persons_own_value_that_is_the_presets_keeps_its_reason() -> None:
    chosen = find("sdxl-standard")
    own = {"adapter.rank": 16, "train.steps": 900}
    found = recommend(card((8, 9)), None, named("sdxl"), chosen, own)
    assert found.reasons["adapter.rank"] == chosen.reasons["adapter.rank"]
    assert "train.steps" not in found.reasons


def test_what_is_largest_is_not_called_most() -> None:
    """5.3 of 10.9 GiB are less than half of it."""
    made = build(merge(PICTURES, find("sdxl-16gib").settings))
    [problem] = [
        p for p in problems(made, card((8, 9), free=8.0), named("sdxl")) if p.severity == "error"
    ]
    assert re.search(r"take 10\.\d GiB, 5\.\d of them activations\.", problem.what)


def problems(bundle: Bundle, hardware: Hardware, base: BaseFacts) -> list[Problem]:
    return check(bundle, Facts(hardware=hardware, base=base))


def said_of_memory(bundle: Bundle, hardware: Hardware, base: BaseFacts) -> list[Problem]:
    """What is said of memory and of samples."""
    return [p for p in problems(bundle, hardware, base) if p.where.startswith(("memory", "sample"))]


def test_the_search_counts_all_that_the_estimate_does() -> None:
    """The program too, where the CPU trains: what is recommended there fits, and says by how much
    as the estimate does."""
    hardware = Hardware(cpu_threads=8, ram_total_gib=16.0, ram_free_gib=8.0)
    found = recommend(hardware, pictures(20), named("sd1"), find("sd1-standard"))
    told = estimate(whole(found), named("sd1"), None, hardware)
    assert budget(hardware).verdict(told.peak_gib) == "fits"
    assert f"{told.peak_gib:.1f} of the" in found.reasons["memory.checkpointing"]


def named(family: str) -> BaseFacts:
    return replace(usual(family), model="owner/name")
