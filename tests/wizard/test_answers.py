from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.bundle.models import Base, Bundle
from lorakit.bundle.read import read
from lorakit.errors import LorakitError
from lorakit.wizard.answers import Answers, Folder, of_bundle
from lorakit.wizard.proposal import Known
from lorakit.wizard.state import State, begin

FULL = Path(__file__).parents[1] / "data" / "bundles" / "schema-1.toml"


def bundle_of(answers: Answers, folder: Path = Path("/")) -> Bundle:
    state = begin(folder, answers)
    assert state.proposal.bundle, state.proposal.problems
    return state.proposal.bundle


@pytest.mark.parametrize("machine", ["cpu-only", "rtx4090", "t4"])
def test_a_bundle_comes_back_from_its_answers_on_any_machine(machine: str) -> None:
    from place import machine as recorded

    bundle = read(FULL)
    here = FULL.parent
    answers = of_bundle(bundle, here, here)
    state = begin(here, answers).knowing(hardware=recorded(machine))
    assert state.proposal.bundle == bundle.model_copy(update={"lock": None})


def test_paths_of_a_bundle_from_elsewhere_hold_here(tmp_path: Path) -> None:
    answers = of_bundle(read(FULL), FULL.parent, tmp_path)
    assert answers.folders[0].path == str(FULL.parent / "photos/dog")
    assert answers.base == "stable-diffusion-v1-5/stable-diffusion-v1-5"


def test_a_revision_goes_with_its_base() -> None:
    answers = Answers(base="a/b", revision="1234")
    assert answers.with_base("a/b").revision == "1234"
    assert answers.with_base("pico").revision == ""


def test_a_family_goes_with_its_base_and_is_one_that_there_is() -> None:
    answers = Answers(base="a/b").with_family("sdxl")
    assert answers.with_base("a/b").family == "sdxl"
    assert answers.with_base("pico").family == ""
    with pytest.raises(LorakitError, match="sd3 is no family"):
        answers.with_family("sd3")


def test_the_family_of_a_bundle_comes_back_before_its_base_is_looked_at() -> None:
    bundle = read(FULL).model_copy(update={"base": Base(family="sdxl", model="a/b")})
    assert bundle_of(of_bundle(bundle, FULL.parent, FULL.parent)).base == bundle.base


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("photos/dog", "dog"),
        ("~/my [dog] pictures/", "my-dog-pictures"),
        ("/", "my-lora"),
        ("", "my-lora"),
        ("фото", "my-lora"),
        ("..", "my-lora"),
    ],
)
def test_a_run_is_named_after_its_folder(path: str, name: str) -> None:
    assert Answers(folders=(Folder(path=path),)).run_name == name


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_any_folder_gives_a_name_that_a_bundle_may_have(path: str) -> None:
    answers = Answers(folders=(Folder(path=path),))
    assert bundle_of(answers).name == answers.run_name


def test_answers_move_to_another_folder(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    answers = Answers(base="base", folders=(Folder(path="dog"), Folder(path="/cat")))
    moved = answers.moved(tmp_path, tmp_path / "elsewhere")
    assert moved.base == str(tmp_path / "base")
    assert [f.path for f in moved.folders] == [str(tmp_path / "dog"), "/cat"]
    assert Answers(base="owner/name").moved(tmp_path, Path("/")).base == "owner/name"
    assert answers.moved(tmp_path, tmp_path) is answers


def test_new_answers_make_old_findings_void() -> None:
    from lorakit.families.base_model import usual

    state = State(answers=Answers(), known=Known(base=usual("sd1")), presets=(), folder=Path("/"))
    assert state.answering(Answers(name="x")).known.base
    assert state.answering(Answers(base="a/b")).known.base is None
    assert state.answering(Answers(family="sdxl")).known.base is None
