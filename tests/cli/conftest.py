from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image
from terminal import Terminal

from lorakit.runs.directory import Run, every, runs_root
from lorakit.runs.state import RunState

DRIVE = Path(__file__).parents[1] / "drive.py"
"""The command with a stand-in for its trainer."""

CONFIGURATIONS = {
    "model_index.json": {"text_encoder": ["transformers", "CLIPTextModel"]},
    "scheduler/scheduler_config.json": {"prediction_type": "epsilon"},
    "unet/config.json": {"sample_size": 8, "block_out_channels": [8, 8]},
    "vae/config.json": {"block_out_channels": [8, 8, 8, 8]},
    "text_encoder/config.json": {"max_position_embeddings": 77},
}
WEIGHTS = (
    "unet/diffusion_pytorch_model.safetensors",
    "vae/diffusion_pytorch_model.safetensors",
    "text_encoder/model.safetensors",
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle that passes every check, with three pictures and a base model without weights."""
    base = tmp_path / "base"
    for name, content in CONFIGURATIONS.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(json.dumps(content))
    for name in WEIGHTS:
        (base / name).write_bytes(b"\2\0\0\0\0\0\0\0{}")
    letters = [chr(c) for c in range(33, 127)]
    words = [*letters, *(f"{c}</w>" for c in letters), "<|startoftext|>", "<|endoftext|>"]
    (base / "tokenizer").mkdir()
    (base / "tokenizer" / "vocab.json").write_text(json.dumps({w: n for n, w in enumerate(words)}))
    (base / "tokenizer" / "merges.txt").write_text("#version: 0.2\n")
    pictures = tmp_path / "my [dog] pictures"
    pictures.mkdir()
    for number in range(3):
        Image.new("RGB", (64, 64), (number * 80, 0, 0)).save(pictures / f"{number}.png")
        (pictures / f"{number}.txt").write_text("a dog")
    file = tmp_path / "dog.toml"
    file.write_text(
        "schema = 1\n"
        'name = "dog"\n'
        "[base]\n"
        'model = "base"\n'
        "[[dataset.sources]]\n"
        'path = "my [dog] pictures"\n'
        "[dataset]\n"
        "resolution = 64\n"
        "[train]\n"
        "steps = 30\n"
        'precision = "fp32"\n'
        "[sample]\n"
        "every = 0\n"
        "[save]\n"
        "every = 0\n"
    )
    return file


@pytest.fixture(autouse=True)
def no_trainer_left() -> Iterator[None]:
    yield
    for run in every(runs_root()):
        if run.lives(RunState()):
            os.kill(run.process["pid"], 9)


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def lorakit() -> Command:
    """Runs a command without a terminal, to its end."""

    def command(
        *words: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(DRIVE), *map(str, words)],
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return command


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Runs a command in a terminal."""
    made: list[Terminal] = []

    def run(*words: str | Path, **env: str) -> Terminal:
        made.append(Terminal(DRIVE, *words, **env))
        return made[-1]

    yield run
    for one in made:
        one.close()


@pytest.fixture
def the_run() -> Callable[[], Run]:
    """The only run there is."""

    def only() -> Run:
        (run,) = every(runs_root())
        return run

    return only
