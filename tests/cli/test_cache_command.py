"""`lorakit cache`: what it shows, and that it takes away no more than was asked for."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lorakit.bundle.paths import cache_folder
from lorakit.cache import shelves
from lorakit.cache.shards import Part, Writer

Command = Callable[..., "subprocess.CompletedProcess[str]"]
DAY = 86400


def fill(kind: shelves.Kind, base: str, count: int, days: float) -> Path:
    folder = shelves.place(cache_folder(), kind, f"encoder of {base}")
    shelves.hold(folder).close()
    writer = Writer(folder, {"base": base})
    for number in range(count):
        writer.add(struct.pack(">QQ", number, 1), {"mean": Part((256,), bytes(1024))})
    writer.flush()
    used = time.time() - days * DAY
    for path in (*folder.glob("*.safetensors"), folder / shelves.LOCK):
        os.utime(path, (used, used))
    return folder


@pytest.fixture
def filled() -> list[Path]:
    return [
        fill("latents", "pico", 1200, 0.01),
        fill("text", "pico", 1, 0.02),
        fill("latents", "a \x1b[31mred\x1b[0m base", 3, 40),
    ]


def test_what_is_cached_is_shown(lorakit: Command, filled: list[Path]) -> None:
    ended = lorakit("cache", env={"COLUMNS": "80"})
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == [
        "WHAT      ENTRIES     SIZE  LAST USED  MADE FOR",
        "pictures    1,200  1.3 MiB  14m ago    pico",
        "captions        1  1.1 KiB  28m ago    pico",
        r"pictures        3  3.4 KiB  40d ago    a \x1b[31mred\x1b[0m base",
    ]
    assert f"1.3 MiB in {cache_folder()}" in ended.stderr
    told = json.loads(lorakit("cache", "--json").stdout)
    assert [(c["what"], c["entries"], c["in_use"]) for c in told["cached"]] == [
        ("pictures", 1200, False),
        ("captions", 1, False),
        ("pictures", 3, False),
    ]


def test_nothing_cached(lorakit: Command) -> None:
    ended = lorakit("cache")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "Nothing is cached in" in ended.stderr
    assert "0 entries removed" in lorakit("cache", "clear").stdout


@pytest.mark.parametrize(
    ("asked", "left"),
    [((), []), (("--older-than", "30"), [0, 1]), (("--base", "pico"), [2])],
)
def test_what_is_asked_for_is_removed(
    lorakit: Command, filled: list[Path], asked: tuple[str, ...], left: list[int]
) -> None:
    ended = lorakit("cache", "clear", *asked, "--yes", "--json")
    assert ended.returncode == 0
    assert [n for n, folder in enumerate(filled) if folder.exists()] == left
    removed = {(): 1204, ("--older-than", "30"): 3, ("--base", "pico"): 1201}[asked]
    assert json.loads(ended.stdout)["removed_entries"] == removed


def test_nobody_to_ask_and_what_is_in_use(lorakit: Command, filled: list[Path]) -> None:
    ended = lorakit("cache", "clear")
    assert ended.returncode == 2
    assert "1,204 entries, 1.3 MiB would be removed, and there is nobody to ask" in ended.stderr
    assert "Add --yes" in ended.stderr
    with shelves.hold(filled[0]):
        assert "in use now" in lorakit("cache").stdout
        ended = lorakit("cache", "clear", "--yes")
    assert ended.stdout == "4 entries removed, 4.5 KiB freed.\n"
    assert "A running training uses 1 line of lorakit cache" in ended.stderr
    assert [folder.exists() for folder in filled] == [True, False, False]
