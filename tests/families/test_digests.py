"""Digests of a base, and what is kept of them from one start to the next."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lorakit.bundle.paths import cache_folder
from lorakit.families import digests
from lorakit.families.digests import digest
from lorakit.families.shipped import ASSETS

PICO = ASSETS / "pico"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of pico that has not been touched for long."""
    folder = Path(shutil.copytree(PICO, tmp_path / "model"))
    for file in folder.rglob("*"):
        os.utime(file, (1e9, 1e9))
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read, as if each look were a process of its own; also small ones count as
    large, and new ones as settled."""
    files: list[str] = []
    real = digests._read.__wrapped__

    def watched(path: str, stamp: tuple[int, ...], tensors: digests.Tensors) -> str:
        files.append(Path(path).name)
        return real(path, stamp, tensors)

    monkeypatch.setattr(digests, "_read", watched)
    monkeypatch.setattr(digests, "LARGE_BYTES", 1000)
    monkeypatch.setattr(digests, "SETTLED_NS", 0)
    return files


def kept() -> list[Path]:
    return sorted((cache_folder() / digests.FOLDER).glob("*"))


def test_it_follows_content_not_place(copy: Path) -> None:
    assert digest(copy, "vae") == digest(PICO, "vae")
    assert digest(copy, "vae") != digest(copy, "unet")
    (copy / "vae" / "config.json").write_text("{}")
    assert digest(copy, "vae") != digest(PICO, "vae")


def test_a_large_file_is_read_once(copy: Path, read: list[str]) -> None:
    first = digest(copy, "unet")
    assert sorted(read) == ["config.json", "diffusion_pytorch_model.safetensors"]
    assert len(kept()) == 2
    assert digest(copy, "unet") == first
    assert len(read) == 2
    assert digest(copy, "unet", anew=True) == first
    assert len(read) == 4


Change = Callable[[Path], object]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda f: f.write_bytes(f.read_bytes() + b"\0"), id="size"),
        pytest.param(lambda f: f.write_bytes(b"!" + f.read_bytes()[1:]), id="content"),
        pytest.param(lambda f: os.replace(shutil.copy2(f, f"{f}.new"), f), id="inode"),
        pytest.param(lambda f: os.utime(f, (2e9, 2e9)), id="time"),
    ],
)
def test_a_file_that_was_touched_is_read_again(copy: Path, read: list[str], change: Change) -> None:
    digest(copy, "unet")
    file = copy / "unet" / "diffusion_pytorch_model.safetensors"
    facts = file.stat()
    change(file)
    if file.stat().st_mtime_ns != facts.st_mtime_ns and facts.st_size == file.stat().st_size:
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # a copy that keeps times
    read.clear()
    told = digest(copy, "unet")
    assert read == [file.name]
    assert told == digest(copy, "unet", anew=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: "{",
        lambda text: "[]",
        lambda text: "null",
        lambda text: '{"sha256": "' + "0" * 64 + '"}',
        lambda text: json.dumps({**json.loads(text), "sha256": "z" * 64}),
        lambda text: json.dumps({**json.loads(text), "sha256": 7}),
        lambda text: json.dumps({**json.loads(text), "path": "/elsewhere"}),
        lambda text: "\udcff",
    ],
)
def test_a_damaged_or_foreign_entry_is_passed_over(
    copy: Path, read: list[str], damage: Callable[[str], str]
) -> None:
    first = digest(copy, "unet")
    for entry in kept():
        entry.write_text(damage(entry.read_text()), errors="surrogateescape")
    read.clear()
    assert digest(copy, "unet") == first
    assert len(read) == 2
    assert digest(copy, "unet") == first
    assert len(read) == 2  # and it has been mended


def test_a_cache_that_cannot_be_written_costs_time_only(
    copy: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = digest(copy, "unet")
    shutil.rmtree(cache_folder())
    cache_folder().write_text("a file in its place")
    assert digest(copy, "unet") == first
    assert len(read) == 4


def test_what_has_just_been_written_is_not_kept(
    copy: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED_NS", 3600 * 10**9)
    digest(copy, "unet")
    assert kept() == []
