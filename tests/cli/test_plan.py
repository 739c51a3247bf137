"""`lorakit plan`: a bundle against this machine and against machines in files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]
MACHINES = Path(__file__).parents[1] / "data" / "hardware"

BUNDLES = {
    "pico": "",
    "sd1": '[base]\nmodel = "stable-diffusion-v1-5/stable-diffusion-v1-5"\n',
    "sdxl": '[base]\nfamily = "sdxl"\nmodel = "stabilityai/stable-diffusion-xl-base-1.0"\n',
}
SIDE = {"pico": 64, "sd1": 512, "sdxl": 1024}


@pytest.fixture
def of(bundle: Path) -> Callable[[str], Path]:
    """A bundle of each base, with the pictures that lie beside it."""

    def make(name: str) -> Path:
        file = bundle.with_name(f"{name}.toml")
        file.write_text(
            f'schema = 1\nname = "{name}"\n{BUNDLES[name]}'
            f'[[dataset.sources]]\npath = "my [dog] pictures"\n'
            f"[dataset]\nresolution = {SIDE[name]}\n"
            '[train]\nprecision = "fp16"\n[sample]\nprompts = ["a dog"]\n'
        )
        return file

    return make


@pytest.mark.parametrize("name", BUNDLES)
def test_a_plan_has_parts_a_verdict_and_what_else_would_fit(
    name: str, of: Callable[[str], Path], lorakit: Command
) -> None:
    ended = lorakit("plan", of(name), "--hardware", MACHINES / "rtx4090.toml")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0] == f"{name} on NVIDIA GeForce RTX 4090"
    assert "of 22.9 GiB free may be used" in ended.stdout
    large = () if name == "pico" else ("  base weights", "  activations", "  optimizer")
    for part in ("training", "  context", *large):
        assert any(line.startswith(part) and "GiB" in line for line in lines), part
    assert any(line.startswith("memory  fits: ") and "% " not in line[-2:] for line in lines)
    assert sum(line.count("*") for line in lines) == 2  # one explains the other
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)


def test_what_does_not_fit_says_what_to_change(of: Callable[[str], Path], lorakit: Command) -> None:
    """A GTX 1080 Ti with 5.0 of 11.0 GiB free, for another process holds the rest."""
    words = ("plan", of("sdxl"), "--hardware", MACHINES / "two-cards.toml")
    ended = lorakit(*words)
    assert ended.returncode == 4
    assert "memory  does not fit: " in ended.stdout
    assert "The least that it can take is" in ended.stderr
    assert "(5.5 GiB)" in ended.stderr
    roomy = lorakit("plan", of("sdxl"), "--hardware", MACHINES / "gb10.toml")
    assert roomy.returncode == 0


def test_a_plan_as_json_is_nothing_but_json(of: Callable[[str], Path], lorakit: Command) -> None:
    ended = lorakit("plan", of("sd1"), "--hardware", MACHINES / "t4.toml", "--json")
    plan = json.loads(ended.stdout)
    assert plan["verdict"] == "fits"
    assert plan["device"] == "Tesla T4"
    peak = max(phase["gib"] for phase in plan["phases"])
    assert plan["peak_gib"] == pytest.approx(peak)
    assert peak == pytest.approx(
        max(sum(part["gib"] for part in phase["parts"]) for phase in plan["phases"])
    )
    (own,) = [cell for cell in plan["grid"] if cell["own"]]
    assert (own["rank"], own["batch"], own["checkpointing"]) == (16, 1, "none")
    assert own["gib"] == pytest.approx(peak)
    assert plan["disk_free_bytes"] is None  # whose disk that is, nobody knows


def test_a_plan_in_ascii(of: Callable[[str], Path], process: Command) -> None:
    env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    ended = process("plan", of("sd1"), "--hardware", MACHINES / "t4.toml", env=env)
    assert ended.stdout.isascii()
    assert "####" in ended.stdout
    assert "?" not in ended.stdout


def test_own_values_have_their_place_in_the_grid(
    of: Callable[[str], Path], lorakit: Command
) -> None:
    settings = ("adapter.rank=24", "train.batch_size=5", "memory.checkpointing=7")
    flags = [word for setting in settings for word in ("--set", setting)]
    ended = lorakit("plan", of("sd1"), "--hardware", MACHINES / "rtx4090.toml", "--json", *flags)
    cells = json.loads(ended.stdout)["grid"]
    (own,) = [cell for cell in cells if cell["own"]]
    assert (own["rank"], own["batch"], own["checkpointing"]) == (24, 5, 7)
    assert len({cell["rank"] for cell in cells}) == 6
    assert len({cell["batch"] for cell in cells}) == 4


def test_a_plan_of_what_is_no_bundle(bundle: Path, lorakit: Command) -> None:
    bundle.write_text("schema = 1\nnaem = 3\n")
    ended = lorakit("plan", bundle)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "naem" in ended.stderr


def test_a_base_that_is_not_there_is_told_beside_the_plan(bundle: Path, lorakit: Command) -> None:
    ended = lorakit("plan", bundle, "--set", "base.model=/no/such/base")
    assert "The base model /no/such/base is no file or folder" in ended.stderr
    assert "another rank" in ended.stdout


def test_a_plan_says_all_that_check_does(of: Callable[[str], Path], lorakit: Command) -> None:
    """And in words why a time is not known: a T4 has no bf16, and nobody measured it in it."""
    words = ("--hardware", MACHINES / "t4.toml", "--set", "train.precision=bf16")
    ended, checked = (lorakit(verb, of("sd1"), *words) for verb in ("plan", "check"))
    assert "Tesla T4 (compute capability 7.5) has no native bf16" in ended.stderr
    assert ended.stderr == checked.stderr
    assert "time    not known: nobody has measured Tesla T4 in bf16" in ended.stdout


def test_next_to_nothing_has_no_line(of: Callable[[str], Path], lorakit: Command) -> None:
    ended = lorakit("plan", of("pico"), "--hardware", MACHINES / "cpu-only.toml")
    assert "  program" in ended.stdout
    assert " 0.00 GiB" not in ended.stdout
