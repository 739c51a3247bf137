"""A clean home for every test: no file or variable of the developer's reaches it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from huggingface_hub import constants
from hypothesis import HealthCheck, settings

# Property tests must not fail because the machine is busy.
for _profile, _examples in (("quick", 15), ("full", 60)):
    settings.register_profile(
        _profile,
        deadline=None,
        max_examples=_examples,
        suppress_health_check=[HealthCheck.too_slow],
    )


def pytest_configure(config: pytest.Config) -> None:
    """With the slow tests property tests take their time too."""
    settings.load_profile("quick" if "not slow" in config.getoption("markexpr") else "full")


FOREIGN = ("HF_", "HUGGINGFACE_", "LORAKIT_", "ACCELERATE_", "NO_COLOR", "FORCE_COLOR", "COLUMNS")

# Started in the background of a script, this process ignores what a terminal sends, and so would
# every command that is tested in one.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGTSTP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number,
            signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL,
        )


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
    # Read when the Hub's client was imported, from the developer's environment.
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / ".cache" / "huggingface" / "hub"))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # tests already run in parallel
    return home
