"""The doctor's lines about machines as their tools print them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lorakit.bundle.problems import Problem
from lorakit.doctor.checks import Check, exit_code
from lorakit.doctor.machine import checks
from lorakit.errors import ExitCode
from lorakit.hardware.facts import Hardware, Probe, TorchBuild, Tried
from lorakit.hardware.files import load

FOLDER = Path(__file__).parents[1] / "data" / "hardware"
ALL = sorted(path.stem for path in FOLDER.glob("*.toml"))


def machine(name: str) -> Hardware:
    return load(FOLDER / f"{name}.toml")


def lines(name: str, **environ: str) -> dict[str, Check]:
    found = checks(machine(name), environ)
    named = {check.name: check for check in found}
    assert len(named) == len(found), "one line for each thing"
    return named


def test_a_machine_with_nothing_to_say() -> None:
    found = lines("rtx4090")
    assert {c.verdict for c in found.values()} == {"good"}
    assert found["pytorch"].what == "2.11.0+cu128, built for CUDA 12.8"
    assert found["card"].what == "NVIDIA GeForce RTX 4090 (sm_89)"
    assert found["memory"].what == "22.9 of 24.0 GiB free"
    assert found["precision"].what == "fp32, fp16, bf16, fp8"


@pytest.mark.parametrize(
    ("name", "line", "verdict", "what", "cure"),
    [
        ("driver-updated", "driver", "doubtful", "driver was updated", "Reboot."),
        (
            "rtx4090-cpu-torch",
            "pytorch",
            "doubtful",
            "PyTorch 2.11.0+cpu has no CUDA",
            "pip install --force-reinstall torch --index-url "
            "https://download.pytorch.org/whl/cu128",
        ),
        (
            "rx6600",
            "kernels",
            "bad",
            "no kernels for gfx1032 (AMD Radeon RX 6600); it has gfx900, gfx906, gfx908, gfx90a, "
            "gfx942, gfx1030, gfx1100",
            "HSA_OVERRIDE_GFX_VERSION=10.3.0",
        ),
        (
            "gtx1080ti",
            "kernels",
            "bad",
            "no kernels for sm_61 (NVIDIA GeForce GTX 1080 Ti); it has sm_75",
            "pip install --force-reinstall torch --index-url "
            "https://download.pytorch.org/whl/cu126",
        ),
        ("rtx4090-shared", "memory", "doubtful", "taken by python3 (process 48211", "End what"),
        ("t4-container", "precision", "good", "fp32, fp16; no bf16", ""),
        ("t4-container", "attention", "good", "efficient", ""),
        ("wsl-rtx3070", "driver", "good", "581.57, knows CUDA up to 13.0", ""),
        ("rtx3080", "compile", "doubtful", "Cannot find a working triton", "Do without it"),
        ("igpu-first", "card", "good", "RX 9070 XT (gfx1201), chosen from 2", ""),
        ("strix-halo", "memory", "good", "shared with the system", ""),
        ("m3max", "pytorch", "good", "built for Apple's chips", ""),
        ("cpu-only", "card", "doubtful", "training runs on the CPU, 2 threads", "pico"),
        ("two-unequal", "card", "good", "RTX 4090 (sm_89), chosen from 2", ""),
    ],
)
def test_what_is_said_of_a_machine(
    name: str, line: str, verdict: str, what: str, cure: str
) -> None:
    found = lines(name)[line]
    assert found.verdict == verdict
    assert what in found.what
    assert cure in found.cure


@pytest.mark.parametrize("name", ALL)
def test_every_machine_has_its_lines(name: str) -> None:
    found = checks(machine(name), {})
    stuck = name in ("rx6600", "gtx1080ti")
    assert exit_code(found) == (3 if stuck else 0)
    assert {"pytorch", "card", "ram"} <= {check.name for check in found}
    assert all("  " not in c.what + c.cure and c.what for c in found)
    assert all(c.cure == "" for c in found if c.verdict == "good")


@pytest.mark.parametrize(
    ("value", "verdict", "words"),
    [
        ("11.0.0", "doubtful", "another generation than gfx1032"),
        ("abc", "doubtful", "is no version"),
        ("10.3.0", "good", "chooses the kernels for gfx1032"),
    ],
)
def test_an_override_that_is_set(value: str, verdict: str, words: str) -> None:
    found = lines("rx6600", HSA_OVERRIDE_GFX_VERSION=value)
    assert found["override"].verdict == verdict
    assert words in found["override"].what
    assert found["kernels"].verdict == "bad"  # the card still failed when it was tried


@pytest.mark.parametrize(
    ("environ", "by"),
    [
        ({"CUDA_VISIBLE_DEVICES": ""}, "is hidden by CUDA_VISIBLE_DEVICES="),
        ({"LORAKIT_CPU": "1", "CUDA_VISIBLE_DEVICES": "0"}, "is hidden by LORAKIT_CPU=1"),
        ({}, "is hidden:"),
    ],
)
def test_a_hidden_card_is_told_with_what_hides_it(environ: dict[str, str], by: str) -> None:
    found = machine("rtx4090")
    cards = tuple(replace(card, visible=False) for card in found.accelerators)
    told = checks(replace(found, accelerators=cards), environ)
    (line,) = [c for c in told if c.name == "card"]
    assert by in line.what
    assert "training runs on the CPU" in line.what


def test_a_card_that_works_is_named_where_the_larger_one_does_not() -> None:
    found = machine("two-unequal")
    assert found.probe is not None
    large, small = found.probe.devices
    broken = replace(large, failure="CUDA error: unspecified launch failure", precisions=())
    probe = replace(found.probe, devices=(broken, small))
    told = checks(replace(found, probe=probe), {})
    (line,) = [c for c in told if c.name == "instead"]
    assert (line.what, line.cure) == (
        "NVIDIA GeForce RTX 3060 works.",
        f"export CUDA_VISIBLE_DEVICES={small.uuid}",
    )
    assert exit_code(told) == 3


def test_a_card_too_old_for_the_build_is_bad_without_a_trial() -> None:
    old = replace(machine("gtx1080ti"), probe=None, findings=())
    (line,) = [c for c in checks(old, {}) if c.name == "kernels"]
    assert (line.verdict, line.cure[-5:]) == ("bad", "cu126")


def test_a_card_that_computed_is_told_of_no_missing_kernels() -> None:
    found = machine("rx6600")  # saved where the override was set, and looked at elsewhere
    assert found.probe is not None
    works = replace(found.probe.devices[0], failure="", precisions=("fp32", "fp16"))
    told = checks(replace(found, probe=replace(found.probe, devices=(works,))), {})
    assert exit_code(told) == 0
    assert not any("no kernels" in c.what for c in told)
    assert any(c.what == "PyTorch runs on gfx1032" for c in told)


def test_without_pytorch_nothing_can_be_trained() -> None:
    found = checks(replace(machine("rtx4090"), torch=None, probe=None), {})
    assert exit_code(found) == 3
    assert [c.cure for c in found if c.verdict == "bad"] == [
        "pip install torch --index-url https://download.pytorch.org/whl/cu128"
    ]
    found = checks(replace(machine("cpu-only"), torch=None, probe=None), {})
    assert [c.cure for c in found if c.verdict == "bad"] == ["pip install torch"]


def test_pytorch_that_does_not_start_is_one_bad_line() -> None:
    crashed = Probe(failure="it was killed by SIGSEGV")
    found = checks(replace(machine("cpu-only"), probe=crashed), {})
    (line,) = [c for c in found if c.verdict == "bad"]
    assert "killed by SIGSEGV" in line.what
    assert exit_code(found) == 3


def test_a_crash_that_leaves_a_device_is_a_doubt() -> None:
    cpu = Tried(kind="cpu", name="CPU", precisions=("fp32",))
    crashed = Probe(devices=(cpu,), failure="it was killed by SIGSEGV")
    found = checks(replace(machine("cpu-only"), probe=crashed), {})
    assert exit_code(found) == 0
    assert any("SIGSEGV" in c.what and c.verdict == "doubtful" for c in found)


def test_what_was_not_tried_is_said() -> None:
    found = checks(replace(machine("rtx4090"), probe=None), {})
    assert [c.name for c in found if c.verdict == "doubtful"] == ["tried"]


def test_a_build_newer_than_the_driver() -> None:
    new = TorchBuild(version="2.13.0+cu130", cuda="13.0")
    found = checks(replace(machine("t4"), torch=new), {})
    (line,) = [c for c in found if c.name == "driver"]
    assert "knows CUDA up to 12.4" in line.what
    assert line.cure.startswith("Update the driver")


def test_a_card_that_pytorch_does_not_see_is_not_trained_on() -> None:
    found = machine("t4")
    cpu = Tried(kind="cpu", name="CPU", precisions=("fp32",))
    unseen = replace(found, probe=Probe(devices=(cpu,), architectures=("sm_75",)))
    assert unseen.accelerator is None
    assert unseen.idle is not None
    told = {c.name: c for c in checks(unseen, {})}
    assert "Tesla T4 is here, and PyTorch 2.11.0+cu126 does not see it" in told["pytorch"].what
    assert "torch.cuda.init()" in told["pytorch"].cure
    assert "training runs on the CPU" in told["card"].what
    # A probe that broke off before it came to the card says nothing against it.
    broken = replace(unseen, probe=Probe(devices=(cpu,), failure="it was killed by SIGSEGV"))
    assert broken.accelerator is not None


def test_attention_without_a_fused_kernel_is_a_doubt() -> None:
    found = machine("rx7900xtx")
    assert found.probe is not None
    slow = replace(found.probe.devices[0], attention="math")
    probe = replace(found.probe, devices=(slow,))
    (line,) = [c for c in checks(replace(found, probe=probe), {}) if c.name == "attention"]
    assert line.verdict == "doubtful"


def test_a_small_wsl_is_told_how_to_grow() -> None:
    small = replace(machine("wsl-rtx3070"), ram_free_gib=3.2)
    (line,) = [c for c in checks(small, {}) if c.name == "ram"]
    assert ".wslconfig" in line.cure


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        ((), 0),
        ((ExitCode.USAGE,), 2),
        ((ExitCode.DATA, ExitCode.USAGE), 5),
        ((ExitCode.USAGE, ExitCode.OUT_OF_MEMORY), 3),
        ((ExitCode.USAGE, ExitCode.NO_HARDWARE), 3),
    ],
)
def test_what_fails_on_this_machine_says_so_by_its_code(
    codes: tuple[ExitCode, ...], wanted: int
) -> None:
    problems = [Problem(where="", what="x", fix="", code=code) for code in codes]
    assert exit_code([], problems) == wanted
