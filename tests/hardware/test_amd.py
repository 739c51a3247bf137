"""AMD cards as the kernel and AMD's tools tell them (B35)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.hardware import amd, amd_smi, nvml
from lorakit.hardware.detect import assemble
from lorakit.hardware.facts import Accelerator, Hardware, TorchBuild

IDS = """# List of AMDGPU IDs
1.0.0
73FF,	C7,	AMD Radeon RX 6600
744C,	C8,	AMD Radeon RX 7900 XTX
"""


class Machine:
    """The files of a machine, below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._count = 0
        self.put("usr/share/libdrm/amdgpu.ids", IDS)
        self.put("dev/kfd", "")
        self.put("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n")
        # The processor is a device of its own for ROCm.
        self.put(
            "sys/class/kfd/kfd/topology/nodes/0/properties",
            "cpu_cores_count 16\nsimd_count 0\ngfx_target_version 0\nlocation_id 0\n",
        )

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def card(
        self,
        bus: int,
        device: str,
        revision: str,
        vram: int,
        used: int,
        gtt: tuple[int, int] = (0, 0),
        vendor: str = "0x1002",
    ) -> None:
        """A card as the graphics driver tells it."""
        pci = f"sys/devices/pci0000:00/0000:{bus:02x}:00.0"
        for name, value in {
            "vendor": vendor,
            "device": device,
            "revision": revision,
            "mem_info_vram_total": str(vram),
            "mem_info_vram_used": str(used),
            "mem_info_gtt_total": str(gtt[0]),
            "mem_info_gtt_used": str(gtt[1]),
        }.items():
            self.put(f"{pci}/{name}", f"{value}\n")
        entry = self.root / f"sys/class/drm/card{self._count}"
        entry.mkdir(parents=True)
        (entry / "device").symlink_to(self.root / pci)
        self._count += 1

    def node(
        self, number: int, bus: int, target: int, simds: int, unique: int, bank: int = 0
    ) -> None:
        """The same for ROCm's driver."""
        folder = f"sys/class/kfd/kfd/topology/nodes/{number}"
        render = 127 + number
        self.put(
            f"{folder}/properties",
            f"cpu_cores_count 0\nsimd_count {simds}\nsimd_per_cu 2\ngfx_target_version {target}\n"
            f"vendor_id 4098\nlocation_id {bus << 8}\ndomain 0\ndrm_render_minor {render}\n"
            f"local_mem_size 0\nunique_id {unique}\n",
        )
        self.put(f"{folder}/gpu_id", f"{number * 1111}\n")
        self.put(f"{folder}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {bank}\n")
        self.put(f"dev/dri/renderD{render}", "")


@pytest.fixture
def desktop(tmp_path: Path) -> Machine:
    """A Ryzen with its small graphics unit, which ROCm counts behind an RX 6600."""
    made = Machine(tmp_path)
    made.card(0x0F, "0x164e", "0xc6", 536_870_912, 24_000_000, (16_377_958_400, 60_000_000))
    made.card(0x03, "0x73ff", "0xc7", 8_573_157_376, 268_435_456, (16_377_958_400, 0))
    made.node(1, 0x03, 100302, 56, 0xC1F7A9D20E3B5A64, 8_573_157_376)
    made.node(2, 0x0F, 100306, 4, 0, 16_377_958_400)
    return made


def test_a_desktop_with_a_card_and_a_graphics_unit(desktop: Machine) -> None:
    card, unit = amd.cards(desktop.root)  # as ROCm counts them; the screen's order is the other
    assert (card.name, card.architecture) == ("AMD Radeon RX 6600", "gfx1032")
    assert (card.uuid, card.pci) == ("GPU-c1f7a9d20e3b5a64", "0000:03:00.0")
    assert card.memory_total_gib == pytest.approx(7.98, abs=0.01)
    assert card.memory_free_gib == pytest.approx(7.73, abs=0.01)
    assert (card.integrated, card.unified, card.visible) == (False, False, True)
    assert (unit.architecture, unit.uuid, unit.integrated) == ("gfx1036", "", True)
    assert (unit.memory_total_gib, unit.unified, unit.trainable) == (0.5, False, False)
    build = TorchBuild(version="2.11.0+rocm7.0", hip="7.0.2")
    found = assemble(Hardware(torch=build), nvml.Answer(), (unit, card), {})
    assert found.device == "AMD Radeon RX 6600"
    assert found.findings == ()


def test_who_computes_on_a_card(desktop: Machine) -> None:
    desktop.put("sys/class/kfd/kfd/proc/999999999/vram_1111", "5905580032\n")
    desktop.put("sys/class/kfd/kfd/proc/999999999/vram_2222", "0\n")
    card, unit = amd.cards(desktop.root)
    (process,) = card.processes
    assert (process.pid, process.memory_gib) == (999_999_999, 5.5)
    assert unit.processes == ()


def test_a_large_graphics_unit_works_in_the_machine_s_memory(tmp_path: Path) -> None:
    halo = Machine(tmp_path)
    halo.card(0xC5, "0x1586", "0xc1", 536_870_912, 300_000_000, (66_000_000_000, 2_000_000_000))
    halo.node(1, 0xC5, 110501, 80, 0, 66_000_000_000)
    (unit,) = amd.cards(tmp_path)
    assert (unit.architecture, unit.integrated, unit.unified) == ("gfx1151", True, True)
    assert unit.memory_total_gib == pytest.approx(61.47, abs=0.01)
    assert unit.memory_free_gib == pytest.approx(59.60, abs=0.01)
    assert unit.trainable
    build = TorchBuild(version="2.11.0+rocm7.0", hip="7.0.2")
    assert assemble(Hardware(torch=build), nvml.Answer(), (unit,), {}).accelerator == unit


def test_a_card_that_this_user_may_not_open(desktop: Machine) -> None:
    (desktop.root / "dev/kfd").unlink()
    cards = amd.cards(desktop.root)
    assert [card.visible for card in cards] == [False, False]
    denied = amd.denied(desktop.root)
    assert denied == ("/dev/kfd",)
    build = TorchBuild(version="2.11.0+rocm7.0", hip="7.0.2")
    found = assemble(Hardware(torch=build), nvml.Answer(), cards, {}, denied)
    assert found.accelerator is None
    (finding,) = found.findings
    assert "/dev/kfd" in finding.what
    assert "usermod -aG render,video" in finding.fix
    assert "--device /dev/kfd" in finding.fix


def test_cards_of_others_and_what_rocm_does_not_know(desktop: Machine) -> None:
    desktop.card(0x01, "0x2684", "0xa1", 1 << 34, 0, vendor="0x10de")
    desktop.card(0x04, "0x6798", "0x00", 3_221_225_472, 0)
    *_, old = amd.cards(desktop.root)
    assert (old.name, old.visible) == ("AMD graphics card 6798", False)
    assert len(amd.cards(desktop.root)) == 3


def test_without_rocm_s_driver_the_cards_are_known(tmp_path: Path) -> None:
    plain = Machine(tmp_path)
    plain.card(0x03, "0x744c", "0xc8", 25_753_026_560, 562_364_416)
    (card,) = amd.cards(tmp_path)
    assert (card.name, card.visible, card.integrated) == ("AMD Radeon RX 7900 XTX", True, False)
    assert amd.cards(tmp_path / "nothing") == ()
    cpu_build = TorchBuild(version="2.11.0+cpu")
    found = assemble(Hardware(torch=cpu_build), nvml.Answer(), (card,), {})
    assert found.idle == card
    assert "has no ROCm" in found.findings[0].what


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (100302, "gfx1032"),
        (110000, "gfx1100"),
        (110501, "gfx1151"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (120001, "gfx1201"),
        (0, ""),
    ],
)
def test_names_of_targets(version: int, name: str) -> None:
    assert amd.target_name(version) == name


ROCM_SMI = """[WARN] a rail is off
WARNING: AMD GPU device(s) is/are in a low-power state.

{"card0": {"Card series": "Navi 31 [Radeon RX 7900 XTX]", "Card model": "0x0e3b",
"Unique ID": "0x43cc6de9b1f2d9a8", "PCI Bus": "0000:03:00.0", "GFX Version": "gfx1100",
"VRAM Total Memory (B)": "25753026560", "VRAM Total Used Memory (B)": "12876513280"},
"card1": {"Card Series": "Radeon RX 5700 XT", "VRAM Total Memory (B)": "8573157376",
"Unique ID": "N/A"}, "system": {"Driver version": "6.7.0"}}
"""
MI300X = {
    "gpu": 0,
    "asic": {
        "market_name": "AMD Instinct MI300X",
        "asic_serial": "0x6F1F0A2B3C4D5E6F",
        "target_graphics_version": "gfx942",
    },
    "bus": {"bdf": "0000:83:00.0"},
    "vram": {"type": "HBM3", "size": {"value": 196592, "unit": "MB"}},
}


def test_rocm_smi() -> None:
    large, small = amd_smi.parse(ROCM_SMI)
    assert (large.name, large.uuid) == ("Navi 31 [Radeon RX 7900 XTX]", "GPU-43cc6de9b1f2d9a8")
    assert (large.pci, large.architecture) == ("0000:03:00.0", "gfx1100")
    assert (large.memory_total_gib, large.memory_free_gib) == pytest.approx(
        (23.98, 11.99), abs=0.01
    )
    assert (small.uuid, small.pci, small.memory_free_gib) == ("", "", None)


@pytest.mark.parametrize("said", [[MI300X], {"gpu_data": [MI300X]}])
def test_amd_smi(said: object) -> None:
    (card,) = amd_smi.parse(json.dumps(said))
    assert (card.name, card.architecture) == ("AMD Instinct MI300X", "gfx942")
    assert (card.uuid, card.pci) == ("GPU-6f1f0a2b3c4d5e6f", "0000:83:00.0")
    assert card.memory_total_gib == pytest.approx(191.98, abs=0.01)


def test_the_library_of_the_tool_is_asked_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "amdsmi.py").write_text(
        "print('amdsmi says hello')\n"
        "def amdsmi_init(): pass\n"
        "def amdsmi_get_processor_handles(): return [0]\n"
        f"def amdsmi_get_gpu_asic_info(card): return {MI300X['asic']!r}\n"
        "def amdsmi_get_gpu_device_bdf(card): return '0000:83:00.0'\n"
        "def amdsmi_get_gpu_vram_usage(card): return {'vram_total': 196592, 'vram_used': 1024}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    (card,) = amd_smi.ask()
    assert (card.name, card.pci) == ("AMD Instinct MI300X", "0000:83:00.0")
    assert card.memory_total_gib == pytest.approx(191.98, abs=0.01)


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 20", "echo '[]'"])
def test_a_tool_that_fails_or_hangs_is_no_card(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("amd-smi", "rocm-smi"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(amd_smi, "SECONDS", 0.3)
    assert amd_smi.ask() == ()


def test_what_the_kernel_lacks_comes_from_the_tool_by_place() -> None:
    chip = Accelerator(kind="rocm", name="AMD graphics card 74a1", pci="0000:83:00.0")
    named = Accelerator(kind="rocm", name="My card", pci="0000:84:00.0", memory_total_gib=3.0)
    told = amd_smi.parse(json.dumps([MI300X]))
    first, second = amd_smi.completed([chip, named], told)
    assert (first.name, first.architecture) == ("AMD Instinct MI300X", "gfx942")
    assert second == named


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["gpu_data", "card0", "asic", "vram", "size", "market_name", "Card Series"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=5,
    )
)
def test_any_json_is_taken(said: object) -> None:
    assert isinstance(amd_smi.parse(json.dumps(said)), tuple)
    assert amd_smi.parse(f"x{said}") is not None
