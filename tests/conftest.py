"""A clean home for every test: no file or variable of the developer's reaches it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Property tests must not fail because the machine is busy.
settings.register_profile(
    "lorakit", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("lorakit")

FOREIGN = ("HF_", "HUGGINGFACE_", "LORAKIT_", "ACCELERATE_", "NO_COLOR", "FORCE_COLOR", "COLUMNS")


@pytest.fixture(autouse=True)
def clean_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME, runs and cache below a temporary folder; no network for the Hub's client."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LORAKIT_RUNS", str(home / "runs"))
    monkeypatch.setenv("LORAKIT_CACHE", str(home / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # tests already run in parallel
    return home
