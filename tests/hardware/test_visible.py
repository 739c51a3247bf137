"""Which card trains: by UUID, never by number, whatever the environment says (B33, B34, B35)."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_machines import (
    A100_IN_PARTS,
    GTX_745,
    GTX_1080_TI,
    MACHINES,
    RTX_4090,
    FakeNvml,
    machine,
    torch,
)

from lorakit.hardware import nvml
from lorakit.hardware.detect import assemble
from lorakit.hardware.environment import for_training
from lorakit.hardware.facts import Accelerator, Hardware
from lorakit.hardware.visible import hip_visible, visible

UUIDS = ["GPU-52a3a85d-3c55", "GPU-52bb0000-0000"]


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        (None, [0, 1]),
        ("", []),
        ("-1", []),
        ("0", [0]),
        ("0,,1", [0]),
        (" 1 , 0 ", [1, 0]),
        ("1,-1,0", [1]),
        ("7", []),
        ("0,7,1", [0]),
        ("0,0", []),
        ("GPU-52a3a85d-3c55", [0]),
        ("gpu-52A3", [0]),
        ("GPU-52bb,GPU-52a3", [1, 0]),
        ("GPU-52", []),
        ("GPU-99", []),
        ("none", []),
        ("1.5", []),
    ],
)
def test_visible(setting: str | None, wanted: list[int]) -> None:
    assert visible(UUIDS, setting) == wanted


@given(st.text(alphabet="0123-,+ GPUa.", max_size=20))
def test_visible_takes_any_text(setting: str) -> None:
    found = visible(UUIDS, setting)
    assert len(found) == len(set(found)) <= 2


CUDA = torch("2.11.0+cu126", "12.6")


def cards(*found: object, **environ: str) -> Hardware:
    return machine(FakeNvml(*found), "cpu", 8, (16, 8), CUDA, **environ)  # type: ignore[arg-type]


def shown(hardware: Hardware) -> list[str]:
    return [a.name for a in hardware.accelerators if a.visible]


def test_numbers_count_cards_as_cuda_does() -> None:
    found = MACHINES["two-cards"]  # the bus has the GTX 745 first, and CUDA_VISIBLE_DEVICES is 0
    assert [a.visible for a in found.accelerators] == [False, True]
    assert found.accelerator is not None
    assert found.accelerator.name == found.device == "NVIDIA GeForce GTX 1080 Ti"
    words = [f.what for f in found.findings]
    assert any(
        "6.0 of 11.0 GiB" in w and "by python (process 2113, 5.5 GiB), Xorg (process 977);" in w
        for w in words
    )
    assert any("fastest first" in w and "to mean NVIDIA GeForce GTX 1080 Ti" in w for w in words)

    by_bus = cards(GTX_745, GTX_1080_TI, CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert shown(by_bus) == ["NVIDIA GeForce GTX 745"]
    assert not any("fastest first" in f.what for f in by_bus.findings)
    assert shown(cards(GTX_745, GTX_1080_TI, CUDA_VISIBLE_DEVICES="1")) == shown(by_bus)


def test_a_uuid_in_the_environment_is_the_card() -> None:
    for setting in (RTX_4090["UUID"], f" {RTX_4090['UUID'][:12]} "):
        found = cards(GTX_1080_TI, RTX_4090, CUDA_VISIBLE_DEVICES=setting)
        assert shown(found) == [found.device] == ["NVIDIA GeForce RTX 4090"]


def test_of_several_cards_the_child_is_given_one_by_uuid() -> None:
    found = cards(GTX_745, GTX_1080_TI, RTX_4090)
    assert for_training(found, {})["CUDA_VISIBLE_DEVICES"] == RTX_4090["UUID"]
    chosen = {"CUDA_VISIBLE_DEVICES": f"0,{GTX_745['UUID']}"}  # 0 is the fastest
    several = cards(GTX_745, GTX_1080_TI, RTX_4090, **chosen)
    assert shown(several) == ["NVIDIA GeForce GTX 745", "NVIDIA GeForce RTX 4090"]
    assert for_training(several, chosen)["CUDA_VISIBLE_DEVICES"] == RTX_4090["UUID"]


def test_a_choice_of_one_card_stays() -> None:
    chosen = {"CUDA_VISIBLE_DEVICES": "1"}
    assert "CUDA_VISIBLE_DEVICES" not in for_training(cards(GTX_745, RTX_4090, **chosen), chosen)
    assert "CUDA_VISIBLE_DEVICES" not in for_training(cards(RTX_4090), {})


@pytest.mark.parametrize("setting", ["7", "GPU-ffffffff", "1,1"])
def test_a_choice_that_hides_every_card_by_a_slip_is_said(setting: str) -> None:
    found = cards(GTX_1080_TI, RTX_4090, CUDA_VISIBLE_DEVICES=setting)
    assert found.accelerator is None
    slips = [f for f in found.findings if f"{setting} leaves no card in sight" in f.what]
    assert [s.severity for s in slips] == ["warning"]
    assert GTX_1080_TI["UUID"] in slips[0].fix
    assert not any("fastest first" in f.what for f in found.findings)


@pytest.mark.parametrize("setting", ["", "-1", "none", "NoDevFiles", "1,-1"])
def test_a_choice_of_the_cpu_is_no_slip(setting: str) -> None:
    found = cards(GTX_1080_TI, RTX_4090, CUDA_VISIBLE_DEVICES=setting)
    assert not any("in sight" in f.what for f in found.findings)


def test_parts_of_a_card_stand_for_it() -> None:
    found = cards(A100_IN_PARTS)
    full, free = found.accelerators
    assert full.name == free.name == "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
    assert (free.capability, free.architecture) == ((8, 0), "sm_80")
    assert free.memory_total_gib == pytest.approx(9.5, abs=0.01)
    assert found.accelerator == free
    assert for_training(found, {})["CUDA_VISIBLE_DEVICES"] == free.uuid
    assert free.uuid.startswith("MIG-")
    one = {"CUDA_VISIBLE_DEVICES": full.uuid}
    assert cards(A100_IN_PARTS, **one).accelerator == full


def test_a_card_in_mig_mode_without_devices_is_said_with_the_cure() -> None:
    answer = nvml.ask(FakeNvml({**A100_IN_PARTS, "parts": []}))
    assert answer.accelerators == ()
    assert "has no MIG device" in answer.findings[0].what
    assert "-mig 0" in answer.findings[0].fix


AMD = Hardware(system="Linux 6.8.0 x86_64", torch=torch("2.11.0+rocm7.0", hip="7.0.2"))
INSIDE = Accelerator(
    kind="rocm",
    name="AMD Radeon Graphics",
    pci="0000:0f:00.0",
    architecture="gfx1036",
    memory_total_gib=0.5,
    memory_free_gib=0.45,
    integrated=True,
)
RX_6600 = Accelerator(
    kind="rocm",
    name="AMD Radeon RX 6600",
    uuid="GPU-c1f7a9d20e3b5a64",
    pci="0000:03:00.0",
    architecture="gfx1032",
    memory_total_gib=8.0,
    memory_free_gib=7.9,
)
RX_7900 = dataclasses.replace(
    RX_6600, name="AMD Radeon RX 7900 XTX", uuid="GPU-9e8f3a0b5c7d1e2f", memory_free_gib=23.9
)


def amd(*found: Accelerator, **environ: str) -> Hardware:
    return assemble(AMD, nvml.Answer(), found, environ)


def test_the_unit_of_the_processor_comes_first_and_is_not_trained_on() -> None:
    found = amd(INSIDE, RX_6600)
    assert found.device == "AMD Radeon RX 6600"
    assert for_training(found, {}) == {"ROCR_VISIBLE_DEVICES": RX_6600.uuid}
    counting = {"HIP_VISIBLE_DEVICES": "0,1"}
    assert for_training(amd(INSIDE, RX_6600, **counting), counting) == {
        "ROCR_VISIBLE_DEVICES": RX_6600.uuid,
        "HIP_VISIBLE_DEVICES": "0",
    }
    # A large share of the processor's memory makes no card of it.
    lent = dataclasses.replace(INSIDE, memory_total_gib=16.0, memory_free_gib=15.0, unified=True)
    assert amd(lent, RX_6600).device == "AMD Radeon RX 6600"


def test_a_card_without_uuid_is_named_by_what_hip_counts() -> None:
    nameless = dataclasses.replace(RX_6600, uuid="")
    found = amd(INSIDE, nameless)
    assert for_training(found, {}) == {"HIP_VISIBLE_DEVICES": "1"}
    behind = {"ROCR_VISIBLE_DEVICES": "1,0"}
    assert for_training(amd(INSIDE, nameless, **behind), behind) == {"HIP_VISIBLE_DEVICES": "0"}


def test_a_card_that_may_not_be_opened_is_not_counted() -> None:
    shut = dataclasses.replace(RX_6600, visible=False)
    found = amd(shut, RX_7900, HIP_VISIBLE_DEVICES="0")
    assert shown(found) == ["AMD Radeon RX 7900 XTX"]


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, [0, 1, 2]),
        ({"HIP_VISIBLE_DEVICES": "1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "2"}, [2]),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "2"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"ROCR_VISIBLE_DEVICES": "2,0", "HIP_VISIBLE_DEVICES": "1"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-bb", "HIP_VISIBLE_DEVICES": "0"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-bb", "HIP_VISIBLE_DEVICES": "1"}, []),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
    ],
)
def test_hip_counts_what_rocm_has_left(environ: dict[str, str], wanted: list[int]) -> None:
    assert hip_visible(["GPU-aa", "GPU-bb", ""], environ) == wanted


def test_the_cpu_on_purpose_hides_every_card() -> None:
    on_cpu = {"LORAKIT_CPU": "1"}
    found = cards(RTX_4090, **on_cpu)
    assert (found.accelerator, found.idle) == (None, None)
    assert for_training(found, on_cpu)["CUDA_VISIBLE_DEVICES"] == ""
    assert cards(RTX_4090, LORAKIT_CPU="0").accelerator is not None
