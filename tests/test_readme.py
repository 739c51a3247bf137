"""Every command of the README runs, with the robots as the reader's dog."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub import serving
from single_files import small_shapes, write_header

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line.split("  #")[0])
    for block in re.findall(r"```sh\n(.*?)```", README, re.S)
    for line in block.splitlines()
]
FRESH = [
    "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/lorakit demo",
    ".venv/bin/pip install -e .[dev] && .venv/bin/pytest -n auto",
]
"""The two for a fresh machine: the second is what runs this, the first is shortened below."""


def changed(command: list[str]) -> list[str]:
    """A command with what makes it end in seconds, or not before it is stopped."""
    if command[:1] == ["bench"] and "--out" in command:
        return [*command, "--ranks", "1,8" if "--resume" in command else "1"]
    if command[:1] != ["train"]:
        return command
    if "--resume" in command:
        return [*command, "--detach"]  # with the steps that it was begun with
    steps = 1_000_000 if "--detach" in command else 4
    values = [f"train.steps={steps}", "train.warmup_steps=0", "sample.steps=2"]
    return [*command, *(word for value in values for word in ("--set", value))]


def test_the_two_commands_for_a_fresh_machine_are_the_first() -> None:
    assert [" ".join(c) for c in COMMANDS if c[0] != "lorakit"] == FRESH


@pytest.fixture
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment for a Hub that has the base and the file of the README."""
    folder = tmp_path_factory.mktemp("hub") / "repository"
    shutil.copytree(ROOT / "lorakit/assets/pico", folder)
    write_header(folder / "x.safetensors", small_shapes())
    with serving(folder, "owner/name") as served:
        yield {"HF_ENDPOINT": served.address, "HF_HUB_OFFLINE": ""}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_runs(tmp_path: Path, hub: dict[str, str]) -> None:
    text = (ROOT / "examples/robots.toml").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "examples/robots", tmp_path / "robots")
    shutil.copytree(ROOT / "examples/robots", tmp_path / "photos/dog")
    (tmp_path / "my-dog.toml").write_text(text.replace('"robots"', '"my-dog"', 1))
    shutil.copy(ROOT / "tests/data/bench/laptop.toml", tmp_path / "yours.toml")
    demo = tmp_path / "lorakit-demo"  # files that are there stay as they are
    demo.mkdir()
    short = text.replace("steps = 600", "steps = 4").replace(
        "warmup_steps = 20", "warmup_steps = 0"
    )
    (demo / "robots.toml").write_text(short)

    commands = [c[1:] for c in COMMANDS if c[0] == "lorakit"]
    # Without a terminal `watch` follows to the end, so here the run is stopped first.
    watch, stop = commands.index(["watch", "my-dog"]), commands.index(["stop", "my-dog"])
    commands[watch], commands[stop] = commands[stop], commands[watch]
    # What goes on after it was stopped is stopped as well, so that nothing trains on.
    after = commands.index(["train", "--resume", "my-dog"]) + 1
    commands[after:after] = [["stop", "my-dog"], ["watch", "my-dog"]]
    # And it may be stopped before it has a LoRA, so the one before it is drawn with.
    [drawing] = [c for c in commands if c[:1] == ["sample"]]
    commands.remove(drawing)
    commands.insert(commands.index(["train", "my-dog.toml", "--detach"]), drawing)
    for command in [["demo"], *commands]:
        ran = subprocess.run(
            [sys.executable, "-m", "lorakit", *changed(command)],
            cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
            env={**os.environ, **hub, "TERM": "dumb"},
        )  # fmt: skip
        wizard = command in ([], ["new", "--from", "my-dog.toml"])  # it says what it needs instead
        differs = command[:1] == ["diff"]  # for the steps were changed
        expected = 2 if wizard else 1 if differs else 0
        assert ran.returncode == expected, (command, ran.stdout, ran.stderr)
        assert not differs or "train.steps  600 -> 4\n" in ran.stdout
        assert command[:1] != ["replay"] or "replay: the same LoRA" in ran.stdout
        assert not wizard or "needs a terminal" in ran.stderr
    assert (tmp_path / "lorakit-demo/robots/train/robot-01.png").is_file()
