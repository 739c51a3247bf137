"""What a device is like, beside what it computes."""

from __future__ import annotations

import pytest
import torch

from lorakit.train import device


@pytest.mark.parametrize(
    ("system", "release", "kind", "wanted"),
    [
        ("Windows", "11", "cuda", True),
        ("Linux", "6.6.87.2-microsoft-standard-WSL2", "cuda", True),
        ("Linux", "6.6.87.2-microsoft-standard-WSL2", "cpu", False),
        ("Linux", "6.8.0-85-generic", "cuda", False),
    ],
)
def test_the_drivers_of_windows_spill(
    monkeypatch: pytest.MonkeyPatch, system: str, release: str, kind: str, wanted: bool
) -> None:
    monkeypatch.setattr(device.platform, "system", lambda: system)
    monkeypatch.setattr(device.platform, "release", lambda: release)
    assert device.spills(torch.device(kind)) is wanted
