"""What a command imports, seen in a real process: the static contracts cannot see when."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lorakit.bundle.read import parse
from lorakit.runs.directory import create, runs_root

TORCH = {"torch", "diffusers", "transformers", "peft", "accelerate", "lorakit.train"}
SCREENS = {"textual", "lorakit.tui"}
HEAVY = {"pydantic", "rich", "PIL", "tomlkit", "psutil", "platformdirs", "tokenizers", "pynvml"}

LOOK = """
import json, sys
from lorakit.cli.app import main
told, commands = json.loads(sys.argv[1])
for words in commands:
    sys.argv = ["lorakit", *words]
    try:
        main()
    except SystemExit:
        pass
    with open(told, "a") as file:
        print(json.dumps(sorted(sys.modules)), file=file)
"""


def imported(tmp_path: Path, *commands: Sequence[str]) -> list[set[str]]:
    """The modules that a process has loaded after each of some commands."""
    told = tmp_path / "modules.jsonl"
    subprocess.run(
        [sys.executable, "-c", LOOK, json.dumps([str(told), commands])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return [set(json.loads(line)) for line in told.read_text().splitlines()]


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_help_and_version_import_nothing_that_takes_time(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    [loaded] = imported(tmp_path, words)
    assert loaded & (TORCH | SCREENS | HEAVY) == set()


READING = [
    ("schema",),
    ("hardware",),
    ("doctor", "bundle.toml", "--no-probe"),
    ("presets",),
    ("presets", "show", "sdxl-8gib"),
    ("plan", "bundle.toml"),
    ("dataset", ".", "--html", "page.html"),
    ("runs",),
    ("models",),
    ("cache",),
    ("watch",),
    ("stop",),
    ("check", "bundle.toml"),
    ("bench", "compare", "laptop.toml", "laptop.toml"),
    ("diff", "bundle.toml", "dog"),
    ("replay", "bundle.toml", "--strict"),
    ("new",),
    (),
]


def test_commands_that_only_read_never_load_torch_or_a_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process runs them one after the other, so the first that loads too much is named."""
    text = 'schema = 1\nname = "dog"\n[[dataset.sources]]\npath = "p"\n'
    (tmp_path / "bundle.toml").write_text(text)
    shutil.copy(Path(__file__).parent / "data" / "bench" / "laptop.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    run = create(parse(text), runs_root(), tmp_path)
    recorded = Path(__file__).parent / "data" / "events" / "good.jsonl"
    run.events.write_bytes(recorded.read_bytes())
    found = imported(tmp_path, *READING)
    assert len(found) == len(READING)
    too_much = [
        words for words, loaded in zip(READING, found, strict=True) if loaded & (TORCH | SCREENS)
    ]
    assert too_much == []


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("lorakit", HEAVY | TORCH | SCREENS),
        ("lorakit.runs.events", HEAVY | TORCH | SCREENS),
        ("lorakit.runs.state", HEAVY | TORCH | SCREENS),
        ("lorakit.runs.directory", HEAVY | TORCH | SCREENS),
        ("lorakit.bundle.models", {"rich", "tomlkit", "PIL"} | TORCH | SCREENS),
        ("lorakit.live.panel", {"pydantic"} | TORCH | SCREENS),
        ("lorakit.live.ending", TORCH | SCREENS),
    ],
)
def test_a_module_brings_no_more_than_it_needs(module: str, without: set[str]) -> None:
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert set(json.loads(found.stdout)) & without == set()
