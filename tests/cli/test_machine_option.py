"""--hardware FILE: every command that judges believes the machine in the file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from terminal import Terminal

Command = Callable[..., "subprocess.CompletedProcess[str]"]
MACHINES = Path(__file__).parents[1] / "data" / "hardware"


def machine(name: str) -> Path:
    return MACHINES / f"{name}.toml"


def test_hardware_shows_the_machine_of_a_file(lorakit: Command) -> None:
    ended = lorakit("hardware", "--hardware", machine("driver-updated"))
    assert ended.returncode == 0
    assert "AMD Ryzen 9 7950X" in ended.stdout
    assert ended.stderr.splitlines() == [
        "lorakit: warning: No NVIDIA card can be used: the NVIDIA driver was updated and the old "
        "one is still running.",
        "  Reboot.",
    ]
    told = json.loads(lorakit("hardware", "--json", "--hardware", machine("rx6600")).stdout)
    assert told["probe"]["devices"][0]["failure"] == "HIP error: invalid device function"


def test_a_machine_can_be_saved_again(lorakit: Command, tmp_path: Path) -> None:
    again = tmp_path / "again.toml"
    lorakit("hardware", "--hardware", machine("two-cards"), "--save", again)
    assert again.read_text() == machine("two-cards").read_text()


@pytest.mark.parametrize(
    ("name", "setting", "code", "says"),
    [
        ("rtx4090", "train.precision=bf16", 0, "0 errors, 0 warnings"),
        ("t4", "train.precision=bf16", 2, "Tesla T4 (compute capability 7.5) has no native bf16"),
        ("cpu-only", "train.precision=bf16", 0, "usually slower than fp32"),
        ("rtx4090", "memory.attention=xformers", 0, "0 errors, 0 warnings"),
        ("rtx3060", "memory.attention=xformers", 2, "xformers is not installed"),
    ],
)
def test_check_judges_by_the_file(
    bundle: Path, lorakit: Command, name: str, setting: str, code: int, says: str
) -> None:
    sample = 'sample.prompts=["a dog"]'
    rest = ["--set", sample, "--set", "sample.every=10", "--set", "save.every=10"]
    ended = lorakit("check", bundle, "--hardware", machine(name), "--set", setting, *rest)
    assert says in ended.stderr + ended.stdout
    assert ended.returncode == code


def test_train_says_that_it_runs_here_all_the_same(bundle: Path, lorakit: Command) -> None:
    ended = lorakit("train", bundle, "--hardware", machine("a100-80gb"))
    assert ended.returncode == 0
    assert (
        f"judged by {machine('a100-80gb')}: NVIDIA A100-SXM4-80GB. The training itself runs on "
        "this machine." in ended.stderr
    )
    refused = lorakit("train", bundle, "--hardware", machine("t4"), "--set", "train.precision=bf16")
    assert refused.returncode == 2
    assert "judged by" not in refused.stderr


def test_replay_judges_by_the_file(bundle: Path, lorakit: Command) -> None:
    bundle.write_text(bundle.read_text().replace('"fp32"', '"bf16"'))
    ended = lorakit("replay", bundle, "--hardware", machine("t4"))
    assert ended.returncode == 2
    assert "Tesla T4" in ended.stderr


def test_the_wizard_asks_for_the_machine_of_the_file(lorakit: Command) -> None:
    ended = lorakit("new", "--plain", "--hardware", machine("h200"))
    assert "trains on: NVIDIA H200" in ended.stderr


@pytest.mark.parametrize("command", ["check", "train", "replay"])
def test_a_file_that_is_no_machine_is_one_error(
    bundle: Path, lorakit: Command, command: str
) -> None:
    ended = lorakit(command, bundle, "--hardware", bundle)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == (
        f"lorakit: error: The file {bundle} holds no machine.\n"
        "  lorakit hardware --save FILE writes one.\n"
    )


def test_the_screen_shows_the_machine_of_the_file(
    terminal: Callable[..., Terminal],
) -> None:
    screen = terminal("new", "--hardware", machine("h200"))
    screen.until("NVIDIA H200")
    assert "INTEL(R) XEON(R) PLATINUM 8568Y+" in screen.text
