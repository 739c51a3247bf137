"""Each rule speaks when it should, says the way out, and is silent about a sound bundle."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from lorakit.bundle import read
from lorakit.bundle.models import Bundle
from lorakit.bundle.problems import Problem
from lorakit.bundle.write import tables
from lorakit.dataset.buckets import fit
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.errors import ExitCode
from lorakit.families.base_model import BaseFacts, usual
from lorakit.families.shipped import published
from lorakit.hardware.facts import Hardware, Probe, TorchBuild, Tried
from lorakit.hardware.files import load
from lorakit.planner.budget import budget
from lorakit.planner.check import RULES, check
from lorakit.planner.disk import needed_bytes
from lorakit.planner.estimate import Estimate, Part, Phase
from lorakit.planner.facts import Facts

MACHINES = Path(__file__).resolve().parent.parent / "data" / "hardware"

BASE = BaseFacts(
    model="someone/model",
    folder=Path("/models/sd1"),
    family="sd1",
    resolution=512,
    size_step=64,
    latent_factor=8,
    token_limit=75,
    prediction="epsilon",
    weight_bytes=4_000_000_000,
)


def bundle(**sections: dict[str, Any]) -> Bundle:
    """A sound bundle, with some values changed."""
    whole: dict[str, Any] = {
        "name": "dog",
        "base": {"model": "someone/model"},
        "dataset": {"sources": [{"path": "dog"}]},
        "train": {"steps": 1000},
        "sample": {"prompts": ["a dog"]},
    }
    for section, values in sections.items():
        whole[section] = {**whole.get(section, {}), **values}
    return Bundle.model_validate(whole)


def report(*shapes: tuple[int, int], repeats: int = 1, **more: Any) -> DatasetReport:
    pictures = tuple(
        Picture(
            folder="/dog",
            name=f"{n}.png",
            source=0,
            repeats=repeats,
            width=width,
            height=height,
            fit=fit(width, height, 512, 64),
            caption="a dog",
            caption_name=None,
            tokens=2,
            sha256=f"{n:064x}",
            turned=False,
        )
        for n, (width, height) in enumerate(shapes)
    )
    return DatasetReport(pictures=pictures, **more)


def machine(name: str) -> Hardware:
    return replace(load(MACHINES / f"{name}.toml"), findings=())


SOUND = Facts(
    hardware=machine("rtx4090"),
    report=report(*[(512, 512)] * 10),
    base=BASE,
    disk_free_bytes=10**12,
    runs_folder="/home/me/lorakit/runs",
    prompt_tokens=(2,),
)


def problems(facts: Facts = SOUND, **sections: dict[str, Any]) -> list[Problem]:
    return check(bundle(**sections), facts)


def only(found: list[Problem], severity: str, where: str, words: str) -> Problem:
    assert len(found) == 1, [p.what for p in found]
    problem = found[0]
    assert (problem.severity, problem.where) == (severity, where)
    assert re.search(words, f"{problem.what} {problem.fix}"), problem
    return problem


def test_a_sound_bundle_has_no_problems() -> None:
    assert problems() == []


def test_nothing_known_is_no_reason_to_complain() -> None:
    known = check(bundle(), Facts(hardware=Hardware()))
    assert {p.where for p in known} == {"train.precision", "base.model"}
    assert {p.severity for p in known} == {"warning"}


def test_a_base_that_cannot_be_fetched() -> None:
    away = replace(SOUND, base=replace(BASE, folder=None))
    assert problems(away) == []
    only(problems(replace(away, offline=True)), "error", "base.model", "HF_HUB_OFFLINE")


def predicting(says: str, **more: Any) -> Facts:
    return replace(SOUND, base=replace(BASE, says=says, **more))


def test_a_bundle_that_says_otherwise_than_its_base_is_warned() -> None:
    wanted = {"model": "someone/model", "prediction": "v_prediction"}
    found = problems(predicting("epsilon", prediction="v_prediction"), base=wanted)
    only(found, "warning", "base.prediction", "says that it predicts epsilon, and the bundle says")
    assert problems(predicting("v_prediction", prediction="v_prediction"), base=wanted) == []
    assert problems(predicting(""), base=wanted) == []


def test_sd2_that_does_not_say_what_it_predicts_is_warned_of() -> None:
    silent = predicting("", family="sd2")
    only(problems(silent), "warning", "base.prediction", "predicts the noise or v: taken for eps")
    assert problems(predicting("epsilon", family="sd2")) == []
    assert problems(silent, base={"model": "someone/model", "prediction": "epsilon"}) == []


def test_zero_snr_is_for_models_that_predict_v() -> None:
    ends = {"rescale_betas_zero_snr": True}
    wanted = {"model": "someone/model", "zero_snr": True}
    found = problems(predicting("", scheduler=ends), base=wanted)
    only(found, "error", "base.zero_snr", "At SNR 0 there is nothing but noise")
    facts = predicting("v_prediction", prediction="v_prediction", scheduler=ends)
    assert problems(facts, base=wanted) == []


@pytest.mark.parametrize(
    ("value", "words"), [(520, "512 and 576"), (504, "448 and 512"), (1000, "960 and 1024")]
)
def test_resolution_off_the_step(value: int, words: str) -> None:
    only(problems(dataset={"resolution": value}), "error", "dataset.resolution", words)


def test_resolution_below_one_step() -> None:
    found = problems(dataset={"resolution": 32})
    assert found[0].severity == "error"
    assert "The nearest that is: 64." in found[0].fix


def test_resolution_far_from_the_base() -> None:
    only(problems(dataset={"resolution": 2048}), "warning", "dataset.resolution", "far from 512")


def test_more_in_a_step_than_in_an_epoch() -> None:
    found = problems(train={"batch_size": 4, "accumulation": 4})
    words = r"10 in an epoch, less than batch 4 x accumulation 4 = 16"
    only(found, "warning", "train.accumulation", words)
    one = replace(SOUND, report=report((512, 512)))
    only(problems(one, train={"batch_size": 4}), "warning", "train.batch_size", "1 in an epoch")
    enough = replace(SOUND, report=report(*[(512, 512)] * 10, repeats=2))
    assert problems(enough, train={"batch_size": 4, "accumulation": 4}) == []


def test_a_batch_that_no_size_fills() -> None:
    shapes = [(512, 512), (512, 512), (400, 800), (400, 800), (800, 400), (800, 400)]
    facts = replace(SOUND, report=report(*shapes))
    only(problems(facts, train={"batch_size": 4}), "warning", "train.batch_size", "fullest has 2")
    assert problems(facts, train={"batch_size": 2}) == []


@pytest.mark.parametrize(
    ("name", "precision", "severity"),
    [
        ("rtx4090", "bf16", None),
        ("rtx4090", "fp16", None),
        ("t4", "bf16", "error"),
        ("t4", "fp16", None),
        ("t4", "fp32", None),
        ("two-cards", "bf16", "error"),
        ("gb10", "bf16", None),
        ("cpu-only", "bf16", "warning"),
        ("cpu-only", "fp16", "warning"),
        ("cpu-only", "fp32", None),
        ("rtx4090-cpu-torch", "bf16", "warning"),
    ],
)
def test_precision(name: str, precision: str, severity: str | None) -> None:
    facts = replace(SOUND, hardware=machine(name))
    found = [
        p for p in problems(facts, train={"precision": precision}) if p.where == "train.precision"
    ]
    assert [p.severity for p in found] == ([severity] if severity else [])
    if severity == "error":
        assert found[0].fix == "--set train.precision=fp16"


def test_precision_names_card_and_capability() -> None:
    found = problems(replace(SOUND, hardware=machine("t4")))
    only(found, "error", "train.precision", r"Tesla T4 \(compute capability 7\.5\)")


@pytest.mark.parametrize(
    ("schedule", "steps", "severity"),
    [
        ("constant", 10, "warning"),
        ("cosine", 999, None),
        ("cosine", 1000, "error"),
        ("linear", 2000, "error"),
        ("constant_with_warmup", 1000, "error"),
        ("constant", 0, None),
    ],
)
def test_warmup(schedule: str, steps: int, severity: str | None) -> None:
    found = problems(train={"schedule": schedule, "warmup_steps": steps})
    assert [(p.where, p.severity) for p in found] == (
        [("train.warmup_steps", severity)] if severity else []
    )


@pytest.mark.parametrize(
    ("optimizer", "options", "wrong"),
    [
        ("adamw", {"beta1": 0.8, "weight_decay": 0.1}, []),
        ("adamw", {"clip_threshold": 2.0}, ["clip_threshold"]),
        ("adafactor", {"beta1": 0.8, "eps": 1e-7}, ["beta1", "eps"]),
        ("adafactor", {"beta2_decay": -0.5, "weight_decay": 0.1}, []),
        ("adafactor", {"beta1": 0.9}, []),
    ],
)
def test_optimizer_options(optimizer: str, options: dict[str, float], wrong: list[str]) -> None:
    found = problems(train={"optimizer": optimizer, "optimizer_options": options})
    assert [p.where for p in found] == [f"train.optimizer_options.{name}" for name in wrong]


def test_every_optimizer_option_is_of_use_to_one() -> None:
    from lorakit.bundle.models import OptimizerOptions, Train
    from lorakit.planner.optimizers import USED

    assert set.union(*USED.values()) == set(OptimizerOptions.model_fields)
    assert set(USED) == set(Train.model_fields["optimizer"].annotation.__args__)  # type: ignore[union-attr]


def test_xformers() -> None:
    asked = {"attention": "xformers"}
    untried = replace(SOUND, hardware=replace(SOUND.hardware, probe=None))
    absent = problems(untried, memory=asked)
    only(absent, "error", "memory.attention", "not installed.*attention=sdpa")
    installed = replace(untried, modules=frozenset({"xformers"}))
    assert problems(installed, memory=asked) == []
    on_cpu = replace(installed, hardware=replace(machine("cpu-only"), probe=None))
    found = problems(on_cpu, memory=asked, train={"precision": "fp32"})
    assert "does not run on the CPU" in found[0].what


@pytest.mark.parametrize(("family", "there"), [("sd1", 36), ("sdxl", 84)])
def test_blocks_that_recompute(family: str, there: int) -> None:
    """Of a base that nobody knows yet nothing is said."""
    facts = replace(SOUND, base=replace(BASE, family=family, unet=published(family)))
    assert problems(facts, memory={"checkpointing": there}) == []
    found = problems(facts, memory={"checkpointing": there + 1})
    only(found, "error", "memory.checkpointing", f"is {there + 1}.*has {there} blocks.*=full")
    assert problems(memory={"checkpointing": 999}) == []
    elsewhere = replace(SOUND, base=usual("sd1", "somebody/else"))
    assert problems(elsewhere, memory={"checkpointing": 999}) == []
    known = replace(SOUND, base=usual("sd1", "runwayml/stable-diffusion-v1-5"))
    assert "has 36 blocks" in problems(known, memory={"checkpointing": 37})[0].what


def of(gib: float, phase: Literal["training", "sampling"] = "training") -> Estimate:
    """A prediction of this peak."""
    parts = (Part(name="base weights", gib=0.25 * gib), Part(name="activations", gib=0.75 * gib))
    return Estimate(phases=(Phase(name=phase, parts=parts),))


KNOWN = replace(SOUND, base=replace(BASE, unet=published("sd1")))
"""With a base that the table of memory holds."""

ROOM = budget(SOUND.hardware)


def test_a_peak_over_the_budget_says_what_to_change() -> None:
    facts = replace(KNOWN, estimate=of(30.0), report=report(*[(512, 512)] * 40))
    found = problems(facts, train={"batch_size": 8})
    error = only(found, "error", found[0].where, "30.0 GiB, 22.5 of them activations.")
    assert error.code == ExitCode.OUT_OF_MEMORY
    assert ROOM.words in error.what
    assert re.match(r"--set [a-z]+\.[a-z_]+=\w+.* takes \d+\.\d GiB\.$", error.fix)


def test_the_change_that_is_named_really_fits() -> None:
    """Fed back as --set, it leaves no error, on each machine that it is offered on."""
    report_of_many = report(*[(512, 512)] * 64)
    tried = 0
    for file in sorted(MACHINES.glob("*.toml")):
        facts = replace(KNOWN, hardware=machine(file.stem), report=report_of_many)
        whole = bundle(train={"batch_size": 32, "precision": "fp32"}, adapter={"rank": 64})
        for problem in check(whole, facts):
            if problem.code != ExitCode.OUT_OF_MEMORY or not problem.fix.startswith("--set"):
                continue
            settings = re.findall(r"--set (\S+)=(\S+)", problem.fix)
            changed, wrong = read.check(tables(whole), [f"{k}={v}" for k, v in settings])
            assert changed is not None, wrong
            tried += 1
            left = [p for p in check(changed, facts) if p.code == ExitCode.OUT_OF_MEMORY]
            assert left == [], (file.stem, problem.fix)
    assert tried


def test_a_peak_close_to_the_budget_is_doubtful() -> None:
    room = ROOM.gib or 0.0
    facts = replace(KNOWN, estimate=of(0.97 * room))
    only(problems(facts), "warning", "memory.checkpointing", "It will be tight: training")
    assert problems(replace(KNOWN, estimate=of(0.94 * room))) == []


def test_memory_that_nobody_knows_is_no_reason_to_complain() -> None:
    card = replace(SOUND.hardware.accelerators[0], memory_free_gib=None)
    facts = replace(SOUND, hardware=replace(SOUND.hardware, accelerators=(card,)))
    assert problems(replace(facts, estimate=of(1000.0))) == []


def test_other_processes_are_named_where_they_are_what_is_in_the_way() -> None:
    facts = replace(SOUND, hardware=machine("two-cards"), base=usual("sdxl", "a/b"))
    found = problems(facts, dataset={"resolution": 1024}, train={"precision": "fp16"})
    (error,) = [p for p in found if p.code == ExitCode.OUT_OF_MEMORY]
    assert "The least that it can take is" in error.fix
    assert re.search(r"hold memory of the card: .+ \(5\.5 GiB\)", error.fix)


def test_xformers_that_was_tried_needs_no_looking_for() -> None:
    """What the probe saw of a machine counts for more than what is installed on this one."""
    asked = {"attention": "xformers"}

    def seen(said: str) -> Facts:
        card = SOUND.hardware.accelerators[0]
        tried = Tried(kind="cuda", name=card.name, uuid=card.uuid, modules={"xformers": said})
        return replace(SOUND, hardware=replace(SOUND.hardware, probe=Probe(devices=(tried,))))

    assert problems(seen(""), memory=asked) == []
    only(problems(seen("no kernel"), memory=asked), "error", "memory.attention", "no kernel")


def test_a_large_base_on_the_cpu() -> None:
    facts = replace(SOUND, hardware=machine("cpu-only"))
    quiet = {"precision": "fp32"}
    only(problems(facts, train=quiet), "warning", "base.model", "CPU, 2 threads.*tens of seconds")
    small = replace(facts, base=replace(BASE, weight_bytes=4_000_000))
    assert problems(small, train=quiet) == []


def test_a_card_too_old_for_the_build_is_refused_before_anybody_tries() -> None:
    old = replace(machine("gtx1080ti"), probe=None)
    [error, *_] = problems(replace(SOUND, hardware=old), train={"precision": "fp16"})
    assert (error.severity, error.code) == ("error", ExitCode.NO_HARDWARE)
    assert "PyTorch 2.11.0+cu128 has no kernels for it" in error.what
    fits = replace(old, torch=TorchBuild(version="2.13.0+cu126", cuda="12.6"))
    found = problems(replace(SOUND, hardware=fits), train={"precision": "fp16"})
    assert all(p.severity == "warning" for p in found)


def test_a_card_that_this_pytorch_cannot_use_needs_a_word() -> None:
    facts = replace(SOUND, hardware=machine("rtx4090-cpu-torch"))
    fp32 = {"train": {"precision": "fp32"}}
    [error, *_] = problems(facts, **fp32)
    assert (error.severity, error.code) == ("error", ExitCode.NO_HARDWARE)
    assert "PyTorch 2.11.0+cpu cannot use NVIDIA GeForce RTX 4090" in error.what
    assert "--cpu" in error.fix
    # pico is made for the CPU; hidden cards are the word; no card, no question.
    pico = problems(facts, base={"model": "pico"}, **fp32)
    assert all(p.severity == "warning" for p in pico)
    cards = facts.hardware.accelerators
    hidden = replace(facts.hardware, accelerators=tuple(replace(a, visible=False) for a in cards))
    for hardware in (hidden, machine("cpu-only")):
        found = problems(replace(facts, hardware=hardware), **fp32)
        assert all(p.severity == "warning" for p in found)


def test_prompts() -> None:
    only(problems(sample={"prompts": []}), "warning", "sample.prompts", "No sample prompts")
    facts = replace(SOUND, prompt_tokens=(75, 76, None))
    found = problems(facts, sample={"prompts": ["a", "b", "c"]})
    only(found, "warning", "sample.prompts[1]", "76 tokens.*first 75")
    only(problems(sample={"prompts": [" "]}), "warning", "sample.prompts[0]", "empty")


def test_intervals() -> None:
    only(
        problems(sample={"every": 1001}), "warning", "sample.every", "every 1001 steps.*after 1000"
    )
    only(problems(save={"every": 1001}), "warning", "save.every", "every 1001 steps.*after 1000")
    assert problems(sample={"every": 1000}, save={"every": 0}) == []


def test_disk() -> None:
    needed = needed_bytes(bundle(), SOUND.base)
    assert problems(replace(SOUND, disk_free_bytes=needed)) == []
    found = problems(replace(SOUND, disk_free_bytes=needed - 1))
    problem = only(found, "error", "save.keep", "GiB are free in /home/me/lorakit/runs")
    assert problem.code == ExitCode.DATA


def test_everything_is_said_at_once_with_errors_first() -> None:
    finding = Problem(where="a.png", what="a.png is cut short.", code=ExitCode.DATA)
    doubt = Problem(where="", what="The driver is old.", severity="warning")
    said = Problem(where="base.model", what="The base is not there.")
    facts = replace(
        SOUND,
        hardware=replace(SOUND.hardware, findings=(doubt,)),
        report=report((512, 512), findings=(finding,)),
        problems=(said,),
        disk_free_bytes=1,
    )
    found = problems(facts, sample={"prompts": []}, dataset={"resolution": 504})
    assert [p.severity for p in found] == ["error"] * 4 + ["warning"] * 2
    assert found[0] == said
    assert finding in found
    assert doubt in found
    assert {p.where for p in found} >= {"dataset.resolution", "save.keep", "sample.prompts"}


def test_every_rule_says_what_it_is_about() -> None:
    assert all(rule.__doc__ for rule in RULES)


def test_settings_of_captions_that_do_nothing() -> None:
    only(
        problems(dataset={"captions": {"keep": 1}}), "warning", "dataset.captions.keep", "keep = 1"
    )
    for good in ({"keep": 1, "shuffle": True}, {"keep": 1, "drop_tags": 0.1}, {"drop": 0.9}):
        assert problems(dataset={"captions": good}) == []
    only(
        problems(dataset={"captions": {"drop": 1.0}}), "warning", "dataset.captions.drop", "trigger"
    )
    prior = [{"path": "a", "prior": True, "trigger": "ohwx"}, {"path": "b"}]
    where = "dataset.sources[0].trigger"
    only(problems(dataset={"sources": prior}), "warning", where, "ohwx")


def test_random_changes_need_versions_to_differ() -> None:
    for change in ({"flip": True}, {"crop": "random"}, {"colour": 0.1}):
        assert problems(dataset=change) == []
        only(
            problems(dataset={**change, "variants": 1}),
            "warning",
            "dataset.variants",
            next(iter(change)),
        )


def test_prior_pictures_stand_beside_a_subject() -> None:
    alone = {"sources": [{"path": "a", "prior": True}]}
    only(problems(dataset=alone), "error", "dataset.sources", "nothing is left to learn")
    only(problems(loss={"prior_weight": 0.5}), "warning", "loss.prior_weight", "no prior pictures")
    only(problems(loss={"unmasked_weight": 0.5}), "warning", "loss.unmasked_weight", "no masks")
