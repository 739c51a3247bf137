"""A sensor that does not answer costs its own reading and nothing else (B37)."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest
import torch

from lorakit.train.sensors import sense

GIB = 1 << 30


def test_a_driver_that_fails_leaves_what_pytorch_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mismatch(device: torch.device) -> float:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)

    for name in ("power_draw", "utilization", "temperature"):
        monkeypatch.setattr(torch.cuda, name, mismatch)
    for name, held in (("memory_reserved", 3), ("max_memory_reserved", 4)):
        monkeypatch.setattr(torch.cuda, name, lambda device, held=held: held * GIB)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (12 * GIB, 24 * GIB))
    seen = sense(tmp_path, torch.device("cuda", 0))
    assert (seen.memory_of, seen.memory_gib, seen.memory_peak_gib) == ("VRAM", 3, 4)
    # Another process holds the rest: free is what the driver says, not the total less one's own.
    assert (seen.memory_free_gib, seen.memory_total_gib) == (12, 24)
    assert seen.power_w is seen.temperature_c is seen.utilisation_percent is None
    assert seen.ram_gib is not None


def test_the_cpu_has_no_card_s_memory(tmp_path: Path) -> None:
    seen = sense(tmp_path, torch.device("cpu"))
    assert (seen.memory_of, seen.memory_free_gib) == ("RAM", None)
