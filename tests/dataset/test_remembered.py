"""An unchanged picture is decoded once, and what is remembered is what a fresh look would say."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image
from test_scan import base
from torture import build, settle

from lorakit.bundle.models import Dataset, Source
from lorakit.bundle.paths import cache_folder
from lorakit.dataset import looks, remembered
from lorakit.dataset.report import DatasetReport
from lorakit.dataset.scan import scan
from lorakit.errors import LorakitError

LONG_AGO = 10**18
"""In ns: older than any clock confuses."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty pictures, no two alike, of long ago."""
    for number in range(20):
        path = tmp_path / "set" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (64, 64), (number * 12, 90, 30)).save(path, compress_level=0)
        os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return tmp_path / "set"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of pictures as they are decoded."""
    names: list[str] = []
    examine = looks.examine

    def noted(path: Path) -> looks.Seen:
        names.append(path.name)
        return examine(path)

    monkeypatch.setattr(looks, "examine", noted)
    return names


def looked(folder: Path, fresh: bool = False) -> DatasetReport:
    sources = (Source(path=str(folder), trigger="x"),)
    return scan(Dataset(sources=sources, resolution=64), folder, base(), fresh=fresh)


def memory() -> Path:
    return cache_folder() / remembered.FILE


def test_a_second_scan_decodes_nothing_and_a_fresh_one_everything(
    folder: Path, decoded: list[str]
) -> None:
    first = looked(folder)
    assert len(decoded) == 20
    second = looked(folder)
    assert len(decoded) == 20
    fresh = looked(folder, fresh=True)
    assert len(decoded) == 40
    assert first == second == fresh


def test_of_the_worst_folder_the_same_is_said_again(tmp_path: Path, decoded: list[str]) -> None:
    usable, unusable, *_ = build(tmp_path / "worst")
    settle(tmp_path / "worst")
    first = looked(tmp_path / "worst")
    assert set(usable) >= {p.name for p in first.pictures}
    decoded.clear()
    second = looked(tmp_path / "worst")
    assert set(decoded) <= unusable.keys()  # what cannot be used is looked at again
    assert second == first
    assert second.as_dict() == first.as_dict()


def test_only_what_changed_is_decoded_again(folder: Path, decoded: list[str]) -> None:
    looked(folder)
    decoded.clear()
    other = Image.new("RGB", (96, 64), (1, 2, 3))
    other.save(folder / "3.png")
    os.utime(folder / "3.png", ns=(LONG_AGO + 1, LONG_AGO + 1))
    other.save(folder / "new.png")
    report = looked(folder)
    assert sorted(decoded) == ["3.png", "new.png"]
    assert [p.width for p in report.pictures if p.name == "3.png"] == [96]


def test_other_bytes_of_the_same_size_and_time_are_noticed(
    folder: Path, decoded: list[str]
) -> None:
    """As programs write them that change a picture in place and set its time back."""
    before = looked(folder)
    changed = (folder / "4.png").read_bytes()
    with (folder / "3.png").open("r+b") as file:
        assert len(changed) == os.fstat(file.fileno()).st_size
        file.write(changed)
    os.utime(folder / "3.png", ns=(LONG_AGO, LONG_AGO))
    decoded.clear()
    after = looked(folder)
    assert decoded == ["3.png"]
    assert after.digest != before.digest


def test_what_had_just_been_written_when_it_was_read_is_not_remembered_later(
    folder: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for looks may take long before asking for the next one."""
    paths = [str(folder / "4.png"), str(folder / "3.png")]
    os.utime(paths[1])
    read, done = looks._read, threading.Event()

    def noted(path: str, before: os.stat_result) -> looks._Told:
        told = read(path, before)
        if path == paths[1]:
            done.set()
        return told

    monkeypatch.setattr(looks, "_read", noted)
    asked = looks.looks(paths)
    next(asked)
    assert done.wait(60)
    monkeypatch.setattr(remembered.time, "time_ns", lambda: os.stat(paths[1]).st_mtime_ns + 10**11)
    list(asked)
    decoded.clear()
    list(looks.looks(paths))
    assert decoded == ["3.png"]


@pytest.mark.parametrize("ends", [True, False])
def test_a_picture_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """Else its size would be of one content, and its digest of the next."""
    path = tmp_path / "a.png"
    Image.new("RGB", (64, 64)).save(path)
    examine = looks.examine
    widths: list[int] = []

    def torn(path: Path) -> looks.Seen:
        seen = examine(path)
        if not ends or not widths:
            widths.append(65 + len(widths))
            Image.new("RGB", (widths[-1], 64)).save(path.with_name("new.png"))
            path.with_name("new.png").replace(path)
        return seen

    monkeypatch.setattr(looks, "examine", torn)
    [look] = looks.looks([str(path)])
    if ends:
        assert isinstance(look, looks.Look)
        assert look.seen.width == 65
        assert look.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        assert isinstance(look, LorakitError)
        assert "a.png changes while it is read" in str(look)


def test_what_has_just_been_written_is_not_remembered(folder: Path, decoded: list[str]) -> None:
    """It may be written again within the same tick of the clock."""
    os.utime(folder / "3.png")
    looked(folder)
    decoded.clear()
    looked(folder)
    assert decoded == ["3.png"]


def test_other_software_may_see_something_else(
    folder: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(folder)
    monkeypatch.setattr(looks, "readers", lambda: "another Pillow")
    looked(folder)
    assert len(decoded) == 40


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(5000))


def _halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _page(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[4096:] = bytes(b ^ 0x5A for b in raw[4096:])
    path.write_bytes(raw)


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _older(path: Path) -> None:
    path.unlink()
    _sql(path, "create table looks (device int, inode int)", "pragma user_version = 1")


def _nonsense(path: Path) -> None:
    _sql(path, "update looks set look = '[1, 2]'")


def _no_json(path: Path) -> None:
    _sql(path, "update looks set look = 'nothing'")


def _sql(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "damage", [_garbage, _halved, _page, _emptied, _older, _nonsense, _no_json]
)
def test_a_damaged_memory_says_nothing_and_is_made_anew(
    folder: Path, decoded: list[str], damage: Callable[[Path], None]
) -> None:
    first = looked(folder)
    damage(memory())
    decoded.clear()
    assert looked(folder) == first
    assert len(decoded) == 20
    assert looked(folder) == first
    assert len(decoded) == 20


def test_without_a_place_for_it_everything_is_looked_at(folder: Path, decoded: list[str]) -> None:
    memory().mkdir(parents=True)
    first = looked(folder)
    assert looked(folder) == first
    assert len(decoded) == 40


def test_several_scans_at_once_agree(folder: Path) -> None:
    alone = looked(folder, fresh=True)
    with ThreadPoolExecutor(4) as pool:
        assert all(report == alone for report in pool.map(looked, [folder] * 8))
