from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lorakit.wizard import draft
from lorakit.wizard.answers import Answers, Folder


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LORAKIT_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


texts = st.text(st.characters(codec=None))
folders = st.builds(Folder, path=texts, repeats=st.integers(1, 99), trigger=texts)


@given(
    st.builds(
        Answers,
        base=texts,
        name=texts,
        folders=st.lists(folders, min_size=1, max_size=3).map(tuple),
        changes=st.dictionaries(texts, st.integers() | st.booleans() | texts | st.lists(texts)),
    )
)
@hypothesis_settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_answers_come_back(answers: Answers) -> None:
    assert draft.save(answers, "pictures", Path("/here"))
    found = draft.load()
    assert found is not None
    assert found.answers == answers
    assert (found.step, found.folder) == ("pictures", Path("/here"))


def test_a_float_stays_one() -> None:
    draft.save(Answers(changes={"adapter.alpha": 16.0}), "settings", Path("/"))
    found = draft.load()
    assert found is not None
    assert type(found.answers.changes["adapter.alpha"]) is float


def test_there_may_be_none_and_removing_it_is_no_error() -> None:
    assert draft.load() is None
    draft.remove()


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"step": "goal"},
        {"answers": {}},
        {"answers": {"folders": []}},
        {"answers": {"folders": [{"path": 3}]}},
        {"answers": {"folders": [{}], "future": 1}},
        {"saved_at": "soon"},
    ],
)
def test_a_draft_of_another_kind_is_none(change: dict[str, object]) -> None:
    draft.save(Answers(), "base", Path("/"))
    path = draft.path()
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert draft.load() is None
    path.write_bytes(b"\xff{")
    assert draft.load() is None


def test_a_disk_that_cannot_be_written_ends_nothing(state_folder: Path) -> None:
    state_folder.write_text("a file where the folder should be")
    assert not draft.save(Answers(), "base", Path("/"))


def test_without_the_variable_it_lies_with_the_state_of_other_apps(
    monkeypatch: pytest.MonkeyPatch, clean_home: Path
) -> None:
    monkeypatch.delenv("LORAKIT_STATE")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert draft.path().is_relative_to(clean_home)
