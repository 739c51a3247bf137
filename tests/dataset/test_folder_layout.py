"""Folders of any layout become sources: flat, nested, and those that name their repeats."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lorakit.bundle.models import Dataset, Source
from lorakit.dataset.layout import layout, repeated
from lorakit.dataset.scan import scan
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.base_model import usual


def picture(path: Path, caption: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (len(os.fsencode(path)) % 256, 9, 9)).save(path)
    if caption:
        path.with_suffix(".txt").write_text(caption)


def sources(folder: Path) -> list[tuple[str, int, str]]:
    return [(os.path.relpath(s.path, folder), s.repeats, s.trigger) for s in layout(folder)]


@pytest.mark.parametrize(
    "name",
    ["New (42)", "goth", "_10", "10_", "10_ ", "0_x", "-3_x", "010_x", "1e3_x", "40 ohwx man",
     "10000_x", "٤٠_x", "４０_x", "+4_x", "4.0_x", " 4_x"],
)  # fmt: skip
def test_an_ordinary_name_is_one_source_seen_once(name: str, tmp_path: Path) -> None:
    assert repeated(name) is None
    picture(tmp_path / name / "(1).png")
    assert sources(tmp_path) == [(".", 1, "")]
    assert sources(tmp_path / name) == [(".", 1, "")]


@pytest.mark.parametrize(
    ("name", "repeats", "subject"),
    [("10_ohwx man", 10, "ohwx man"), ("40_ohwx_man", 40, "ohwx_man"), ("1_x", 1, "x"),
     ("9999_x", 9999, "x"), ("3__x", 3, "_x")],
)  # fmt: skip
def test_a_name_with_repeats_means_the_same_as_child_and_as_given(
    name: str, repeats: int, subject: str, tmp_path: Path
) -> None:
    picture(tmp_path / "img" / name / "a.png")
    assert sources(tmp_path / "img") == [(name, repeats, subject)]
    assert sources(tmp_path / "img" / name) == [(".", repeats, subject)]
    assert sources(tmp_path) == [(f"img/{name}", repeats, subject)]


def test_the_name_is_no_trigger_where_pictures_have_captions(tmp_path: Path) -> None:
    picture(tmp_path / "5_dog" / "a.png", "a dog")
    picture(tmp_path / "5_dog" / "b.png")
    picture(tmp_path / "7_cat" / "deep" / "a.png")
    (tmp_path / "7_cat" / "deep" / "a.txt").write_text(" \n")
    assert sources(tmp_path) == [("5_dog", 5, ""), ("7_cat", 7, "cat")]


def test_nothing_beside_such_folders_is_lost_or_counted_twice(tmp_path: Path) -> None:
    for name in ("[set A] (v2)/10_ohwx man/img [1].png", "10_b/2_c/d.png", "e.png", "f/g.png"):
        picture(tmp_path / name)
    assert sources(tmp_path) == [
        (".", 1, ""),
        ("10_b", 10, "b"),
        ("[set A] (v2)/10_ohwx man", 10, "ohwx man"),
    ]
    report = scan(Dataset(sources=layout(tmp_path), resolution=64), tmp_path, usual("sd1"))
    assert {(p.name, p.repeats) for p in report.pictures} == {
        ("e.png", 1), ("f/g.png", 1), ("2_c/d.png", 10), ("img [1].png", 10),
    }  # fmt: skip
    assert sum(report.account.values()) == report.files == 4
    assert not [f for f in report.findings if "not read as repeats" in f.what]


def test_a_source_inside_another_is_no_part_of_that_in_any_order(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    picture(tmp_path / "b" / "c.png")
    (tmp_path / "again").symlink_to(tmp_path / "b")
    outer, inner = Source(path="."), Source(path="b", repeats=3)
    for both in ((outer, inner), (inner, outer)):
        report = scan(Dataset(sources=both, resolution=64), tmp_path, usual("sd1"))
        assert report.epoch == 4
        assert {o.name: o.why for o in report.others} == {
            "again": "a link to a folder that is here already"
        }


def test_a_folder_that_no_bundle_can_name_is_refused(tmp_path: Path) -> None:
    for name in (b"3_a\nb", b"3_a\xff"):
        picture(tmp_path / os.fsdecode(name) / "a.png")
        with pytest.raises(LorakitError, match="no bundle can name it") as raised:
            layout(tmp_path)
        assert raised.value.code == ExitCode.DATA
        (tmp_path / os.fsdecode(name) / "a.png").unlink()
        (tmp_path / os.fsdecode(name)).rmdir()


@given(st.integers(1, 9999), st.text(min_size=1).filter(str.strip))
def test_what_is_written_is_read(repeats: int, subject: str) -> None:
    assert repeated(f"{repeats}_{subject}") == (repeats, subject.strip())
