"""What nvidia-smi prints becomes one card a line, and what is no value stays unknown (B39, B41)."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.hardware import nvidia_smi
from lorakit.hardware.facts import Hardware
from lorakit.hardware.nvidia_smi import FIELDS, parse

LAPTOP = (
    "GPU-8f0d1c5e-4a7b-9d2e-6c31-0b5a7e9f2d48, NVIDIA GeForce RTX 4060 Laptop GPU, "
    "00000000:01:00.0, 572.16, 8188, 6934, 8.9, Enabled, [N/A]"
)
GB10 = (
    "GPU-0c7a3b52-11aa-4d0e-b2d3-0d4a9b1f0c33, NVIDIA GB10, 0000000F:01:00.0, 580.95.05, "
    "[N/A], [N/A], 12.1, Disabled, [N/A]"
)
HEADER = "uuid, name, pci.bus_id, driver_version, memory.total [MiB], memory.free [MiB], ..."


def line(number: int, **values: str) -> str:
    said = dict(
        zip(
            FIELDS,
            (
                f"GPU-{number:08x}-0000-0000-0000-000000000000",
                "NVIDIA A100-SXM4-40GB",
                f"00000000:{number:02X}:00.0",
                "550.54.15",
                "40960",
                "40327",
                "8.0",
                "Disabled",
                "400.00",
            ),
            strict=True,
        )
    )
    return ", ".join({**said, **{k.replace("_", "."): v for k, v in values.items()}}.values())


def test_a_laptop_in_wsl() -> None:
    answer = parse(LAPTOP + "\n")
    (card,) = answer.accelerators
    assert (card.name, card.architecture) == ("NVIDIA GeForce RTX 4060 Laptop GPU", "sm_89")
    assert (card.uuid[:12], card.pci) == ("GPU-8f0d1c5e", "0000:01:00.0")
    assert card.memory_total_gib == pytest.approx(7.996, abs=0.001)
    assert card.memory_free_gib == pytest.approx(6.771, abs=0.001)
    assert (card.display, card.power_limit_w, card.unified) == (True, None, False)
    assert answer.driver == "572.16"


def test_a_board_without_memory_of_its_own() -> None:
    (card,) = parse(GB10).accelerators
    assert card.unified
    assert card.memory_total_gib is card.memory_free_gib is card.power_limit_w is None
    assert card.capability == (12, 1)


@pytest.mark.parametrize(
    "odd",
    [
        "[N/A]",
        "[Not Supported]",
        "[Unknown Error]",
        "[Insufficient Permissions]",
        "ERR!",
        "",
        "1 234",
        "16380 5",
    ],
)
def test_what_is_no_number_is_unknown_and_drops_nothing_else(odd: str) -> None:
    (card,) = parse(line(1, memory_total=odd, power_limit=odd)).accelerators
    assert card.memory_total_gib is card.memory_free_gib is card.power_limit_w is None
    assert (card.name, card.capability) == ("NVIDIA A100-SXM4-40GB", (8, 0))
    assert card.unified is (odd in ("[N/A]", "[Not Supported]"))
    (card,) = parse(line(1, memory_free=odd)).accelerators
    assert (card.memory_total_gib, card.memory_free_gib) == (40, None)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_eight_cards_are_eight_cards_and_a_lost_one_is_missed(end: str) -> None:
    lines = [HEADER, *(line(n) for n in range(1, 9)), ""]
    found = parse(end.join(lines)).accelerators
    assert len({card.uuid for card in found}) == 8
    assert all(card.memory_free_gib == pytest.approx(39.38, abs=0.01) for card in found)
    del lines[3]
    left = parse(end.join(lines)).accelerators
    assert {c.uuid for c in found} - {c.uuid for c in left} == {found[2].uuid}


def test_values_with_units_are_read_too() -> None:
    (card,) = parse(line(1, memory_total="16384 MiB", power_limit="70.00 W")).accelerators
    assert (card.memory_total_gib, card.power_limit_w) == (16, 70)


def test_the_newer_card_stands_for_the_faster_one() -> None:
    answer = parse("\n".join([line(1, compute_cap="7.5"), line(2)]))
    assert answer.fastest_first == tuple(c.uuid for c in reversed(answer.accelerators))


@given(st.text(alphabet="GPU-0123,. []N/AERR!\r\n\x00é", max_size=200))
def test_any_text_is_taken(text: str) -> None:
    for card in parse(f"{LAPTOP}\n{text}\n{LAPTOP}").accelerators:
        assert card.uuid.startswith("GPU-")


def tool(folder: Path, script: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)


@pytest.mark.parametrize("script", ["exit 9", "echo 'NVIDIA-SMI has failed'", "exec sleep 20"])
def test_a_tool_that_fails_or_hangs_is_no_card(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(nvidia_smi, "SECONDS", 0.3)
    assert nvidia_smi.ask().accelerators == ()


def test_where_the_library_is_missing_the_tool_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lorakit.hardware import detect, nvml

    tool(tmp_path, f"echo '{LAPTOP}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(nvml, "module", lambda: None)
    found: Hardware = detect.detect()
    assert [a.name for a in found.accelerators] == ["NVIDIA GeForce RTX 4060 Laptop GPU"]
    assert found.driver == "572.16"
