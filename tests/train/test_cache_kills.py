"""Killed in the middle of caching, a cache is never wrong, only incomplete, and goes on."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "benchmarks" / "data_loading.py"


@pytest.fixture
def data_loading() -> ModuleType:
    spec = importlib.util.spec_from_file_location("data_loading", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_caching_that_is_killed(data_loading: ModuleType) -> None:
    found = data_loading.killed(3, 20)
    assert found["wrong"] == 0
    assert found["same"]
    after = found["after_each"]
    assert after == sorted(after)
    assert 0 < after[0] < found["entries"] == 41  # and one for no prompt at all
