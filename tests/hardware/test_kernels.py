"""Does this build of PyTorch run on the card, and what to try where it does not (B36)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from recorded_machines import GTX_1080_TI, RTX_4090, FakeNvml, machine, torch

from lorakit.bundle.problems import Problem
from lorakit.hardware import findings, nvml
from lorakit.hardware.detect import assemble
from lorakit.hardware.facts import Accelerator, Hardware, Probe, Tried
from lorakit.hardware.files import load
from lorakit.hardware.kernels import fault, left_behind, override, served
from lorakit.hardware.merge import merged

MACHINES = Path(__file__).parents[1] / "data" / "hardware"

ROCM = ("gfx900", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1200")
CU130 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")
CU126 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")


@pytest.mark.parametrize(
    ("architecture", "known", "wanted"),
    [
        ("gfx1030", ROCM, True),
        ("gfx1032", ROCM, False),
        ("gfx90a", ("gfx90a:sramecc+:xnack-",), True),
        ("gfx1151", ("gfx11-generic",), True),
        ("gfx1032", ("gfx10-3-generic",), True),
        ("gfx1012", ("gfx10-3-generic",), False),
        ("sm_89", CU130, True),  # kernels of 8.0 and 8.6 run on it
        ("sm_61", CU130, False),
        ("sm_61", CU126, True),
        ("sm_120", CU126, False),
        ("sm_121", CU130, True),
        ("sm_130", CU130, True),  # compiled when it is needed
        ("sm_91", ("sm_90a",), False),
        ("sm_90", ("sm_90a",), True),
        ("", ROCM, True),
        ("gfx1032", (), True),
    ],
)
def test_served(architecture: str, known: tuple[str, ...], wanted: bool) -> None:
    assert served(architecture, known) is wanted


@pytest.mark.parametrize(
    ("architecture", "version"),
    [("gfx1032", "10.3.0"), ("gfx1103", "11.0.0"), ("gfx90c", "9.0.0"), ("gfx1151", "")],
)
def test_the_override_is_of_the_same_generation(architecture: str, version: str) -> None:
    assert override(architecture, ROCM) == version


@pytest.mark.parametrize(
    ("value", "words"),
    [("10.3.0", ""), ("11.0.0", "another generation than gfx1032"), ("abc", "is no version")],
)
def test_what_is_wrong_with_an_override(value: str, words: str) -> None:
    said = fault(value, ["gfx1032"])
    assert words in said
    assert bool(words) == bool(said)


RX_6600 = Accelerator(
    kind="rocm",
    name="AMD Radeon RX 6600",
    uuid="GPU-c1f7a9d20e3b5a64",
    architecture="gfx1032",
    memory_total_gib=8.0,
    memory_free_gib=7.9,
)
AMD = Hardware(torch=torch("2.11.0+rocm7.0", hip="7.0.2"))
FAILED = Probe(
    architectures=ROCM,
    devices=(
        Tried(
            kind="rocm",
            name=RX_6600.name,
            uuid=RX_6600.uuid,
            architecture="gfx1032",
            failure="HIP error: invalid device function",
        ),
    ),
)


def amd_findings(**environ: str) -> tuple[Problem, ...]:
    found = assemble(AMD, nvml.Answer(), (RX_6600,), environ)
    return merged(found, FAILED, environ).findings


@pytest.mark.parametrize(
    ("cuda", "capability", "wanted"),
    [
        ("12.8", (6, 1), True),
        ("13.0", (5, 2), True),
        ("12.6", (6, 1), False),
        ("12.8", (7, 0), False),
        ("12.8", (8, 9), False),
        (None, (6, 1), False),
        ("12.8", None, False),
    ],
)
def test_builds_leave_old_cards_behind(
    cuda: str | None, capability: tuple[int, int] | None, wanted: bool
) -> None:
    assert left_behind(cuda, capability) is wanted


def test_a_card_too_old_for_the_build_is_passed_over_or_said_before_it_is_tried() -> None:
    old = dataclasses.replace(load(MACHINES / "gtx1080ti.toml"), probe=None, findings=())
    (finding,) = findings.of(old, {})
    assert "GTX 1080 Ti (sm_61) is too old for PyTorch's builds for CUDA 12.8" in finding.what
    assert finding.fix.endswith("/whl/cu126")
    newer = Accelerator(
        kind="cuda", name="RTX 3060 Ti", uuid="GPU-1", capability=(8, 6), memory_free_gib=8.0
    )
    both = dataclasses.replace(old, accelerators=(*old.accelerators, newer))
    assert both.device == "RTX 3060 Ti"
    assert findings.of(both, {}) == ()


def test_a_card_without_kernels_is_named_with_what_there_is_and_what_to_try() -> None:
    (finding,) = amd_findings()
    assert "no kernels for gfx1032 (AMD Radeon RX 6600)" in finding.what
    assert "gfx1030, gfx1100" in finding.what
    assert "export HSA_OVERRIDE_GFX_VERSION=10.3.0" in finding.fix


def test_an_override_that_looks_wrong_is_said() -> None:
    for value in ("11.0.0", "abc"):
        wrong, _ = amd_findings(HSA_OVERRIDE_GFX_VERSION=value)
        assert f"HSA_OVERRIDE_GFX_VERSION={value}" in wrong.what
        assert "try HSA_OVERRIDE_GFX_VERSION=10.3.0" in wrong.fix
    assert amd_findings(HSA_OVERRIDE_GFX_VERSION="10.3.0") == ()


def test_an_nvidia_card_that_the_build_left_behind_gets_another_build() -> None:
    fake = FakeNvml({**GTX_1080_TI, "MemoryInfo": RTX_4090["MemoryInfo"]}, cuda=13000)
    old = machine(fake, "cpu", 8, (16, 8), torch("2.13.0+cu130", "13.0"))
    (finding,) = merged(old, Probe(architectures=CU130), {}).findings
    assert "no kernels for sm_61" in finding.what
    assert finding.fix.endswith("/whl/cu126")
    new = machine(FakeNvml(RTX_4090, cuda=13000), "cpu", 8, (16, 8), old.torch)
    assert merged(new, Probe(architectures=CU130), {}).findings == ()
