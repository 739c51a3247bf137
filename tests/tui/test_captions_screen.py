"""Captions changed from within the wizard, by keys, on real files."""

from __future__ import annotations

from pathlib import Path

import place
import pytest
from driven import ANSWERS, Drive, Driven

from lorakit.dataset import journal


@pytest.fixture
def folder(here: Path) -> Path:
    """Three pictures, each with a caption."""
    for n in range(3):
        (here / place.PICTURES / f"{n}.txt").write_text("a dog")
    return here / place.PICTURES


def texts(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.glob("*.txt")}


async def pictures(it: Driven) -> None:
    await it.press("ctrl+n", "ctrl+n")
    assert "[3 Pictures]" in it.text


async def choose(it: Driven, name: str) -> None:
    await it.pick(name)
    await it.press("enter")


def test_a_trigger_is_shown_then_written_then_taken_back(drive: Drive, folder: Path) -> None:
    before = texts(folder)

    async def script(it: Driven) -> None:
        await pictures(it)
        await it.press("f2")
        await choose(it, "trigger")
        assert "ohwx" in it.text
        await it.press("enter")
        assert "+ ohwx, a dog" in it.text
        assert texts(folder) == before
        await it.press("enter")
        assert "the old texts are kept" in it.text
        assert (folder / "0.txt").read_text() == "ohwx, a dog"
        await choose(it, "undo")
        assert "This takes back: put ohwx before captions." in it.text
        await it.press("enter")
        assert "as before" in it.text
        await it.press("escape")
        assert "[3 Pictures]" in it.text

    drive(script, ANSWERS)
    assert texts(folder) == before
    assert journal.last(folder) is None


def test_going_back_writes_nothing(drive: Drive, folder: Path) -> None:
    before = texts(folder)

    async def script(it: Driven) -> None:
        await pictures(it)
        await it.press("f2")
        await choose(it, "replace")
        await it.type("dog")
        await it.press("enter")
        await it.type("cat")
        await it.press("enter")
        assert "+ a cat" in it.text
        await it.press("escape", "escape")
        assert "[3 Pictures]" in it.text

    drive(script, ANSWERS)
    assert texts(folder) == before


def test_tags_are_counted(drive: Drive, folder: Path) -> None:
    async def script(it: Driven) -> None:
        await pictures(it)
        await it.press("f2")
        await choose(it, "count")
        assert "3  a dog" in it.text
        assert texts(folder) == {f"{n}.txt": b"a dog" for n in range(3)}

    drive(script, ANSWERS)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_a_folder_of_named_folders_becomes_sources(
    drive: Drive, here: Path, size: tuple[int, int]
) -> None:
    for name in ("40_ohwx man", "10_sks dog"):
        (here / "set" / name).mkdir(parents=True)
        (here / "set" / name / "0.png").write_bytes((here / place.PICTURES / "0.png").read_bytes())

    async def script(it: Driven) -> None:
        await pictures(it)
        await it.type("set")
        await it.press("enter", "enter")
        assert "set/10_sks dog: 10 times, trigger sks dog" in it.text
        assert "set/40_ohwx man: 40 times, trigger ohwx man" in it.text
        assert "50 an epoch" in it.text
        # Captions that are written now are looked at again.
        await it.press("f2")
        await choose(it, "fill")
        await it.press("enter", "escape")
        assert "captions    2 of 2" in it.text

    drive(script, None, size=size)
    assert (here / "set/40_ohwx man/0.txt").read_text() == "ohwx man"
