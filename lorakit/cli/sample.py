"""`lorakit sample`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from lorakit.cli import streams
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs.directory import Run, find, runs_root
from lorakit.runs.launch import environment

DRAW: tuple[str, ...] = (sys.executable, "-P", "-m", "lorakit.train.draw")
"""The command that loads a base and its LoRA and draws."""


def sample(
    words: list[str],
    seed: int,
    steps: int | None,
    guidance: float | None,
    out: Path | None,
    runs: Path | None,
) -> int:
    """Draw a picture with a run's LoRA, in a process of its own, and print where it is."""
    if len(words) > 2:
        raise LorakitError(
            f"A run and a prompt are two words for the shell, and there are {len(words)}.",
            'Put the prompt in quotes: lorakit sample my-dog "a dog on a beach"',
        )
    *names, prompt = words
    run = find(names[0] if names else None, runs_root(runs))
    file = (out or run.path / "samples" / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}.png").absolute()
    command = [*DRAW, "--out", str(file), "--seed", str(seed)]
    command += ["--steps", str(steps)] if steps is not None else []
    command += ["--guidance", str(guidance)] if guidance is not None else []
    command += ["--", str(run.path), prompt]
    streams.err(f"drawing with {run.name} ...")
    drawn = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environment(),
        check=False,
    )
    if drawn.returncode != 0:
        raise _failure(run, drawn.returncode)
    streams.out(drawn.stdout.decode("utf-8", errors="replace").strip() or str(file))
    return 0


def _failure(run: Run, returncode: int) -> LorakitError:
    try:
        code = ExitCode(returncode)
    except ValueError:
        code = ExitCode.TRAINING_FAILED
    return LorakitError(
        f"The picture could not be drawn with {run.name} (exit code {returncode}).",
        "The reason is in the lines above.",
        code,
    )
