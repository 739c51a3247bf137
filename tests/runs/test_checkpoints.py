"""Which checkpoint a run goes on from, whatever lies beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lorakit.errors import ExitCode, LorakitError
from lorakit.runs import checkpoints


def put(run: Path, name: str, step: int) -> Path:
    folder = run / checkpoints.FOLDER / name
    folder.mkdir(parents=True)
    (folder / checkpoints.ADAPTER).write_bytes(b"a" * 100)
    (folder / checkpoints.OPTIMIZER).write_bytes(b"o" * 200)
    (folder / checkpoints.STATE).write_text(json.dumps({"step": step}))
    checkpoints.write_manifest(folder)
    return folder


def test_the_newest_by_number_is_taken(tmp_path: Path) -> None:
    for step in (9, 10, 100):
        put(tmp_path, f"step-{step}", step)
    found = checkpoints.find(tmp_path)
    assert found.newest is not None
    assert (found.newest.step, found.newest.state, found.skipped) == (100, {"step": 100}, ())
    assert checkpoints.complete(tmp_path) == [9, 10, 100]


def test_what_is_not_complete_is_named_with_its_reason(tmp_path: Path) -> None:
    put(tmp_path, "step-100", 100)
    put(tmp_path, "step-10", 10)
    (put(tmp_path, "step-200", 200) / checkpoints.OPTIMIZER).unlink()
    put(tmp_path, "step-300.tmp", 300)
    (put(tmp_path, "step-310", 310) / checkpoints.MANIFEST).unlink()
    cut = put(tmp_path, "step-320", 320) / checkpoints.MANIFEST
    cut.write_text(cut.read_text()[:60])
    (put(tmp_path, "step-330", 330) / checkpoints.ADAPTER).write_bytes(b"a" * 99)
    (put(tmp_path, "step-340", 340) / checkpoints.ADAPTER).write_bytes(b"b" * 100)
    put(tmp_path, "step-350", 35)
    (tmp_path / "checkpoints" / "step-360").mkdir()
    (tmp_path / "checkpoints" / "step-400").write_text("a file")
    (tmp_path / "checkpoints" / "step-500").symlink_to("nowhere")
    (tmp_path / "checkpoints" / "latest").symlink_to("nowhere")
    (tmp_path / "checkpoints" / "notes.txt").write_text("mine")
    put(tmp_path, ".step-000600.part", 600)

    found = checkpoints.find(tmp_path)
    assert found.newest is not None
    assert found.newest.step == 100
    assert list(found.skipped) == [
        ".step-000600.part: it was not written to its end",
        "step-500: it is a link to something that is not there",
        "step-400: it is not a folder",
        "step-360: manifest.json is missing",
        "step-350: its state is of another step than 350",
        "step-340: adapter.safetensors is damaged",
        "step-330: adapter.safetensors has 99 of 100 bytes",
        "step-320: manifest.json or state.json is damaged",
        "step-310: manifest.json is missing",
        "step-300.tmp: it was not written to its end",
        "step-200: optimizer.safetensors is missing",
    ]


def test_only_broken_ones_are_an_error_and_not_a_fresh_start(tmp_path: Path) -> None:
    put(tmp_path, ".step-000300.part", 300)
    found = checkpoints.start(tmp_path, 300)
    assert (found.newest, found.lost) == (None, False)  # the first one was never finished

    (put(tmp_path, "step-200", 200) / checkpoints.STATE).unlink()
    with pytest.raises(LorakitError, match="No checkpoint") as failure:
        checkpoints.start(tmp_path, 300)
    assert "step-200: state.json is missing" in failure.value.hint
    assert failure.value.code == ExitCode.DATA


def test_a_run_without_a_folder_of_checkpoints_has_none(tmp_path: Path) -> None:
    assert checkpoints.find(tmp_path) == checkpoints.Found(None, (), False)
    assert checkpoints.complete(tmp_path) == []


def test_a_whole_checkpoint_may_be_moved_to_another_run(tmp_path: Path) -> None:
    made = put(tmp_path / "a", "step-7", 7)
    shutil.copytree(made, tmp_path / "b" / checkpoints.FOLDER / "step-7")
    found = checkpoints.find(tmp_path / "b")
    assert found.newest is not None
    assert found.newest.folder == tmp_path / "b" / "checkpoints" / "step-7"
