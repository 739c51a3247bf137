"""The writer's end of a run's events, on a disk that is full and after a kill."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lorakit.runs.events import FILE, Event, Log, Noted, Resumed, Tail, decode


@contextmanager
def full_at(size_bytes: int) -> Iterator[None]:
    """Stands for a full disk: no file grows beyond this size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def told(path: Path) -> list[Event]:
    return list(Tail(path).read())


@pytest.mark.parametrize("room", [0, 1, 20])
def test_what_a_full_disk_dropped_is_said_once_there_is_room(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], room: int
) -> None:
    path = tmp_path / FILE
    log = Log(path)
    before, after = Resumed(step=1), Resumed(step=4)
    log.append(before)
    with full_at(path.stat().st_size + room):
        log.append(Resumed(step=2))
        log.append(Resumed(step=3))
        assert log.dropped == 2
        assert told(path) == [before]
    log.append(after)
    first, note, last = told(path)
    assert (first, last) == (before, after)
    assert isinstance(note, Noted)
    assert (note.level, note.text) == ("warning", "2 events were not written: File too large")
    assert log.dropped == 0
    assert capfd.readouterr().err == "lorakit: events are not written: File too large\n"


def test_each_spell_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / FILE
    log = Log(path)
    log.append(Noted(text="x" * 200))  # the file that stderr goes to here must stay below the limit
    for step in range(3):
        with full_at(path.stat().st_size):
            log.append(Resumed(step=step))
        log.append(Resumed(step=step))
    texts = [e.text for e in told(path) if isinstance(e, Noted)][1:]
    assert texts == ["1 event was not written: File too large"] * 3
    assert capfd.readouterr().err.count("not written") == 3


@pytest.mark.parametrize("cut", ['{"kind":"resu', ""])
def test_a_line_cut_by_a_kill_does_not_take_the_next_one_with_it(tmp_path: Path, cut: str) -> None:
    path = tmp_path / FILE
    Log(path).append(Resumed(step=1))
    with path.open("a") as file:
        file.write(cut)
    Log(path).append(Resumed(step=2))
    lines = path.read_text().splitlines()
    assert lines[1:-1] == ([cut] if cut else [])
    assert [e.step for e in told(path) if isinstance(e, Resumed)] == [1, 2]
    assert decode(lines[-1]) == told(path)[-1]


def test_any_text_can_be_written(tmp_path: Path) -> None:
    Log(tmp_path / FILE).append(Noted(text="猫 \udcff\n"))
    assert [e.text for e in told(tmp_path / FILE) if isinstance(e, Noted)] == ["猫 \udcff\n"]
