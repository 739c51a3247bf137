"""Each trial of a device does the real thing, and tells a wrong result from a right one."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import torch

from lorakit.train import probe, trials
from lorakit.train.device import driver_uuid

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


@pytest.mark.slow
def test_compile_is_used_once() -> None:
    assert {"device": 0, "module": "compile", "said": ""} in lines("--compile")
