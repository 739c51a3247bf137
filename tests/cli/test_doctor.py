"""`lorakit doctor` as a command: its lines, its JSON, its exit codes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lorakit.hardware.detect import detect
from lorakit.hardware.speed import recalled

Command = Callable[..., "subprocess.CompletedProcess[str]"]
MACHINES = Path(__file__).parents[1] / "data" / "hardware"


def machine(name: str) -> Path:
    return MACHINES / f"{name}.toml"


def test_this_machine_in_lines(lorakit: Command) -> None:
    ended = lorakit("doctor", "--no-probe", env={"HF_TOKEN": "hf_planted"})
    assert ended.returncode == 0
    lines = ended.stdout.splitlines()
    marks = {line[0] for line in lines[:-1]}
    assert marks <= set("✓! ")
    names = [line.split()[1] for line in lines[:-1] if line[0] != " "]
    for name in ("python", "packages", "pytorch", "card", "ram", "runs", "hub", "token", "logout"):
        assert name in names
    assert lines[-1].startswith("Training runs on CPU, ")
    assert "hf_planted" not in ended.stdout + ended.stderr
    assert "\x1b" not in ended.stdout


@pytest.mark.slow
def test_pytorch_is_tried_in_a_process_of_its_own(lorakit: Command) -> None:
    ended = lorakit("doctor", "--json")
    assert ended.returncode == 0
    told = json.loads(ended.stdout)
    (line,) = [c for c in told["checks"] if c["name"] == "precision"]
    assert "fp32" in line["what"]
    assert "trying PyTorch" in ended.stderr
    assert recalled(detect()).speed is not None  # from here on, times are of this machine


def test_json_is_json_and_nothing_else(lorakit: Command) -> None:
    ended = lorakit("doctor", "--json", "--hardware", machine("rx6600"))
    told = json.loads(ended.stdout)
    assert told["trains_on"] == "AMD Radeon RX 6600"
    assert ended.returncode == told["exit_code"] == 3
    assert {c["verdict"] for c in told["checks"]} == {"good", "bad"}
    assert ended.stderr == ""


def test_a_terminal_without_ticks_gets_ascii(process: Command) -> None:
    env = {"PYTHONIOENCODING": "ascii"}
    ended = process("doctor", "--hardware", machine("driver-updated"), env=env)
    assert ended.returncode == 0
    assert ended.stdout.isascii()
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("ok pytorch")
    at = next(n for n, line in enumerate(lines) if line.startswith("!  driver"))
    assert lines[at + 1].strip() == "Reboot."


@pytest.mark.parametrize(
    ("name", "setting", "code", "says"),
    [
        ("rtx4090", "train.precision=bf16", 0, "can be trained on the NVIDIA GeForce RTX 4090"),
        ("t4", "train.precision=bf16", 3, "Tesla T4 (compute capability 7.5) has no native bf16"),
        ("rx6600", "train.precision=fp16", 3, "AMD Radeon RX 6600 cannot be trained on"),
        ("cpu-only", "train.precision=fp32", 0, "can be trained on the CPU"),
    ],
)
def test_a_bundle_that_cannot_be_trained_there(
    bundle: Path, lorakit: Command, name: str, setting: str, code: int, says: str
) -> None:
    ended = lorakit("doctor", bundle, "--set", setting, "--hardware", machine(name))
    assert says in ended.stdout
    assert ended.returncode == code


def test_a_bundle_that_cannot_be_read(bundle: Path, lorakit: Command) -> None:
    bundle.write_text(bundle.read_text().replace("steps = 30", "stepps = 30"))
    ended = lorakit("doctor", bundle, "--hardware", machine("rtx4090"))
    assert ended.returncode == 2
    assert "✗ bundle" in ended.stdout
    assert "stepps" in ended.stdout


def test_a_failing_device_ends_a_check_too(bundle: Path, lorakit: Command) -> None:
    ended = lorakit("check", bundle, "--hardware", machine("gtx1080ti"))
    assert ended.returncode == 3
    assert "no kernel image is available" in ended.stderr
