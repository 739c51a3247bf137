from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from lorakit.hardware import speed
from lorakit.hardware.cards import CARDS, published
from lorakit.hardware.facts import Accelerator, Hardware, Speed, TorchBuild
from lorakit.hardware.files import load, save

SPEED = Speed(tflops={"fp32": 0.1, "bf16": 0.5}, bandwidth_gb_s=9.0, launch_us=12.0)
MACHINE = Hardware(cpu_name="Xeon", cpu_threads=2, torch=TorchBuild(version="2.13.0+cpu"))


def test_what_was_measured_is_remembered() -> None:
    assert speed.recalled(MACHINE).speed is None
    speed.remember(MACHINE, SPEED)
    assert speed.recalled(MACHINE).speed == SPEED


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(MACHINE, torch=TorchBuild(version="2.14.0+cpu")),
        dataclasses.replace(MACHINE, cpu_threads=4),
        dataclasses.replace(MACHINE, cpu_name="EPYC"),
    ],
)
def test_of_another_processor_torch_or_number_of_threads_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, other: Hardware
) -> None:
    speed.remember(MACHINE, SPEED)
    assert speed.recalled(other).speed is None
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert speed.recalled(MACHINE).speed is None


def test_a_card_is_known_by_its_uuid() -> None:
    cuda = TorchBuild(version="2.13.0+cu130", cuda="13.0")
    one, two = (
        Accelerator(kind="cuda", name="Card", uuid=f"GPU-{n}", memory_free_gib=1.0 * n)
        for n in (1, 2)
    )
    speed.remember(Hardware(torch=cuda, accelerators=(one, two)), SPEED)
    assert speed.recalled(Hardware(torch=cuda, accelerators=(two,))).speed == SPEED
    assert speed.recalled(Hardware(torch=cuda, accelerators=(one,))).speed is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        "[1]",
        "null",
        '{"tflops": {"fp32": 0}, "bandwidth_gb_s": 1, "launch_us": 1}',
        '{"tflops": {}, "bandwidth_gb_s": 1, "launch_us": 1}',
    ],
)
def test_a_damaged_memory_is_none(text: str) -> None:
    speed.remember(MACHINE, SPEED)
    [file] = (Path(os.environ["LORAKIT_CACHE"]) / "speed").iterdir()
    file.write_text(text)
    assert speed.recalled(MACHINE).speed is None


def test_a_machine_file_keeps_a_measured_speed(tmp_path: Path) -> None:
    save(dataclasses.replace(MACHINE, speed=SPEED), tmp_path / "m.toml")
    assert load(tmp_path / "m.toml").speed == SPEED


@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 88.2),
        ("NVIDIA GeForce RTX 4070", 58.3),
        ("NVIDIA RTX A6000", 155),
        ("NVIDIA RTX 6000 Ada Generation", 364),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
        ("Tesla T4", 65),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA GeForce GTX 1660 SUPER", 10.0),
    ],
)
def test_a_card_is_found_by_its_name(name: str, half: float) -> None:
    found = published(Accelerator(kind="cuda", name=name, capability=(8, 9)))
    assert found is not None
    assert found.by_name
    assert found.speed.tflops["fp16"] == pytest.approx(half * 0.7)


def test_an_older_card_is_no_faster_in_bf16_than_in_fp32() -> None:
    found = published(Accelerator(kind="cuda", name="Tesla V100-SXM2-16GB", capability=(7, 0)))
    assert found is not None
    assert found.speed.tflops["bf16"] == found.speed.tflops["fp32"] < found.speed.tflops["fp16"]


def test_a_data_sheet_is_in_one_order() -> None:
    for name, fp32, half, bandwidth in CARDS:
        assert fp32 <= half, name
        assert 50 < bandwidth < 10_000, name
