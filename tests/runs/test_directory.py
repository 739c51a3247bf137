from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lorakit.bundle.models import Bundle
from lorakit.bundle.read import parse, read
from lorakit.errors import LorakitError
from lorakit.runs import control
from lorakit.runs.directory import Run, create, every, find, runs_root

TEXT = 'schema = 1\nname = "my dog"\n[[dataset.sources]]\npath = "photos/[dog]"\n'


@pytest.fixture
def bundle() -> Bundle:
    return parse(TEXT)


def made(root: Path, name: str) -> Run:
    (root / name).mkdir(parents=True)
    (root / name / "bundle.toml").write_text(TEXT)
    return Run(root / name)


def test_runs_live_where_they_are_told_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert runs_root(tmp_path / "x") == tmp_path / "x"
    monkeypatch.setenv("LORAKIT_RUNS", "~/r")
    assert runs_root() == Path.home() / "r"
    monkeypatch.delenv("LORAKIT_RUNS")
    assert runs_root() == Path.home() / "lorakit" / "runs"
    assert runs_root(Path("here")).is_absolute()


def test_a_new_run_holds_its_bundle_with_paths_that_hold_from_anywhere(
    bundle: Bundle, tmp_path: Path
) -> None:
    run = create(bundle, tmp_path / "runs", tmp_path)
    assert run.title == "my dog"
    assert {p.name for p in run.path.iterdir()} == {
        "bundle.toml",
        "control",
        "samples",
        "checkpoints",
    }
    assert read(run.bundle).dataset.sources[0].path == str(tmp_path / "photos" / "[dog]")
    assert run.status() == "lost"


def test_two_runs_of_one_second_have_two_names(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda *_: "20261130-120000")
    names = [create(bundle, tmp_path, tmp_path).name for _ in range(3)]
    assert names == [
        "my dog-20261130-120000",
        "my dog-20261130-120000-2",
        "my dog-20261130-120000-3",
    ]
    assert [run.name for run in every(tmp_path)] == names[::-1]


def test_a_place_that_cannot_be_written_is_named(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LorakitError, match="No run can be made in") as caught:
        create(bundle, tmp_path / "file" / "runs", tmp_path)
    assert "--runs" in caught.value.hint


def test_a_run_is_found_by_every_name_that_is_short_for_it(tmp_path: Path) -> None:
    old = made(tmp_path, "dog-20260101-100000")
    new = made(tmp_path, "dog-20260102-100000")
    other = made(tmp_path, "dog-two-20260103-100000")
    (tmp_path / "no-run").mkdir()
    assert every(tmp_path) == [other, new, old]
    assert find("dog-20260101-100000", tmp_path) == old
    assert find("dog", tmp_path) == new
    assert find("dog-t", tmp_path) == other
    assert find("dog-20260101", tmp_path) == old
    assert find(str(old.path), Path("/nowhere")) == old
    assert find(None, tmp_path) == other


def test_a_folder_is_found_from_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path, "renamed by hand")
    monkeypatch.chdir(run.path)
    assert find(".", tmp_path) == run


def test_a_name_that_does_not_say_which_run_is_answered_with_the_names(tmp_path: Path) -> None:
    made(tmp_path, "dog-20260101-100000")
    made(tmp_path, "dogs-20260102-100000")
    with pytest.raises(LorakitError, match="start of 2 runs") as caught:
        find("do", tmp_path)
    assert "dogs-20260102-100000" in caught.value.hint
    with pytest.raises(LorakitError, match="There is no run dgos in") as caught:
        find("dgos", tmp_path)
    assert "Did you mean dogs?" in caught.value.hint
    with pytest.raises(LorakitError, match="There is no run in"):
        find(None, tmp_path / "empty")
    with pytest.raises(LorakitError, match=r"There is no run \\x1b\[31m"):
        find("\x1b[31m", tmp_path)


def test_a_request_is_a_file_that_says_who_asked(bundle: Bundle, tmp_path: Path) -> None:
    run = create(bundle, tmp_path, tmp_path)
    control.request(run, "save", by="me@desk")
    control.request(run, "stop")
    assert {p.name for p in run.control.iterdir()} == {"save", "stop"}
    asked = json.loads((run.control / "save").read_text())
    assert asked["by"] == "me@desk"
    assert asked["time"] == pytest.approx(time.time(), abs=60)
    assert "@" in json.loads((run.control / "stop").read_text())["by"]


def test_damaged_files_of_a_run_are_as_good_as_none(tmp_path: Path) -> None:
    run = made(tmp_path, "dog-20260101-100000")
    (run.path / "run.json").write_text('{"pid": 1')
    run.events.write_bytes(b"\xff\xfe\n{}\n")
    assert run.process == {}
    assert run.state().last_time is None
    assert run.status() == "lost"
