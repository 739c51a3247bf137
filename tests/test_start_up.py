"""How long a person waits for the first sign of a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def busy_seconds(*words: str) -> float:
    """Processor time of a command, the least of a few tries: another's load is no fault of it.

    Modules are compiled once, as they are for a person.
    """
    best = float("inf")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-m", "lorakit", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        best = min(best, used.ru_utime + used.ru_stime)
    return best


@pytest.mark.parametrize(
    ("words", "limit"),
    [(("--help",), 0.35), (("--version",), 0.35), (("hardware",), 0.5), ((), 0.7)],
)
def test_a_command_answers_at_once(words: tuple[str, ...], limit: float) -> None:
    assert busy_seconds(*words) < limit


def test_the_machine_is_looked_at_in_less_than_it_takes_to_load_a_library() -> None:
    """What is measured is the look itself: a second one, beside what imports cost."""
    code = (
        "import time; from lorakit.hardware.detect import detect; detect(); "
        "a = time.process_time(); detect(); print(time.process_time() - a)"
    )
    tries = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout)
        for _ in range(3)
    ]
    assert min(tries) < 0.1


BASES = {
    "pico": "",
    "sd1": '[base]\nmodel = "stable-diffusion-v1-5/stable-diffusion-v1-5"\n',
    "sdxl": '[base]\nfamily = "sdxl"\nmodel = "stabilityai/stable-diffusion-xl-base-1.0"\n',
}


@pytest.mark.parametrize("name", BASES)
def test_a_plan_is_there_in_half_a_second(name: str, tmp_path: Path) -> None:
    file = tmp_path / "bundle.toml"
    file.write_text(f'schema = 1\nname = "x"\n{BASES[name]}[[dataset.sources]]\npath = "."\n')
    assert busy_seconds("plan", str(file)) < 0.5
