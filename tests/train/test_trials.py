"""Each trial of a device does the real thing, and tells a wrong result from a right one."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lorakit.train import probe, trials
from lorakit.train.device import describe, driver_uuid

CPU = torch.device("cpu")


def lines(*words: str) -> list[dict[str, Any]]:
    out = io.StringIO()
    assert probe.main(list(words), out) == 0
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_every_trial_is_announced_before_it_is_told() -> None:
    said = lines()
    assert said[0]["torch"] == torch.__version__
    assert said[-1] == {"end": True}
    tried = [line["trying"] for line in said if "trying" in line]
    assert tried[0] == "fp32"
    for before, after in zip(said[2:-1:2], said[3:-1:2], strict=True):
        assert "trying" in before
        assert "trying" not in after
    worked = {x["precision"] for x in said if "precision" in x and not x["said"]}
    assert {"fp32", "fp16", "bf16"} <= worked


def test_a_device_that_is_passed_over_is_named_and_left_alone() -> None:
    assert [sorted(line) for line in lines("--skip=0")][1:] == [["device", "kind", "name"], ["end"]]


def test_a_wrong_product_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    trials.multiply(CPU, torch.bfloat16)
    true = torch.Tensor.to

    def off(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        moved = true(tensor, *args, **kwargs)
        return moved + 1 if torch.bfloat16 in args else moved

    monkeypatch.setattr(torch.Tensor, "to", off)
    with pytest.raises(RuntimeError, match="off by"):
        trials.multiply(CPU, torch.bfloat16)


def test_the_kernel_that_serves_is_one_that_works_alone() -> None:
    name = trials.served(CPU, torch.float32)
    trials.attend(CPU, torch.float32, trials.KERNELS[name])
    with pytest.raises(RuntimeError):
        trials.attend(CPU, torch.float32, trials.KERNELS["cudnn"])


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (
            "52a3a85d-3c55-ca3a-a955-82c69ed360fc",
            "GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc",
        ),
        # The bytes of an AMD card's are the characters of what its driver says.
        ("63316637-6139-6432-3065-336235613634", "GPU-c1f7a9d20e3b5a64"),
        ("00000000-0000-0000-0000-000000000000", ""),
        ("", ""),
    ],
)
def test_uuids_are_written_as_the_driver_does(said: str, wanted: str) -> None:
    assert driver_uuid(said) == wanted


def properties(**values: Any) -> SimpleNamespace:
    """Of a card, as torch.cuda gives them."""
    return SimpleNamespace(
        **{
            "name": "NVIDIA GeForce RTX 4090",
            "major": 8,
            "minor": 9,
            "gcnArchName": "",
            "is_integrated": 0,
            "total_memory": 25_282_281_472,
            "uuid": "52a3a85d-3c55-ca3a-a955-82c69ed360fc",
            "pci_domain_id": 0,
            "pci_bus_id": 1,
            "pci_device_id": 0,
            **values,
        }
    )


def test_a_card_is_named_so_that_the_driver_s_can_be_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda n: properties())
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda d: properties().name)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda n: (24 << 30, 25_282_281_472))
    (device, facts), *_ = probe.devices()
    assert device == torch.device("cuda", 0)
    assert facts == {
        "kind": "cuda",
        "name": "NVIDIA GeForce RTX 4090",
        "uuid": "GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc",
        "pci": "0000:01:00.0",
        "architecture": "sm_89",
        "integrated": False,
        "memory_free_gib": 24.0,
        "memory_total_gib": pytest.approx(23.546, abs=0.001),
    }
    assert describe(device) == "NVIDIA GeForce RTX 4090 (GPU-52a3a85d)"

    amd = properties(gcnArchName="gfx90a:sramecc+:xnack-", uuid="")
    for name in ("pci_domain_id", "pci_bus_id", "pci_device_id"):
        delattr(amd, name)
    monkeypatch.setattr(torch.version, "hip", "7.0.2")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda n: amd)
    (_, facts), *_ = probe.devices()
    assert (facts["kind"], facts["architecture"]) == ("rocm", "gfx90a")
    assert (facts["uuid"], facts["pci"]) == ("", "")


def test_a_device_whose_first_operation_fails_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(device: torch.device, dtype: torch.dtype) -> None:
        raise RuntimeError("HIP error: invalid device function\nCompile with TORCH_USE_HIP_DSA.")

    monkeypatch.setattr(trials, "multiply", broken)
    said = lines()
    assert said[3] == {
        "device": 0,
        "precision": "fp32",
        "said": "HIP error: invalid device function",
    }
    assert said[4] == {"end": True}


@pytest.mark.slow
def test_compile_is_used_once() -> None:
    assert {"device": 0, "module": "compile", "said": ""} in lines("--compile")
