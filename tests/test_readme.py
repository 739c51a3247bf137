"""Every command of the README runs, in its order, with the robots as the reader's dog."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHORT = ["--set", "train.steps=4", "--set", "sample.steps=2"]
"""What is added to a training, so that it ends in seconds."""

COMMANDS = [
    shlex.split(line.split("  #")[0])
    for block in re.findall(r"```sh\n(.*?)```", README, re.S)
    for line in block.splitlines()
]


def ours() -> list[list[str]]:
    return [c[1:] for c in COMMANDS if c[0] == "lorakit"]


def test_the_two_commands_for_a_fresh_machine_are_there() -> None:
    joined = [" ".join(c) for c in COMMANDS if c[0] != "lorakit"]
    assert joined == [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/lorakit demo",
        ".venv/bin/pip install -e .[dev] && .venv/bin/pytest -n auto",
    ]
    assert "-m" in (ROOT / ".ci/run").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_runs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/robots", tmp_path / "robots")
    text = (ROOT / "examples/robots.toml").read_text().replace('"robots"', '"my-dog"', 1)
    (tmp_path / "my-dog.toml").write_text(text.replace("every = 200", "every = 2"))
    done = set()
    for command in [*ours(), ["demo"]]:
        options = SHORT if command[0] in ("train", "demo") else []
        if command == [] or command[0] == "new":
            command, options = [*command], []  # the wizard: without a terminal it says what to do
        elif command[0] == "demo":
            prepared = tmp_path / "lorakit-demo"
            shutil.copytree(tmp_path / "robots", prepared / "robots")
            shutil.copyfile(tmp_path / "my-dog.toml", prepared / "robots.toml")
            short = (prepared / "robots.toml").read_text().replace("steps = 600", "steps = 4")
            (prepared / "robots.toml").write_text(short.replace("steps = 30", "steps = 2"))
            options = []
        ran = subprocess.run(
            [sys.executable, "-m", "lorakit", *command, *options],
            cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
            env={**os.environ, "TERM": "dumb"},
        )  # fmt: skip
        expected = 2 if command == [] or command[0] == "new" else 0
        assert ran.returncode == expected, (command, ran.stderr)
        done.add(command[0] if command else "wizard")
    assert done >= {"wizard", "new", "check", "train", "runs", "watch", "stop", "sample", "presets"}
