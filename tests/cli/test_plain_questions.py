"""The wizard line by line, through the real command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lorakit.bundle.read import read

ROBOTS = Path(__file__).resolve().parents[2] / "examples" / "robots"


def asked(
    folder: Path, *answers: str, args: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lorakit", "new", "--plain", *args],
        cwd=folder, input="".join(f"{a}\n" for a in answers), capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip


@pytest.mark.slow
def test_answers_become_a_bundle(tmp_path: Path) -> None:
    ran = asked(
        tmp_path,
        "./nowhere", "pico",  # a base that is none is asked for again
        "no-folder", str(ROBOTS / "train"), "",
        "train.steps = many", "train.steps = 77", "",
        "fly", "save", "robots.toml",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str(tmp_path / "robots.toml")
    assert "./nowhere" in ran.stderr
    bundle = read(tmp_path / "robots.toml")
    assert (bundle.train.steps, bundle.base.model, bundle.dataset.resolution) == (77, "pico", 64)
    check = [sys.executable, "-m", "lorakit", "check", "robots.toml"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 0

    again = asked(tmp_path, "", "", "", "", "save", "b.toml", args=("--from", "robots.toml"))
    assert again.returncode == 0, again.stderr
    assert read(tmp_path / "b.toml") == bundle


def test_the_end_of_input_keeps_the_answers(tmp_path: Path) -> None:
    ran = asked(tmp_path, "pico")
    assert ran.returncode == 0
    assert "kept" in ran.stderr
    assert ran.stdout == ""
