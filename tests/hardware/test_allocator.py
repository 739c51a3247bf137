"""PyTorch's allocator gets lorakit's setting only where there is no other, and it helps (B31)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_machines import MACHINES, RTX_4090, FakeNvml, machine, torch

from lorakit.hardware import findings
from lorakit.hardware.allocator import VARIABLES, WANTED, default, faults
from lorakit.hardware.environment import for_training

LINUX = "Linux 6.8.0-45-generic x86_64"


def test_it_is_set_only_where_it_is_unset_and_known() -> None:
    wanted = {"PYTORCH_ALLOC_CONF": WANTED}
    assert default({}, LINUX, "cuda") == wanted
    assert for_training(MACHINES["rtx4090"], {}) == wanted
    for name in VARIABLES:
        assert default({name: "max_split_size_mb:128"}, LINUX, "cuda") == {}
    assert default({}, LINUX, "rocm") == {}
    assert default({}, LINUX, "cpu") == {}
    assert default({}, f"{LINUX} (WSL)", "cuda") == {}
    assert default({}, "Darwin 24.1.0 arm64", "cpu") == {}


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("expandable_segments=True", "expandable_segments:True"),
        ("expandable_segments:true", "expandable_segments:True"),
        ("Expandable_Segments:1", "expandable_segments:True"),
        (
            "max_split_size_mb=128,expandable_segments=false",
            "max_split_size_mb:128,expandable_segments:False",
        ),
        ("max_split_size_mb:128MB", "max_split_size_mb:128"),
        ("expandable_segments", ""),
        ("garbage,max_split_size_mb:128", "max_split_size_mb:128"),
    ],
)
def test_a_value_that_pytorch_would_stumble_over_gets_its_right_spelling(
    value: str, right: str
) -> None:
    assert list(faults({"PYTORCH_CUDA_ALLOC_CONF": value})) == [("PYTORCH_CUDA_ALLOC_CONF", right)]
    assert list(faults({"PYTORCH_ALLOC_CONF": right})) == []


@pytest.mark.parametrize(
    "value",
    [
        "",
        "max_split_size_mb:128",
        " expandable_segments:True , garbage_collection_threshold:0.8",
        "backend:cudaMallocAsync",
        "roundup_power2_divisions:[256:1,512:2,>:8]",
        "something_new:yes",
        "expandable_segments:True,",
    ],
)
def test_what_pytorch_takes_is_left_alone(value: str) -> None:
    assert list(faults({"PYTORCH_ALLOC_CONF": value})) == []


@given(st.text(alphabet="abm_=:,[]1. Te\n", max_size=30))
def test_any_value_is_taken(value: str) -> None:
    for name, right in faults({"PYTORCH_ALLOC_CONF": value}):
        assert list(faults({name: right})) == []


def test_it_is_a_finding() -> None:
    setting = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments=True"}
    found = machine(
        FakeNvml(RTX_4090, cuda=12080), "cpu", 8, (16, 8), torch("2.11.0+cu128", "12.8"), **setting
    )
    (finding,) = found.findings
    assert "PYTORCH_CUDA_ALLOC_CONF=expandable_segments=True" in finding.what
    assert finding.fix == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    (finding,) = findings.of(found, {"PYTORCH_ALLOC_CONF": "garbage"})
    assert finding.fix == "unset PYTORCH_ALLOC_CONF"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "taken"),
    [
        (WANTED, True),
        ("expandable_segments=True", False),
        ("expandable_segments:true", False),
        ("garbage", False),
    ],
)
def test_pytorch_itself_says_the_same(value: str, taken: bool) -> None:
    code = f"import torch; torch._C._accelerator_setAllocatorSettings({value!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ)
    assert (done.returncode == 0) is taken
    assert (not list(faults({"PYTORCH_ALLOC_CONF": value}))) is taken
