"""What a person sees of the machine, and the word that training on the CPU needs (B30, B40)."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lorakit.cli import hardware as command
from lorakit.hardware import nvml, probe
from lorakit.hardware.facts import Accelerator, Hardware, Probe, Speed, TorchBuild, Tried
from lorakit.hardware.files import load

Command = Callable[..., "subprocess.CompletedProcess[str]"]

MACHINES = Path(__file__).parents[1] / "data" / "hardware"

UNIT = Accelerator(
    kind="rocm",
    name="AMD Radeon Graphics",
    pci="0000:0f:00.0",
    architecture="gfx1036",
    memory_total_gib=0.5,
    integrated=True,
)

CARD = (
    "GPU-8f0d1c5e-4a7b-9d2e-6c31-0b5a7e9f2d48, NVIDIA GeForce RTX 4060 Laptop GPU, "
    "00000000:01:00.0, 572.16, 8188, 6934, 8.9, Enabled, [N/A]"
)


def shown(
    machine: Hardware, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(command, "detect", lambda: machine)
    assert command.hardware(False, None, False, False) == 0
    return capsys.readouterr().out


def test_free_memory_and_who_holds_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(load(MACHINES / "two-cards.toml"), monkeypatch, capsys)
    assert "NVIDIA GeForce GTX 1080 Ti, 5.0 of 11.0 GiB free, sm_61" in out
    assert "5.5 GiB held by process 2113 python" in out
    assert "-- held by process 977 Xorg" in out
    assert "GTX 745, 4.0 of 4.0 GiB free, sm_50, drives a screen, hidden" in out
    assert "GPU-9d5e77aa-02a2-4a0f-9c0e-6a1d2f6b0c22  0000:02:00.0" in out
    assert out.endswith("trains on NVIDIA GeForce GTX 1080 Ti\n")


def test_marks_of_a_card(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(load(MACHINES / "gb10.toml"), monkeypatch, capsys)
    assert "NVIDIA GB10, 113.1 of 121.7 GiB free, sm_121, memory shared with the system" in out
    out = shown(Hardware(accelerators=(UNIT,)), monkeypatch, capsys)
    assert "AMD Radeon Graphics, -- of 0.5 GiB free, gfx1036, integrated" in out


def test_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = Probe(
        devices=(
            Tried(
                kind="cuda",
                name="NVIDIA GeForce RTX 4090",
                precisions=("fp32", "bf16", "fp16", "fp8"),
                attention="flash",
                kernels=("flash", "efficient", "math"),
                modules={"xformers": "", "bitsandbytes": "no kernel image"},
                speed=Speed(tflops={"bf16": 165.2}, bandwidth_gb_s=920.0, launch_us=4.1),
            ),
            Tried(kind="cpu", name="CPU", failure="it was killed by SIGILL"),
        ),
    )
    monkeypatch.setattr(command, "detect", lambda: load(MACHINES / "rtx4090.toml"))
    monkeypatch.setattr(probe, "probe", lambda **_: told)
    assert command.hardware(False, tmp_path / "m.toml", True, False) == 0
    said = capsys.readouterr()
    for line in (
        "NVIDIA GeForce RTX 4090: fp32, bf16, fp16, fp8",
        "attention by flash, can do efficient, math",
        "xformers works",
        "bitsandbytes does not work: no kernel image",
        "bf16 165 TFLOP/s, 920 GB/s, 4.1 us a launch",
        "CPU: it was killed by SIGILL",
    ):
        assert line in said.out
    assert "trying PyTorch" in said.err
    assert load(tmp_path / "m.toml").probe == told


@pytest.mark.slow
def test_the_probe_for_real(lorakit: Command) -> None:
    ended = lorakit("hardware", "--probe", "--json")
    (cpu,) = [d for d in json.loads(ended.stdout)["probe"]["devices"] if d["kind"] == "cpu"]
    assert "fp32" in cpu["precisions"]


def test_without_pytorch_nothing_is_tried(
    lorakit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lorakit.hardware import torch_build

    monkeypatch.setattr(torch_build, "installed", lambda: None)
    ended = lorakit("hardware", "--probe")
    assert "PyTorch is not installed" in ended.stderr
    assert "did not end well" not in ended.stderr


def test_a_machine_in_a_file_is_not_tried(lorakit: Command) -> None:
    ended = lorakit("hardware", "--probe", "--hardware", str(MACHINES / "t4.toml"))
    assert "nothing was tried" in ended.stderr
    assert "Tesla T4" in ended.stdout


def test_looking_at_the_machine_never_starts_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    from lorakit.hardware.detect import detect

    monkeypatch.setattr(probe, "COMMAND", ("/nowhere/python",))
    assert detect().probe is None


def idle_card() -> bool:
    """Whether a card shown by nvidia-smi would be one that this PyTorch cannot use."""
    driver = nvml.module()
    return (
        load(MACHINES / "cpu-only.toml").torch is not None
        and driver is not None
        and nvml.ask(driver).failure == nvml.NO_LIBRARY
    )


@pytest.mark.skipif(not idle_card(), reason="this machine has an NVIDIA driver of its own")
def test_training_beside_an_idle_card_needs_a_word(
    lorakit: Command, bundle: Path, tmp_path: Path
) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho '{CARD}'\n")
    tool.chmod(0o755)
    path = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    for words in (("check", bundle), ("train", bundle, "--detach")):
        ended = lorakit(*words, env=path)
        assert ended.returncode == 3, ended.stderr
        assert "cannot use NVIDIA GeForce RTX 4060 Laptop GPU" in ended.stderr
        assert "--cpu" in ended.stderr
        assert "download.pytorch.org/whl/cu" in ended.stderr
    assert lorakit("check", bundle, "--cpu", env=path).returncode == 0
    assert lorakit("check", bundle, env={**path, "LORAKIT_CPU": "1"}).returncode == 0
    ended = lorakit("train", bundle, "--cpu", env=path)
    assert ended.returncode == 0, ended.stderr


def test_an_older_module_that_warns_at_import_is_not_heard(
    lorakit: Command, tmp_path: Path
) -> None:
    (tmp_path / "pynvml.py").write_text(
        "import warnings\n"
        "warnings.warn('The pynvml package is deprecated.', FutureWarning, stacklevel=2)\n"
        "class NVMLError(Exception): value = 12\n"
        "NVML_ERROR_LIBRARY_NOT_FOUND = 12\n"
        "def nvmlInit(): raise NVMLError\n"
    )
    env = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    ended = lorakit("hardware", "--json", env={**env, "PYTHONWARNINGS": "always"})
    assert json.loads(ended.stdout)["cpu_threads"] >= 1
    assert "deprecated" not in ended.stderr


def test_no_build_of_pytorch_is_wanted_where_the_card_is_used() -> None:
    card = dataclasses.replace(UNIT, memory_total_gib=24.0, integrated=False)
    rocm = TorchBuild(version="2.11.0+rocm7.0", hip="7.0")
    assert Hardware(torch=rocm, accelerators=(card,)).idle is None
    assert Hardware(torch=TorchBuild(version="2.11.0+cpu"), accelerators=(card,)).idle == card
    small = TorchBuild(version="2.11.0+cpu")
    assert Hardware(torch=small, accelerators=(UNIT,)).idle is None
