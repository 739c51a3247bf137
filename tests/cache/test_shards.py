"""Entries in files: what is written is read, what is damaged is left out, nothing is half there."""

from __future__ import annotations

import os
import struct
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from lorakit.cache import shards
from lorakit.cache.shards import Index, Part, Writer

NAMES = st.binary(min_size=16, max_size=16)
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)
ENTRIES = st.dictionaries(
    NAMES,
    st.dictionaries(st.sampled_from(["mean", "std", "mask"]), SHAPES, min_size=1),
    min_size=1,
    max_size=9,
)


def part(shape: tuple[int, ...], seed: int = 0) -> Part:
    count = 1
    for side in shape:
        count *= side
    return Part(shape, array("f", [seed + i / 8 for i in range(count)]).tobytes())


def fill(folder: Path, count: int, begin: int = 0) -> list[bytes]:
    writer = Writer(folder, {"base": "pico"})
    names = [struct.pack(">QQ", n, n) for n in range(begin, begin + count)]
    for number, name in enumerate(names):
        writer.add(name, {"mean": part((4, 2, 2), number), "std": part((4, 2, 2), -number)})
    writer.flush()
    return names


@given(entries=ENTRIES)
def test_what_is_written_is_read(
    entries: dict[bytes, dict[str, tuple[int, ...]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """By this reader, and by that of safetensors."""
    folder = tmp_path_factory.mktemp("shelf")
    writer = Writer(folder, {"base": "pico"})
    wanted = {
        name: {key: part(shape, len(key)) for key, shape in shapes.items()}
        for name, shapes in entries.items()
    }
    for name, parts in wanted.items():
        writer.add(name, parts)
    writer.flush()
    index = Index(folder)
    assert set(index) == set(wanted)
    for name, parts in wanted.items():
        assert index.read(name) == parts
        assert set(index.keys(name)) == set(parts)
    index.close()
    [file] = shards.files(folder)
    with safe_open(file, "numpy") as opened:
        assert opened.metadata() == {"base": "pico"}
        for name, parts in wanted.items():
            for key, told in parts.items():
                found = opened.get_tensor(f"{name.hex()}.{key}")
                assert (found.shape, found.tobytes()) == (told.shape, told.data)


def test_a_file_holds_no_more_than_it_may_and_none_waits_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "MAX_ENTRIES", 10)
    fill(tmp_path / "many", 25)
    assert len(shards.files(tmp_path / "many")) == 3
    monkeypatch.setattr(shards, "MAX_BYTES", 4 * 128)
    fill(tmp_path / "large", 9)
    assert len(shards.files(tmp_path / "large")) == 3
    monkeypatch.setattr(shards, "MAX_SECONDS", 0.0)
    fill(tmp_path / "late", 3)
    assert len(shards.files(tmp_path / "late")) == 3


def test_writers_do_not_meet_and_what_both_wrote_is_there_once(tmp_path: Path) -> None:
    index = Index(tmp_path)
    assert len(index) == 0
    fill(tmp_path, 6)
    both = fill(tmp_path, 6, begin=3)
    index.refresh()
    assert len(index) == 9
    assert all(len(index.read(name)) == 2 for name in both)
    assert len(shards.files(tmp_path)) == 2


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def lengthen(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 2**60) + path.read_bytes()[8:])


def garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8:40] = b"\xff" * 32
    path.write_bytes(data)


def other(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"F32", b"F16"))


def unnamed(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"__metadata__"', b'"__netadata__"'))


@pytest.mark.parametrize("damage", [cut, empty, lengthen, garble, other, unnamed])
def test_a_damaged_file_is_named_and_the_others_are_read(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    fill(tmp_path, 3)
    [broken] = shards.files(tmp_path)
    damage(broken)
    whole = fill(tmp_path, 2, begin=10)
    index = Index(tmp_path)
    assert set(index) == set(whole)
    assert list(index.damaged) == [broken]
    assert index.damaged[broken]


def test_more_files_than_are_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MAX_ENTRIES", 1)
    monkeypatch.setattr(shards, "OPEN_FILES", 3)
    names = fill(tmp_path, 12)
    before = len(os.listdir("/proc/self/fd"))
    index = Index(tmp_path)
    for name in [*names, *reversed(names)]:
        assert index.read(name)["mean"].shape == (4, 2, 2)
    assert len(os.listdir("/proc/self/fd")) <= before + 3
    index.close()


def test_an_entry_whose_file_is_gone_is_an_error(tmp_path: Path) -> None:
    [name] = fill(tmp_path, 1)
    index = Index(tmp_path)
    [file] = shards.files(tmp_path)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        index.read(name)
    with pytest.raises(KeyError):
        index.read(b"x" * 16)


def test_a_hundred_thousand_entries_take_little_memory(tmp_path: Path) -> None:
    """150 bytes each, whatever is in them: 20,000 tell."""
    import tracemalloc

    writer = Writer(tmp_path, {})
    one = {"mean": part((1,))}
    for number in range(20_000):
        writer.add(struct.pack(">QQ", number, 0), one)
    writer.flush()
    tracemalloc.start()
    index = Index(tmp_path)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(index) == 20_000
    assert held / 20_000 < 220
