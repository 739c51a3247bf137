"""A folder as kohya's trainer wants it becomes the sources that its names say."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from lorakit.wizard import look, summary
from lorakit.wizard.answers import Answers, Folder
from lorakit.wizard.state import State, begin


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name in ("set/40_ohwx man", "set/10_sks dog", "plain"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (64, 64)).save(tmp_path / name / "a.png")
    return tmp_path


def typed(here: Path, path: str, trigger: str = "") -> State:
    return look.laid_out(begin(here, Answers().with_typed(path, trigger)))


def test_names_give_sources_repeats_and_triggers(here: Path) -> None:
    state = typed(here, "set")
    assert state.answers.folders == (
        Folder(path="set/10_sks dog", repeats=10, trigger="sks dog", typed="set"),
        Folder(path="set/40_ohwx man", repeats=40, trigger="ohwx man", typed="set"),
    )
    assert state.answers.typed == "set"
    assert state.answers.run_name == "set"
    assert [text for _, text in summary.of_folders(state.answers.folders)] == [
        "set/10_sks dog: 10 times, trigger sks dog",
        "set/40_ohwx man: 40 times, trigger ohwx man",
    ]
    assert look.pictures(state, lambda done, total: None).epoch == 50
    bundle = state.proposal.bundle
    assert bundle is not None
    assert [(s.path, s.repeats, s.trigger) for s in bundle.dataset.sources] == [
        ("set/10_sks dog", 10, "sks dog"),
        ("set/40_ohwx man", 40, "ohwx man"),
    ]


def test_another_folder_takes_the_place_of_all_that_was_found(here: Path) -> None:
    answers = typed(here, "set").answers
    other = answers.with_typed("plain", "sks dog")  # as the screen still shows it
    assert other.folders == (Folder(path="plain"),)
    assert look.laid_out(begin(here, other)).answers.folders == (
        Folder(path="plain", typed="plain"),
    )
    assert [*summary.of_folders(other.folders)] == []


def test_a_trigger_that_was_typed_stays_and_one_that_was_cleared_stays_away(here: Path) -> None:
    state = typed(here, "set/40_ohwx man", "me")
    assert state.answers.folders[0].trigger == "me"
    cleared = state.answering(typed(here, "set").answers.with_typed("set", ""))
    assert [f.trigger for f in look.laid_out(cleared).answers.folders] == ["", "ohwx man"]


def test_pictures_beside_such_folders_are_a_source_of_their_own(here: Path) -> None:
    Image.new("RGB", (64, 64)).save(here / "set/b.png")
    assert [(f.path, f.repeats) for f in typed(here, "set").answers.folders] == [
        ("set", 1),
        ("set/10_sks dog", 10),
        ("set/40_ohwx man", 40),
    ]
