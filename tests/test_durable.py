"""Files that are complete or absent, and what killed processes leave."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lorakit import durable

HALF = """
import os, signal, sys
from pathlib import Path
from lorakit import durable
with durable.replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("written", flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / ("x" * 255)  # the longest name that there is
    durable.write(file, b"old")
    file.chmod(0o640)
    with durable.replacing(file) as fresh:
        fresh.write(b"new")
        assert file.read_bytes() == b"old"
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == [file.name]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a"
    durable.write(file, b"old")
    with pytest.raises(TypeError), durable.replacing(file) as fresh:
        fresh.write("no bytes")  # type: ignore[arg-type]
    assert (file.read_bytes(), os.listdir(tmp_path)) == (b"old", ["a"])
    with pytest.raises(FileNotFoundError):
        durable.write(tmp_path / "gone" / "a", b"")


def test_only_what_nobody_writes_any_more_is_swept(tmp_path: Path) -> None:
    """A process is asked to die in the middle of a write: before that its file stays."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", HALF, str(tmp_path / "a")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(durable.__file__).parents[1])},
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        (tmp_path / ".step-000100.part").mkdir()
        (tmp_path / ".step-000100.part" / "adapter").write_bytes(b"half")
        (tmp_path / "mine.part").write_bytes(b"")
        (tmp_path / ".mine").write_bytes(b"")
        (tmp_path / ".link.part").symlink_to(tmp_path / "mine.part")
        durable.sweep(tmp_path)
        kept = {".mine", "mine.part", ".link.part"}
        [half] = set(os.listdir(tmp_path)) - kept
        assert (tmp_path / half).read_bytes() == b"half"
        writer.communicate(b"\n")
    assert writer.returncode == -signal.SIGKILL
    durable.sweep(tmp_path, older_than_seconds=3600)
    assert half in os.listdir(tmp_path)
    durable.sweep(tmp_path)
    assert set(os.listdir(tmp_path)) == kept
    durable.sweep(tmp_path / "gone")


def test_a_sweep_between_opening_and_locking_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, swept = durable.fcntl.flock, []

    def flock(file: object, how: int) -> None:
        if not swept:
            swept.append(file)
            durable.sweep(tmp_path)
        real(file, how)

    monkeypatch.setattr(durable.fcntl, "flock", flock)
    durable.write(tmp_path / "a", b"whole")
    assert len(swept) == 1
    assert (tmp_path / "a").read_bytes() == b"whole"


def test_a_file_system_without_locks_is_written_and_never_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: object, how: int) -> None:
        raise OSError("No locks available")

    monkeypatch.setattr(durable.fcntl, "flock", flock)
    durable.write(tmp_path / "a", b"whole")
    (tmp_path / ".0123.part").write_bytes(b"half")
    durable.sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".0123.part", "a"]
