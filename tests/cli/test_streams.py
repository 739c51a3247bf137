"""Lines are broken for a terminal, and for nobody else."""

from __future__ import annotations

import io

import pytest

from lorakit.cli.streams import folded


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


def test_a_sentence_is_broken_between_words_below_its_start() -> None:
    text = "The base stabilityai/stable-diffusion-xl-base-1.0 does not fit into 4.4 GiB."
    lines = folded(text, "card  ", "      ", Screen())
    assert lines == [
        "card  The base",
        "      stabilityai/stable-diffusion-xl-base-1.0",
        "      does not fit into 4.4 GiB.",
    ]
    assert folded(text, "card  ", "      ", io.StringIO()) == [f"card  {text}"]


def test_a_command_stays_whole() -> None:
    command = "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl"
    assert folded(command, "  ", "  ", Screen()) == [f"  {command}"]
    assert len(folded(command, "  ", "  ", Screen(), whole=False)) > 1
