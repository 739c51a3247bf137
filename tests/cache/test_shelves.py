"""Folders of encoders: who uses one, and what may be taken away."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

from lorakit.cache import shelves
from lorakit.cache.shards import Part, Writer

PART = {"mean": Part((2,), bytes(8))}


def filled(root: Path, kind: shelves.Kind, encoder: str, base: str, count: int = 3) -> Path:
    folder = shelves.place(root, kind, encoder)
    shelves.hold(folder).close()
    writer = Writer(folder, {"base": base})
    for number in range(count):
        writer.add(struct.pack(">QQ", number, 1), PART)
    writer.flush()
    return folder


def test_what_there_is(tmp_path: Path) -> None:
    one = filled(tmp_path, "latents", "a vae", "pico", 3)
    filled(tmp_path, "latents", "a vae", "a child of pico", 5)
    two = filled(tmp_path, "text", "a text encoder", "sdxl", 2)
    (two / "damaged.safetensors").write_bytes(b"not one")
    (tmp_path / "latents" / "ab").mkdir()  # of another layout
    os.utime(one / ".lock", (4e9, 4e9))
    found = shelves.shelves(tmp_path)
    assert [(s.folder, s.bases, s.entries, s.damaged) for s in found] == [
        (one, ("a child of pico", "pico"), 8, 0),
        (two, ("sdxl",), 2, 1),
    ]
    assert found[0].used == 4e9
    assert [s.in_use for s in found] == [False, False]
    sizes = [sum(f.stat().st_size for f in s.folder.glob("*.safetensors")) for s in found]
    assert [s.size_bytes for s in found] == sizes
    assert shelves.shelves(tmp_path / "nothing") == []


def test_what_a_process_uses_stays(tmp_path: Path) -> None:
    folder = filled(tmp_path, "latents", "a vae", "pico")
    code = (
        "import sys, pathlib; from lorakit.cache import shelves;"
        "held = shelves.hold(pathlib.Path(sys.argv[1])); print('held', flush=True);"
        "sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        [shelf] = shelves.shelves(tmp_path)
        assert shelf.in_use
        assert shelves.clear(shelf) is None
        assert len(list(folder.glob("*.safetensors"))) == 1
    finally:
        child.kill()
        child.communicate()
    [shelf] = shelves.shelves(tmp_path)
    assert not shelf.in_use
    assert shelves.clear(shelf) == shelf.size_bytes
    assert not folder.exists()


def test_a_folder_that_is_taken_away_is_made_anew(tmp_path: Path) -> None:
    folder = filled(tmp_path, "text", "an encoder", "pico")
    [shelf] = shelves.shelves(tmp_path)
    (folder / "notes.txt").write_text("somebody's own")
    assert shelves.clear(shelf)
    assert sorted(p.name for p in folder.iterdir()) == ["notes.txt"]
    with shelves.hold(folder):
        assert (folder / ".lock").exists()
        assert filled(tmp_path, "text", "an encoder", "pico") == folder
        [again] = shelves.shelves(tmp_path)
        assert again.in_use
        assert shelves.clear(again) is None
