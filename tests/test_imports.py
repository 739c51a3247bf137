"""What a command imports, seen in a real process: the static contracts cannot see when."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
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
try:
    main()
except SystemExit:
    pass
finally:
    print(json.dumps(sorted(sys.modules)), file=open(sys.argv[0], "w"))
"""


def imported(tmp_path: Path, *words: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    told = tmp_path / "modules.json"
    code = f"import sys; sys.argv = {[str(told), *words]!r}\n{LOOK}"
    subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(told.read_text()))


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_help_and_version_import_nothing_that_takes_time(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    assert imported(tmp_path, *words) & (TORCH | SCREENS | HEAVY) == set()


@pytest.mark.parametrize(
    "words",
    [
        ("schema",),
        ("hardware",),
        ("doctor", "bundle.toml", "--no-probe"),
        ("presets",),
        ("presets", "show", "sdxl-8gib"),
        ("plan", "bundle.toml"),
        ("runs",),
        ("watch",),
        ("stop",),
        ("check", "bundle.toml"),
        ("bench", "compare", "laptop.toml", "laptop.toml"),
        ("diff", "bundle.toml", "dog"),
        ("replay", "bundle.toml", "--strict"),
        ("new",),
        (),
    ],
)
def test_commands_that_only_read_never_load_torch_or_a_screen(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'schema = 1\nname = "dog"\n[[dataset.sources]]\npath = "p"\n'
    (tmp_path / "bundle.toml").write_text(text)
    shutil.copy(Path(__file__).parent / "data" / "bench" / "laptop.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    run = create(parse(text), runs_root(), tmp_path)
    recorded = Path(__file__).parent / "data" / "events" / "good.jsonl"
    run.events.write_bytes(recorded.read_bytes())
    assert imported(tmp_path, *words) & (TORCH | SCREENS) == set()


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
