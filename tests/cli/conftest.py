from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import drive
import pytest
from PIL import Image
from terminal import Terminal

from lorakit.cli import replay, sample
from lorakit.cli.app import main
from lorakit.runs import launch
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


@contextlib.contextmanager
def into_files(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Everything that this process and its children print goes into two files, and nothing is to be
    read: what a command finds that is started without a terminal."""
    paths = folder / "stdout", folder / "stderr"
    kept = [(number, os.dup(number)) for number in (0, 1, 2)]
    streams = sys.stdin, sys.stdout, sys.stderr
    with open(os.devnull) as nothing, paths[0].open("wb") as out, paths[1].open("wb") as err:
        try:
            for number, file in enumerate((nothing, out, err)):
                os.dup2(file.fileno(), number)
            sys.stdin = nothing
            sys.stdout, sys.stderr = (io.TextIOWrapper(f, "utf-8", newline="") for f in (out, err))
            yield paths
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stdin, sys.stdout, sys.stderr = streams
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)


@pytest.fixture
def lorakit(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Runs a command without a terminal, to its end: in this process, as starting another one takes
    most of a second. Where a process of its own matters there are `process` and `terminal`."""
    folder = tmp_path_factory.mktemp("printed")

    def command(
        *words: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        argv = ["lorakit", *map(str, words)]
        with pytest.MonkeyPatch.context() as patch, into_files(folder) as (out, err):
            patch.setattr(launch, "WORKER", drive.WORKER)
            patch.setattr(replay, "LOCK", drive.LOCK)
            patch.setattr(sample, "DRAW", drive.DRAW)
            patch.setattr(sys, "argv", argv)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            if cwd:
                patch.chdir(cwd)
            with pytest.raises(SystemExit) as ended:
                main()
        code = ended.value.code
        assert isinstance(code, int)
        return subprocess.CompletedProcess(
            argv, code, out.read_text("utf-8"), err.read_text("utf-8")
        )

    return command


@pytest.fixture
def process() -> Command:
    """Runs a command without a terminal, to its end, in a process of its own."""

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
