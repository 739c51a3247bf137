from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    from PIL import Image

    inside = tmp_path / "dogs"
    inside.mkdir()
    for n, text in enumerate(("a dog, beach", "a dog, house", "")):
        Image.new("RGB", (8, 8)).save(inside / f"{n}.png")
        if text:
            (inside / f"{n}.txt").write_text(text)
    return inside


def test_nothing_is_written_before_the_difference_is_agreed_to(
    lorakit: Command, folder: Path
) -> None:
    done = lorakit("captions", "trigger", str(folder), "--words", "ohwx")
    assert done.returncode == 2
    assert "  - a dog, beach\n  + ohwx, a dog, beach\n" in done.stdout
    assert "2 captions would change, 0 would stay as they are." in done.stdout
    assert "--yes writes without asking" in done.stderr
    assert (folder / "0.txt").read_text() == "a dog, beach"


def test_a_change_and_back(lorakit: Command, folder: Path) -> None:
    done = lorakit("captions", "remove", str(folder), "--tag", "Beach", "--tag", "x", "--yes")
    assert done.returncode == 0
    assert (folder / "0.txt").read_text() == "a dog"
    assert lorakit("captions", "fill", str(folder), "--yes").returncode == 0
    assert (folder / "2.txt").read_text() == "dogs"
    done = lorakit("captions", "replace", str(folder), "--find", "dog", "--with", "cat", "--yes")
    assert (folder / "1.txt").read_text() == "a cat, house"
    for _ in range(3):
        assert lorakit("captions", "undo", str(folder), "--yes").returncode == 0
    assert (folder / "0.txt").read_text() == "a dog, beach"
    assert not (folder / "2.txt").exists()
    done = lorakit("captions", "undo", str(folder), "--yes")
    assert done.returncode == 2
    assert "no change to take back" in done.stderr


def test_tags_are_counted(lorakit: Command, folder: Path) -> None:
    done = lorakit("captions", "count", str(folder), "--json")
    assert json.loads(done.stdout) == {"a dog": 2, "beach": 1, "house": 1}
    assert lorakit("captions", "count", str(folder)).stdout.splitlines()[0] == "      2  a dog"


def test_a_folder_with_a_caption_of_another_code_page_is_left_alone(
    lorakit: Command, folder: Path
) -> None:
    (folder / "2.txt").write_bytes(b"a man\x92s hat")
    done = lorakit("captions", "trigger", str(folder), "--words", "ohwx", "--yes")
    assert done.returncode == 5
    assert "2.txt is not UTF-8" in done.stderr
    assert (folder / "0.txt").read_text() == "a dog, beach"


def test_no_folder_is_a_sentence(lorakit: Command, tmp_path: Path) -> None:
    done = lorakit("captions", "count", str(tmp_path / "nothing"))
    assert done.returncode == 5
    assert "is no folder" in done.stderr
