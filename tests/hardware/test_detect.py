"""The machine is found out without an exception, whatever its drivers answer."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest
from recorded_machines import (
    GB10,
    GTX_745,
    GTX_1080_TI,
    MACHINES,
    RTX_4090,
    T4,
    UNSUPPORTED,
    FakeNvml,
    machine,
    torch,
)

from lorakit.hardware import machine as host
from lorakit.hardware import nvml
from lorakit.hardware.detect import detect
from lorakit.hardware.facts import Hardware, TorchBuild
from lorakit.hardware.torch_build import build


def only(hardware: Hardware) -> str:
    (finding,) = hardware.findings
    assert finding.severity == "warning"
    return f"{finding.what} {finding.fix}"


def test_this_machine_answers_without_importing_torch() -> None:
    code = "import sys; from lorakit.hardware.detect import detect; h = detect(); " + (
        "print(h.cpu_threads, h.ram_total_gib > 0, h.torch is not None, 'torch' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stderr == ""
    threads, ram, has_torch, imported = answer.stdout.split()
    assert int(threads) >= 1
    assert (ram, has_torch, imported) == ("True", "True", "False")


def test_torch_build_is_the_installed_one() -> None:
    import torch

    found = detect().torch
    assert found is not None
    assert found.version == torch.__version__
    assert (found.cuda, found.hip) == (torch.version.cuda, torch.version.hip)


def test_a_card_s_facts() -> None:
    (card,) = MACHINES["rtx4090"].accelerators
    assert card.name == "NVIDIA GeForce RTX 4090"
    assert card.uuid == "GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc"
    assert card.memory_total_gib == pytest.approx(23.99, abs=0.01)
    assert card.memory_free_gib == pytest.approx(22.9, abs=0.01)
    assert card.capability == (8, 9)
    assert card.native_bf16 is True
    assert card.power_limit_w == 450
    assert MACHINES["rtx4090"].driver_cuda == "12.8"
    assert MACHINES["rtx4090"].findings == ()
    assert MACHINES["t4"].accelerators[0].native_bf16 is False


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "driver was updated .* Reboot"),
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no driver is installed"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "driver is not loaded"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "may not ask"),
        (pynvml.NVML_ERROR_UNKNOWN, "nvidia-smi"),
    ],
)
def test_a_driver_that_fails_is_one_sentence(code: int, words: str) -> None:
    import re

    found = machine(FakeNvml(init=code), "cpu", 4, (16, 8), torch("2.11.0+cu128", "12.8"))
    assert re.search(words, only(found))
    assert found.accelerator is None


def test_without_a_card_a_missing_driver_is_no_finding() -> None:
    fake = FakeNvml(init=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    answer = nvml.ask(fake, host.NvidiaSigns())
    assert (answer.accelerators, answer.findings) == ((), ())
    in_container = host.NvidiaSigns(device_files=True, container=True)
    (finding,) = nvml.ask(fake, in_container).findings
    assert "handed into this container" in finding.what
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in finding.fix


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED]
)
def test_a_container_that_was_given_no_card_needs_no_driver(code: int) -> None:
    signs = host.NvidiaSigns(on_bus=True, container=True)
    (finding,) = nvml.ask(FakeNvml(init=code), signs).findings
    assert "the container was not given it" in finding.what
    assert finding.fix == "Start the container with --gpus all."


def test_a_driver_that_hangs_is_a_finding_in_time() -> None:
    class Stuck(FakeNvml):
        def nvmlInit(self) -> None:
            forever.wait()

    forever = threading.Event()
    answer = nvml.ask_in_time(Stuck(RTX_4090), host.NvidiaSigns(on_bus=True), seconds=0.05)
    before = time.monotonic()
    again = nvml.ask_in_time(FakeNvml(RTX_4090), host.NvidiaSigns(on_bus=True), seconds=5)
    assert time.monotonic() - before < 2  # while one call hangs, nobody waits for another
    assert again.failure == nvml.STUCK
    forever.set()
    for call in nvml._HANGING:
        call.join()
    recovered = nvml.ask_in_time(FakeNvml(RTX_4090), host.NvidiaSigns(on_bus=True))
    assert len(recovered.accelerators) == 1
    assert answer.accelerators == ()
    (finding,) = answer.findings
    assert "did not answer within" in finding.what
    assert "reboot" in finding.fix


def test_a_driver_that_answers_is_not_waited_for() -> None:
    signs = host.NvidiaSigns(on_bus=True)
    assert nvml.ask_in_time(FakeNvml(RTX_4090), signs) == nvml.ask(FakeNvml(RTX_4090), signs)


def test_a_lost_card_does_not_take_the_others_along() -> None:
    fake = FakeNvml(pynvml.NVML_ERROR_GPU_IS_LOST, T4)
    answer = nvml.ask(fake)
    assert [card.name for card in answer.accelerators] == ["Tesla T4"]
    assert "NVIDIA card 0" in answer.findings[0].what
    assert "fallen off the bus" in answer.findings[0].what
    assert fake.opened == 0


def test_values_that_are_not_supported_are_unknown() -> None:
    silent = dict.fromkeys(GTX_745, UNSUPPORTED)
    (card,) = nvml.ask(FakeNvml(silent)).accelerators
    assert card.name == "NVIDIA card"
    assert card.memory_total_gib is card.memory_free_gib is card.capability is None
    assert card.power_limit_w is None
    assert card.processes == ()


def test_a_board_that_shares_memory_with_the_processor() -> None:
    (card,) = MACHINES["gb10"].accelerators
    assert card.unified
    assert card.memory_free_gib == MACHINES["gb10"].ram_free_gib
    assert nvml.ask(FakeNvml(GB10)).accelerators[0].memory_total_gib is None


def test_the_card_with_the_most_free_memory_is_chosen() -> None:
    both = machine(FakeNvml(GTX_745, GTX_1080_TI, RTX_4090), "cpu", 8, (16, 8), torch("2", "12.8"))
    assert both.device == "NVIDIA GeForce RTX 4090"
    none = machine(
        FakeNvml(RTX_4090), "cpu", 8, (16, 8), torch("2", "12.8"), CUDA_VISIBLE_DEVICES=""
    )
    assert none.accelerator is None
    assert none.device == "CPU, 8 threads"


def test_a_cpu_only_torch_beside_a_card_is_said_with_the_cure() -> None:
    found = MACHINES["rtx4090-cpu-torch"]
    assert "PyTorch 2.11.0+cpu has no CUDA" in only(found)
    assert "https://download.pytorch.org/whl/cu128" in only(found)
    assert found.device == "CPU, 32 threads"


@pytest.mark.parametrize(
    ("driver_cuda", "index"), [(13000, "cu130"), (12080, "cu128"), (12020, "cu126"), (0, "cu126")]
)
def test_the_cure_fits_the_driver(driver_cuda: int, index: str) -> None:
    found = machine(FakeNvml(T4, cuda=driver_cuda), "cpu", 2, (16, 8), torch("2.11.0+cpu"))
    assert only(found).endswith(index)


def test_a_torch_newer_than_the_driver() -> None:
    fake = FakeNvml(T4, driver="550.54.15", cuda=12040)
    found = machine(fake, "cpu", 2, (16, 8), torch("2.13.0+cu130", "13.0"))
    assert "driver 550.54.15 knows CUDA up to 12.4" in only(found)


def test_no_torch_and_torch_for_other_cards() -> None:
    assert "not installed" in only(machine(None, "cpu", 2, (16, 8), None))
    amd_torch = torch("2.11.0+rocm6.4", hip="6.4.43482")
    assert "built for AMD" in only(machine(None, "cpu", 2, (16, 8), amd_torch))
    assert amd_torch.kind == "rocm"


def test_version_file_of_other_styles() -> None:
    assert build("2.0", "cuda = '11.8'\nhip = None\n") == TorchBuild(version="2.0", cuda="11.8")
    assert build("2.0", "").kind == "cpu"


def test_limits_of_a_container_count(tmp_path: Path) -> None:
    whole = host.ram_gib(tmp_path)
    (tmp_path / "memory.max").write_text("1073741824\n")
    (tmp_path / "memory.current").write_text("805306368\n")
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert host.ram_gib(tmp_path) == (1.0, 0.25)
    assert host.cpu_threads(tmp_path) == 1
    (tmp_path / "memory.max").write_text("max\n")
    assert host.ram_gib(tmp_path)[0] == whole[0]


def test_nvidia_cards_are_seen_on_the_bus(tmp_path: Path) -> None:
    assert not host.nvidia_on_bus(tmp_path)
    for name, vendor, kind in (("a", "0x10de", "0x040300"), ("b", "0x10de", "0x030000")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor)
        (tmp_path / name / "class").write_text(kind)
        assert host.nvidia_on_bus(tmp_path) is (name == "b")


def test_signs_of_a_card_in_a_container(tmp_path: Path) -> None:
    assert host.nvidia_signs(tmp_path) == host.NvidiaSigns(wsl=host.is_wsl())
    for name in ("dev/nvidiactl", ".dockerenv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    signs = host.nvidia_signs(tmp_path)
    assert (signs.container, signs.device_files) == (True, False)
    (tmp_path / "dev/nvidia0").touch()
    assert host.nvidia_signs(tmp_path).device_files


def test_processes_are_named_as_far_as_they_are_ours_to_see() -> None:
    import os

    assert host.process_name(os.getpid())
    assert host.process_name(999_999_999) == ""
    busy = {**GTX_1080_TI, "GraphicsRunningProcesses": [SimpleNamespace(pid=7, usedGpuMemory=1)]}
    (card,) = nvml.ask(FakeNvml(busy), named=lambda pid: f"p{pid}").accelerators
    assert [p.name for p in card.processes] == ["p2113", "p977", "p7"]
    in_windows = nvml.ask(FakeNvml(busy), host.NvidiaSigns(wsl=True), named=lambda pid: "wrong")
    assert {p.name for p in in_windows.accelerators[0].processes} == {""}


def test_of_many_holders_the_largest_are_named() -> None:
    held = tuple((100 + n, n << 30) for n in range(1, 6))
    busy = {
        **GTX_1080_TI,
        "ComputeRunningProcesses": [SimpleNamespace(pid=p, usedGpuMemory=m) for p, m in held],
    }
    found = machine(FakeNvml(busy), "cpu", 8, (16, 8), torch("2.11.0+cu126", "12.6"))
    assert "process 105 (5.0 GiB), process 104 (4.0 GiB), process 103 (3.0 GiB) and 2 more" in only(
        found
    )


def test_a_driver_without_an_answer_for_memory_is_no_shared_memory() -> None:
    shy = {**RTX_4090, "MemoryInfo": pynvml.NVML_ERROR_NO_PERMISSION}
    found = machine(FakeNvml(shy), "cpu", 8, (16, 8), torch("2.11.0+cu128", "12.8"))
    (card,) = found.accelerators
    assert (card.unified, card.memory_total_gib) == (False, None)


def test_a_module_that_is_too_old_for_a_question_answers_the_others() -> None:
    class Old(FakeNvml):
        def __getattr__(self, name: str) -> object:
            if name in ("nvmlDeviceGetNumGpuCores", "nvmlDeviceGetMigMode"):
                raise AttributeError(name)
            return super().__getattr__(name)

    (card,) = nvml.ask(Old(RTX_4090)).accelerators
    assert card == nvml.ask(FakeNvml(RTX_4090)).accelerators[0]
