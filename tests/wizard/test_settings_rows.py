from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import place
import pytest

from lorakit.bundle import schema
from lorakit.bundle.models import Bundle
from lorakit.errors import LorakitError
from lorakit.families.base_model import usual
from lorakit.families.families import FAMILIES
from lorakit.planner.presets import find
from lorakit.wizard import look, settings
from lorakit.wizard.answers import Answers, Folder
from lorakit.wizard.settings import Row
from lorakit.wizard.state import State, begin


@pytest.fixture
def state(tmp_path: Path) -> State:
    """At the settings, with everything known."""
    folder = Folder(path=place.PICTURES, trigger="ohwx")
    answers = Answers(base="base", folders=(folder,))
    state = begin(place.make(tmp_path), answers).knowing(hardware=place.machine())
    state = state.knowing(base=look.base(answers, tmp_path))
    return state.knowing(report=look.pictures(state, lambda done, total: None))


def row(state: State, key: str) -> Row:
    return next(r for r in settings.rows(state, every=True) if r.key == key)


def bundle(state: State) -> Bundle:
    assert state.proposal.bundle is not None
    return state.proposal.bundle


def test_every_setting_of_a_bundle_has_a_row(state: State) -> None:
    keys = {r.key for r in settings.rows(state, every=True)}
    asked_elsewhere = {"schema", "base.family", "base.model", "base.revision"}
    for doc in schema.fields():
        if doc.key in asked_elsewhere or "[]" in doc.key:
            continue
        assert doc.key in keys or f"{doc.key}[0]" in keys, doc.key
    assert all(r.doc for r in settings.rows(state, every=True))


def test_few_come_first_and_all_of_them_exist(state: State) -> None:
    few = [r.key for r in settings.rows(state)]
    assert few[:2] == ["name", "preset"]
    assert {k.partition("[")[0] for k in few[2:]} == set(settings.FIRST)


def test_a_changed_value_says_what_was_recommended(state: State) -> None:
    recommended = row(state, "adapter.rank")
    assert recommended.why
    assert not recommended.changed
    changed = settings.enter(state, "adapter.rank", "32")
    assert bundle(changed).adapter.rank == 32
    assert row(changed, "adapter.rank").why == f"yours; recommended: {recommended.value}"
    assert "adapter.rank" not in changed.proposal.reasons
    assert "adapter.rank" in state.proposal.reasons
    assert settings.reset(changed, "adapter.rank").answers == state.answers


def test_a_value_stays_when_the_recommendation_moves(state: State) -> None:
    changed = settings.enter(state, "train.steps", "77")
    moved = settings.enter(changed, "preset", "sd1-standard")
    assert bundle(moved).train.steps == 77
    assert bundle(moved).train.learning_rate != bundle(changed).train.learning_rate


def test_an_empty_name_is_that_of_the_folder_again(state: State) -> None:
    named = settings.enter(state, "name", "rex")
    assert bundle(named).name == "rex"
    assert bundle(settings.enter(named, "name", "")).name == "my-dog-pictures"


def test_entering_what_is_recommended_is_no_change(state: State) -> None:
    value = row(state, "train.steps").value
    assert settings.enter(state, "train.steps", value).answers.changes == {}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("train.steps", "1,200", 1200),
        ("train.learning_rate", ".0001", 1e-4),
        ("adapter.alpha", "4", 4.0),
        ("dataset.buckets", "no", False),
        ("sample.negative", "blurry [red]", "blurry [red]"),
        ("sample.negative", "300", "300"),
        ("sample.negative", "", ""),
        ("train.optimizer_options.beta2", "0.95", 0.95),
        ("memory.checkpointing", "5", 5),
        ("memory.checkpointing", "full", "full"),
        ("memory.checkpointing", "none", "none"),
    ],
)
def test_values_are_read_as_people_type_them(
    state: State, key: str, text: str, value: object
) -> None:
    assert settings.enter(state, key, text).proposal.value(key) == value


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("train.steps", "0", "1 to 10,000,000"),
        ("train.steps", "ten", "whole number"),
        ("train.learning_rate", "nan", "above 0, at most 10"),
        ("train.precision", "int4", "fp32, fp16, bf16"),
        ("dataset.resolution", "63", "multiple of 8"),
        ("dataset.buckets", "perhaps", "true or false"),
        ("memory.checkpointing", "0", "none, full, or 1 to 999"),
        ("memory.checkpointing", "half", "none, full, or 1 to 999"),
        ("preset", "sdxl", "pico-cpu"),
        ("name", "../x", "letter"),
    ],
)
def test_a_refused_value_says_what_is_allowed(
    state: State, key: str, text: str, allowed: str
) -> None:
    with pytest.raises(LorakitError) as refused:
        settings.enter(state, key, text)
    assert allowed in f"{refused.value.message} {refused.value.hint}"


def test_prompts_are_changed_added_and_taken_out_one_by_one(state: State) -> None:
    assert bundle(state).sample.prompts == ("ohwx",)
    two = settings.enter(state, "sample.prompts[1]", "ohwx on a beach")
    assert bundle(two).sample.prompts == ("ohwx", "ohwx on a beach")
    one = settings.enter(two, "sample.prompts[0]", "")
    assert bundle(one).sample.prompts == ("ohwx on a beach",)
    assert settings.reset(one, "sample.prompts[0]").answers.changes == {}


def test_the_scale_is_shown_beside_alpha(state: State) -> None:
    changed = settings.enter(settings.enter(state, "adapter.rank", "16"), "adapter.alpha", "8")
    assert row(changed, "adapter.alpha").why.startswith("scale 0.50")


def test_the_preset_follows_base_and_machine(tmp_path: Path) -> None:
    pico = begin(tmp_path, Answers()).knowing(hardware=place.machine("rtx4090"))
    assert pico.proposal.preset.name == "pico-cpu"
    large = begin(tmp_path, Answers(base="stable-diffusion-v1-5/stable-diffusion-v1-5"))
    assert large.knowing(hardware=place.machine()).proposal.preset.name == "sd1-standard"
    assert large.knowing(hardware=place.machine("rtx4090")).proposal.preset.name == "sd1-24gib"
    t4 = place.machine("t4")
    assert large.knowing(hardware=t4).proposal.preset.name == "sd1-16gib"
    card = replace(t4.accelerators[0], memory_free_gib=6.0)
    busy = large.knowing(hardware=replace(t4, accelerators=(card,)))
    assert busy.proposal.preset.name == "sd1-6gib"
    card = replace(card, memory_free_gib=None)
    unknown = large.knowing(hardware=replace(t4, accelerators=(card,)))
    assert unknown.proposal.preset.name == "sd1-standard"


def test_a_card_of_6_gib_gets_the_preset_that_is_made_for_it(tmp_path: Path) -> None:
    """Though its pictures are smaller than the base's; and where no picture can be drawn on the
    way, the row of prompts says why."""
    model = "stabilityai/stable-diffusion-xl-base-1.0"
    t4 = place.machine("t4")
    small = replace(t4, accelerators=(replace(t4.accelerators[0], memory_free_gib=5.9),))
    state = begin(tmp_path, Answers(base=model))
    state = state.knowing(base=usual("sdxl", model), hardware=small)
    assert state.proposal.preset.name == "sdxl-6gib"
    assert row(state, "dataset.resolution").value == "512"
    large = state.knowing(hardware=place.machine("rtx4060-laptop"))
    assert large.proposal.preset.name == "sdxl-8gib"

    prompted = replace(find("sdxl-6gib"), settings=PROMPTED)
    state = replace(state, presets=(prompted,))
    assert state.proposal.recommends("sample.prompts") == ()
    assert row(state, "sample.prompts[0]").why.startswith("none: drawing takes ")


PROMPTED = {**find("sdxl-6gib").settings, "sample": {"prompts": ["a dog"]}}


def test_a_goal_is_laid_over_the_standard_of_the_family(tmp_path: Path) -> None:
    model = "stabilityai/stable-diffusion-xl-base-1.0"
    state = begin(tmp_path, Answers(base=model, preset="style"))
    state = state.knowing(base=usual("sdxl", model), hardware=place.machine("rtx4090"))
    assert state.proposal.preset.name == "style"
    assert state.proposal.value("adapter.rank") == 32
    assert state.proposal.value("sample.guidance") == 5.0
    assert "style" in row(state, "preset").choices


def test_pico_has_no_goals_and_no_benchmark(tmp_path: Path) -> None:
    state = begin(tmp_path, Answers()).knowing(base=usual("sd1", "pico"))
    assert "style" not in row(state, "preset").choices


def test_what_a_person_chose_moves_what_is_recommended_beside_it(tmp_path: Path) -> None:
    """A rank that leaves no room brings checkpointing, and a lower learning rate."""
    model = "stabilityai/stable-diffusion-xl-base-1.0"
    state = begin(tmp_path, Answers(base=model, preset="sdxl-standard"))
    state = state.knowing(base=usual("sdxl", model), hardware=place.machine("t4"))
    assert row(state, "memory.checkpointing").value == "none"
    for key, text in (
        ("adapter.targets", "linear"),
        ("adapter.rank", "128"),
        ("train.optimizer", "adamw"),
    ):
        state = settings.enter(state, key, text)
    assert row(state, "adapter.rank").why == "yours; recommended: 16"
    assert row(state, "memory.checkpointing").value != "none"
    assert not row(state, "memory.checkpointing").changed
    assert "Why not none: it takes" in row(state, "memory.checkpointing").doc
    assert row(state, "train.learning_rate").value == "5.9e-5"


@pytest.mark.parametrize("name", ["pico-cpu", "sdxl-standard"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_preset_of_another_family_is_proposed(tmp_path: Path, family: str, name: str) -> None:
    """Neither by choice nor because it was chosen for another base before."""
    for machine in ("cpu-only", "rtx4090"):
        state = begin(tmp_path, Answers(base="a/b", preset=name))
        state = state.knowing(base=usual(family, "a/b"), hardware=place.machine(machine))
        proposal = state.proposal
        assert proposal.preset.family == family
        assert proposal.bundle or all("sources" in p.where for p in proposal.problems)
        assert proposal.value("base.family") == family
        assert proposal.value("dataset.resolution") == FAMILIES[family].resolution
        choices = row(state, "preset").choices
        assert {find(choice).family for choice in choices} <= {family, "any"}


def test_a_number_of_blocks_is_a_row_with_two_words_to_choose(state: State) -> None:
    changed = row(settings.enter(state, "memory.checkpointing", "12"), "memory.checkpointing")
    assert (changed.value, changed.changed, changed.choices) == ("12", True, ("none", "full"))
    assert changed.allowed == "none, full, or 1 to 999"
