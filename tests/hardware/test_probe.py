"""PyTorch is tried in a process that may crash or hang, and that is a sentence (B35, B36)."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_machines import A100_IN_PARTS, MACHINES, RTX_4090, FakeNvml, machine, torch

from lorakit.hardware import nvml
from lorakit.hardware import probe as probing
from lorakit.hardware.detect import assemble
from lorakit.hardware.facts import Accelerator, Hardware, Probe, Tried
from lorakit.hardware.files import load, save
from lorakit.hardware.merge import match, merged
from lorakit.hardware.probe import Heard, probe

FAKE = Path(__file__).with_name("fake_probe.py")


def tried(scene: str, monkeypatch: pytest.MonkeyPatch, seconds: float = 20) -> Probe:
    monkeypatch.setattr(probing, "COMMAND", (sys.executable, str(FAKE), scene))
    return probe(seconds)


def test_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tried("well", monkeypatch)
    unit, card = found.devices
    assert (unit.name, unit.integrated) == ("AMD Radeon Graphics", True)
    assert (card.precisions, card.attention) == (("fp32", "bf16"), "math")
    assert card.modules == {"xformers": "no kernel image"}
    assert (card.failure, found.failure) == ("", "")
    assert found.architectures == ("gfx1030", "gfx1100")


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        ("segfault", "it was killed by SIGSEGV while trying fp32"),
        pytest.param("hang", "it did not end within 4 s while trying fp32", marks=pytest.mark.slow),
        ("raise", "exit code 1 (RuntimeError: HIP error: the operation cannot be performed"),
    ],
)
def test_a_device_that_takes_the_process_along_does_not_hide_the_next(
    scene: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tried(scene, monkeypatch, seconds=4 if scene == "hang" else 20)
    unit, card = found.devices
    assert words in unit.failure
    assert (card.failure, card.precisions, found.failure) == ("", ("fp32", "bf16"), "")


def test_what_worked_before_a_crash_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    late = tried("late", monkeypatch)
    assert late.devices[1].precisions == ("fp32",)
    assert late.failure == "with AMD Radeon RX 6600 it was killed by SIGABRT while trying bf16"
    module = tried("module", monkeypatch)
    assert module.devices[1].modules == {"xformers": "it was killed by SIGSEGV"}
    assert (module.devices[1].failure, module.failure) == ("", "")


@pytest.mark.parametrize(
    ("scene", "words"),
    [("garbage", "without its last word"), ("import", "libcudart.so.12: cannot open")],
)
def test_a_process_that_says_nothing(
    scene: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tried(scene, monkeypatch)
    assert found.devices == ()
    assert words in found.failure
    whole = merged(MACHINES["rtx4090"], found, {})
    assert words in whole.findings[0].what
    assert whole.accelerators == MACHINES["rtx4090"].accelerators


def test_a_python_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "COMMAND", ("/nowhere/python",))
    assert "could not be started" in probe().failure


@pytest.mark.parametrize("odd", ["NaN", "-1", "Infinity", "0", '"fast"'])
def test_a_speed_that_cannot_be_is_none(odd: str) -> None:
    heard = Heard()
    told = f'{{"tflops": {{"fp32": {odd}}}, "bandwidth_gb_s": 9, "launch_us": 9}}'
    heard.read(f'{{"device": 0, "name": "x"}}\n{{"device": 0, "speed": {told}}}')
    assert heard.probe().devices[0].speed is None
    heard.read(f'{{"device": 0, "speed": {told.replace(odd, "1")}}}')
    assert heard.probe().devices[0].speed is not None


@given(st.text(alphabet='{}[]":,devictryng01 \n', max_size=60))
def test_any_output_is_taken(output: str) -> None:
    heard = Heard()
    heard.read(f'{{"device": 0, "name": "x"}}\n{output}\n{{"device": 0, "precision": "fp32"}}')
    heard.ended("it was killed")
    assert isinstance(heard.probe(), Probe)


@pytest.mark.slow
def test_this_machine_for_real() -> None:
    began = time.monotonic()
    found = probe()
    assert time.monotonic() - began < probing.SECONDS
    assert found.failure == ""
    (cpu,) = [d for d in found.devices if d.kind == "cpu"]
    assert {"fp32", "fp16", "bf16"} <= set(cpu.precisions)
    assert cpu.attention in cpu.kernels
    assert "math" in cpu.kernels
    assert cpu.failure == ""


# together with what the drivers say


def nvidia(**values: object) -> Tried:
    return Tried(kind="cuda", name="as PyTorch says", **values)  # type: ignore[arg-type]


def test_devices_are_matched_by_uuid_and_place_and_never_by_number() -> None:
    cards = MACHINES["two-cards"].accelerators
    fast = nvidia(uuid=cards[1].uuid, pci=cards[1].pci)  # number 0 of CUDA
    assert match(cards, fast) == 1
    assert match(cards, dataclasses.replace(fast, uuid="")) == 1
    assert match(cards, nvidia(uuid="GPU-other", pci="0000:09:00.0")) is None
    assert match(cards, nvidia()) is None


def test_a_part_of_a_card_is_matched_by_its_own_uuid() -> None:
    build = torch("2.11.0+cu128", "12.8")
    found = machine(FakeNvml(A100_IN_PARTS), "cpu", 8, (16, 8), build)
    second = found.accelerators[1]
    # PyTorch says GPU- before the UUID of a part too.
    assert match(found.accelerators, nvidia(uuid=second.uuid.replace("MIG-", "GPU-"))) == 1
    shown = machine(
        FakeNvml(A100_IN_PARTS), "cpu", 8, (16, 8), build, CUDA_VISIBLE_DEVICES=second.uuid
    )
    parent = nvidia(uuid=A100_IN_PARTS["UUID"], pci=second.pci)
    assert match(shown.accelerators, parent) == 1


def test_the_chip_of_a_mac_is_known_without_pytorch_and_is_one_with_what_pytorch_says() -> None:
    host = Hardware(
        system="Darwin 24.6.0 arm64", cpu_name="Apple M3 Max", ram_total_gib=48.0,
        ram_free_gib=31.0, torch=torch("2.13.0"),
    )  # fmt: skip
    found = assemble(host, nvml.Answer(), (), {})
    assert (found.device, found.findings) == ("Apple M3 Max", ())
    assert found.accelerator is not None
    assert (found.accelerator.unified, found.accelerator.memory_free_gib) == (True, 31.0)
    assert assemble(host, nvml.Answer(), (), {"LORAKIT_CPU": "1"}).accelerator is None
    intel = dataclasses.replace(host, system="Darwin 22.6.0 x86_64")
    assert assemble(intel, nvml.Answer(), (), {}).accelerators == ()
    chip = Tried(kind="mps", name="Apple M3 Max", memory_total_gib=36.0, precisions=("fp32",))
    tried = merged(found, Probe(devices=(chip,)), {})
    assert tried.accelerators == found.accelerators
    assert tried.tried == chip


def test_intel_cards_are_known_only_when_tried() -> None:
    build = dataclasses.replace(torch("2.13.0+xpu"), xpu="20250302")
    found = assemble(Hardware(torch=build), nvml.Answer(), (), {})
    (finding,) = found.findings
    assert finding.fix.startswith("lorakit hardware --probe --save intel.toml")
    card = Tried(kind="xpu", name="Intel(R) Arc(TM) B580", memory_total_gib=11.3)
    assert merged(found, Probe(devices=(card,)), {}).findings == ()


def test_what_only_pytorch_knows_is_added_and_trained_on() -> None:
    mac = Hardware(system="Darwin 24.1.0 arm64", torch=torch("2.11.0"))
    said = Probe(
        devices=(
            Tried(kind="mps", name="Apple M3 Max", memory_total_gib=48.0, memory_free_gib=47.5),
            Tried(kind="cpu", name="CPU"),
        )
    )
    found = merged(mac, said, {})
    (chip,) = found.accelerators
    assert (chip.kind, chip.unified, chip.memory_free_gib) == ("mps", True, 47.5)
    assert (found.device, found.findings) == ("Apple M3 Max", ())
    assert merged(mac, said, {"LORAKIT_CPU": "1"}).accelerator is None
    arc = Hardware(torch=dataclasses.replace(torch("2.11.0+xpu"), xpu="20250302"))
    said = Probe(devices=(Tried(kind="xpu", name="Intel(R) Arc(TM) B580", memory_total_gib=11.3),))
    assert merged(arc, said, {}).device == "Intel(R) Arc(TM) B580"


def test_amd_in_wsl_is_no_build_without_a_card() -> None:
    wsl = machine(None, "cpu", 8, (16, 8), torch("2.11.0+rocm7.0", hip="7.0.2"))
    assert "there is none" in wsl.findings[0].what
    card = Tried(kind="rocm", name="AMD Radeon RX 9070 XT", memory_total_gib=16.0)
    assert merged(wsl, Probe(devices=(card,)), {}).findings == ()


def test_what_the_driver_does_not_answer_is_filled_in() -> None:
    silent = Accelerator(kind="cuda", name="NVIDIA card", uuid="GPU-1")
    said = nvidia(
        uuid="GPU-1",
        pci="0000:01:00.0",
        architecture="sm_120",
        memory_total_gib=31.8,
        memory_free_gib=30.0,
    )
    (card,) = merged(Hardware(accelerators=(silent,)), Probe(devices=(said,)), {}).accelerators
    assert (card.pci, card.capability) == ("0000:01:00.0", (12, 0))
    assert (card.memory_total_gib, card.memory_free_gib) == (31.8, 30.0)
    own = MACHINES["rtx4090"]
    said = dataclasses.replace(said, uuid=RTX_4090["UUID"])
    assert merged(own, Probe(devices=(said,)), {}).accelerators == own.accelerators


def test_a_failed_first_operation_is_a_finding() -> None:
    said = nvidia(uuid=RTX_4090["UUID"], architecture="sm_89", failure="it was killed by SIGSEGV")
    (finding,) = merged(MACHINES["rtx4090"], Probe(devices=(said,)), {}).findings
    assert "failed its first operation: it was killed by SIGSEGV" in finding.what


def test_a_machine_file_keeps_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = merged(MACHINES["cpu-only"], tried("segfault", monkeypatch), {})
    save(whole, tmp_path / "m.toml")
    assert load(tmp_path / "m.toml").probe == whole.probe
