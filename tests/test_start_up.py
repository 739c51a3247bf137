"""How long a person waits for the first sign of a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

YARDSTICK = "import asyncio, email.message, http.client, json, logging, ssl, typing, unittest.mock"
YARDSTICK_SECONDS = 0.093
"""What the yardstick takes on the machine that the limits below were set on."""


def busy_seconds(*words: str) -> float:
    """Processor time of a command, in seconds of the machine that the limits were set on.

    The least of a few tries, each beside a yardstick: neither another's load nor a slower machine
    is a fault of the command. Modules are compiled once, as they are for a person.
    """
    tries = []
    for _ in range(3):
        yard = _busy_seconds("-c", YARDSTICK)
        used = _busy_seconds("-m", "lorakit", *words)
        tries.append(used * min(1.0, YARDSTICK_SECONDS / yard))
    return min(tries)


def _busy_seconds(*words: str) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


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
