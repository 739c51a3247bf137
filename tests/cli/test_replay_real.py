"""`replay` and `diff` with the real trainer: one run of pico, repeated under other conditions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from lorakit.bundle.read import read
from lorakit.bundle.write import dump
from lorakit.runs.directory import Run, every

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BUNDLE = """\
schema = 1
name = "tiny"

[[dataset.sources]]
path = "photos"

[dataset]
resolution = 64

[train]
steps = 3                    # enough to see something
precision = "fp32"
learning_rate = 1e-2

[sample]
prompts = []

[save]
every = 0
"""


def lorakit(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lorakit", *map(str, words)],
        env={**os.environ, "TERM": "dumb", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bundle, its pictures, and the one run that all tests repeat."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "photos").mkdir()
    for number in range(4):
        picture = Image.new("RGB", (64, 64), (60 * number, 90, 200))
        ImageDraw.Draw(picture).ellipse((9, 9, 40, 40), fill=(250, 220, 50))
        picture.save(folder / "photos" / f"{number}.png")
        (folder / "photos" / f"{number}.txt").write_text(f"a yellow circle number {number}")
    (folder / "tiny.toml").write_text(BUNDLE)
    made = lorakit("train", folder / "tiny.toml", "--runs", folder / "runs", OMP_NUM_THREADS="1")
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="module")
def first(place: Path) -> Run:
    return every(place / "runs")[-1]


@pytest.fixture(autouse=True)
def environment(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LORAKIT_RUNS", str(place / "runs"))


@pytest.fixture
def copied(place: Path, first: Run, tmp_path: Path) -> Path:
    """The run's bundle with pictures that a test may change."""
    shutil.copytree(place / "photos", tmp_path / "photos")
    text = first.bundle.read_text().replace(str(place / "photos"), "photos")
    (tmp_path / "tiny.toml").write_text(text)
    return tmp_path / "tiny.toml"


def test_the_same_conditions_give_the_same_lora(
    first: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another folder, and with the number of threads that the lock has."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    ended = lorakit("replay", first.name, "--strict")
    assert ended.returncode == 0, ended.stderr
    assert "same bytes promised: yes, " in ended.stderr
    lock = read(first.bundle).lock
    assert lock is not None
    assert lock.result is not None
    assert f"replay: the same LoRA: digest {lock.result.digest}" in ended.stdout
    assert "3 steps compared, all equal" in ended.stdout
    second = every(first.path.parent)[0]
    locked = read(second.bundle).lock
    assert locked is not None
    assert (locked.run, locked.threads, locked.result) == (second.name, 1, lock.result)
    assert "replay: the same LoRA" in lorakit("watch", second.name).stdout
    assert lorakit("diff", first.name, second.path).returncode == 0


def test_everything_that_differs_is_named_and_strict_refuses(copied: Path, place: Path) -> None:
    photos = copied.parent / "photos"
    Image.new("RGB", (64, 64), "red").save(photos / "0.png")
    (photos / "1.txt").write_text("another caption")
    Image.new("RGB", (64, 64), "green").save(photos / "4.png")
    (photos / "4.txt").write_text("green")
    text = copied.read_text()
    torch = read(copied).lock.versions["torch"]
    copied.write_text(text.replace(f'torch = "{torch}"', 'torch = "1.2.3"'))
    before = every(place / "runs")
    ended = lorakit("replay", copied, "--strict", OMP_NUM_THREADS="2")
    assert ended.returncode == 2
    said = [line.strip() for line in ended.stderr.splitlines()]
    assert f'torch  "1.2.3" -> "{torch}"' in said
    assert "threads  1 -> 2" in said
    assert any(line.startswith('picture 0.png  "') for line in said)
    assert any(line.startswith('caption of 1.png  "') for line in said)
    assert any(line.startswith("picture 4.png  absent -> ") for line in said)
    assert "lorakit: error: Differences from the lock: 5" in ended.stderr
    assert every(place / "runs") == before


def test_another_picture_gives_another_lora_and_says_how_far_apart(
    copied: Path, first: Run
) -> None:
    """No failure: nothing was promised. The original is found by the name in the lock."""
    Image.new("RGB", (64, 64), "red").save(copied.parent / "photos" / "0.png")
    ended = lorakit("replay", copied, OMP_NUM_THREADS="1")
    assert ended.returncode == 0, ended.stderr
    assert "same bytes promised: no, one thing differs" in ended.stderr
    assert "replay: another LoRA: digest" in ended.stdout
    assert "tensors" in ended.stdout
    assert "largest difference" in ended.stdout
    assert "picture 0.png" in ended.stdout
    told = lorakit("diff", first.path, every(first.path.parent)[0].path, "--json")
    assert told.returncode == 1
    found = json.loads(told.stdout)
    assert [d["what"] for d in found["settings"]] == ["dataset.sources[0].path"]
    assert [d["what"] for d in found["lock"]] == ["picture 0.png"]
    assert found["result"]["same"] is False
    assert found["result"]["apart"]["differing"] > 0
    assert 0 < found["result"]["apart"]["mean"] <= found["result"]["apart"]["largest"]


def test_a_promise_that_is_broken_is_a_failure(copied: Path) -> None:
    """A digest that no training gives stands for a machine that computes something else."""
    bundle = read(copied)
    result = bundle.lock.result.model_copy(update={"digest": "0" * 64})
    lock = bundle.lock.model_copy(update={"result": result})
    copied.write_text(dump(bundle.model_copy(update={"lock": lock})))
    ended = lorakit("replay", copied, OMP_NUM_THREADS="1")
    assert ended.returncode == 1
    assert f"replay: another LoRA: digest {'0' * 64} then" in ended.stdout
    assert "the file of then is not here" in ended.stdout
