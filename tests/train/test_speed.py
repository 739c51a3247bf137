from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from lorakit.train import speed


def test_a_device_is_measured_in_the_units_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "EACH_SECONDS", 0.01)
    told = speed.measure(torch.device("cpu"))
    assert set(told) == {"tflops", "bandwidth_gb_s", "launch_us"}
    assert set(told["tflops"]) == {"fp32", "fp16", "bf16"}
    assert all(1e-5 < rate < 100 for rate in told["tflops"].values())  # 10 MFLOPS to 100 TFLOPS
    assert 0.01 < told["bandwidth_gb_s"] < 10_000
    assert 0.1 < told["launch_us"] < 100_000


def test_a_precision_that_a_device_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "EACH_SECONDS", 0.0)
    plain = speed._matmul_tflops

    def refusing(device: torch.device, dtype: torch.dtype) -> float:
        if dtype == torch.bfloat16:
            raise RuntimeError('"addmm_impl_cpu_" not implemented for BFloat16')
        return plain(device, dtype)

    monkeypatch.setattr(speed, "_matmul_tflops", refusing)
    assert set(speed.measure(torch.device("cpu"))["tflops"]) == {"fp32", "fp16"}


@pytest.mark.slow
def test_the_command_prints_json_alone() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "lorakit.train.speed", "--device", "cpu"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert set(json.loads(told.stdout)) == {"tflops", "bandwidth_gb_s", "launch_us"}
