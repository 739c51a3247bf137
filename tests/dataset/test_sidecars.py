"""Captions and boxes are found wherever they are, the first place wins, and nothing is silent."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorakit.bundle.models import Captions
from lorakit.dataset import entries, folders
from lorakit.dataset.captions import folded
from lorakit.dataset.sidecars import LONELY, Reader, Sidecar, why_unused


def reader(folder: Path, **settings: object) -> Reader:
    return Reader(folder, folders.walk(folder), Captions.model_validate(settings))


def beside(folder: Path, name: str = "a.png", **settings: object) -> Sidecar:
    return reader(folder, **settings).of(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.png", "b.png", "sub/c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"caption": "a  red\n dog"}, ("a red dog",)),
        ({"text": "a dog"}, ("a dog",)),
        ({"captions": ["one", "", "two"]}, ("one", "two")),
        ({"caption": ["one", "two"]}, ("one", "two")),
        ({"tags": ["1girl", "solo"]}, ("1girl, solo",)),
        ({"tags": "1girl, solo"}, ("1girl, solo",)),
        ({"caption": "a dog", "tags": ["dog"], "text": "x"}, ("a dog",)),
        ({"captions": None, "text": "a dog"}, ("a dog",)),
        ({"score": 7}, ()),
        ({"caption": "カタカナ \U0001f389"}, ("カタカナ 🎉",)),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json(
    folder: Path, said: dict[str, object], wanted: tuple[str, ...], encoding: str
) -> None:
    text = json.dumps(said, ensure_ascii=encoding == "utf-8")
    (folder / "a.JSON").write_bytes(text.encode(encoding))
    found = beside(folder)
    assert found.captions == wanted
    assert found.name == ("a.JSON" if wanted else None)
    assert found.empty == (() if wanted else ("a.JSON",))
    assert reader(folder).used == {"a.JSON"}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"{", "a.json is not JSON: Expecting property name enclosed in double quotes at column 2"),
        (b"{}\n{}", "is not JSON: Extra data at line 2"),
        (b"[1]", "is not a table of keys and values"),
        (b"[" * 100_000, "is nested too deep"),
        (b'{"caption": 5}', "has 5 as caption, which is no text"),
        (b'{"tags": ["a", null]}', "has null as tags, which is no text"),
        (b'{"text": "\\ud800"}', "has half a character in text"),
        (b'{"caption": "a man\x92s hat"}', "byte 0x92 at 18; it looks like cp1252"),
        (b'{"box": [1, 2, 3]}', "has the box [1, 2, 3], and a box is [left, top, right, bottom]"),
        (b'{"box": [9, 2, 3, 4]}', "has the box [9, 2, 3, 4]"),
        (b'{"box": [0, 0, true, 1]}', "has the box [0, 0, true, 1]"),
        (b'{"box": [0, 0, NaN, 1]}', "has the box"),
        (b'{"box": [-1, 0, 1, 1]}', "has the box [-1, 0, 1, 1]"),
    ],
)
def test_json_that_cannot_be_read_is_named(folder: Path, raw: bytes, words: str) -> None:
    (folder / "a.json").write_bytes(raw)
    [(name, error)] = beside(folder).broken
    assert name == "a.json"
    assert words in error.message


@pytest.mark.parametrize(
    ("box", "wanted"),
    [
        ([10, 20, 60, 80], (0.1, 0.1, 0.6, 0.4)),
        ([0.1, 0.1, 0.6, 0.4], (0.1, 0.1, 0.6, 0.4)),
        ([50, 100, 500, 500], (0.5, 0.5, 1.0, 1.0)),
        ([0, 0, 1, 1], (0.0, 0.0, 1.0, 1.0)),
        ([100, 0, 200, 10], None),
    ],
)
def test_a_box_in_pixels_or_shares(
    folder: Path, box: list[float], wanted: tuple[float, ...] | None
) -> None:
    (folder / "a.txt").write_text("a dog")
    (folder / "a.json").write_text(json.dumps({"box": box}))
    found = beside(folder)
    assert found.captions == ("a dog",)
    assert (found.empty, found.unlike) == ((), ())
    assert found.box == tuple(box)
    assert entries.shares(found.box, 100, 200) == wanted


JSONL = '{"file_name": "a.png", "text": "from jsonl"}\n'
CSV = "file_name,text\na.png,from csv\n"


def test_the_first_place_that_says_something_wins_and_the_others_are_named(folder: Path) -> None:
    places = {
        "a.txt": "from txt",
        "a.caption": "from caption",
        "a.json": '{"caption": "from json"}',
        "metadata.jsonl": JSONL,
        "metadata.csv": CSV,
    }
    for name, text in places.items():
        (folder / name).write_text(text)
    for at, name in enumerate(places):
        found = beside(folder)
        assert found.captions == (f"from {name.rsplit('.')[-1]}",)
        assert found.name == name
        assert found.unlike == tuple(places)[at + 1 :]
        (folder / name).unlink()
    assert beside(folder) == Sidecar()


def test_an_empty_file_gives_way_and_is_named_and_what_says_the_same_is_not(folder: Path) -> None:
    (folder / "a.txt").write_text(" \n")
    (folder / "a.caption").write_text("a dog")
    (folder / "a.json").write_text('{"text": "a  dog"}')
    found = beside(folder)
    assert (found.captions, found.empty, found.unlike) == (("a dog",), ("a.txt",), ())


def test_lines_are_captions_of_their_own(folder: Path) -> None:
    (folder / "a.txt").write_bytes("one\r\n\r\n two  x \rthree".encode("utf-16"))
    assert beside(folder, lines=True).captions == ("one", "two x", "three")
    assert beside(folder).captions == ("one two x three",)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("metadata.jsonl", '\n{"file_name": "a.png", "text": "a dog"}\n', {"a.png": ("a dog",)}),
        (
            "METADATA.JSONL",
            '{"file_name": "./sub\\\\c.png", "caption": "x"}',
            {"sub/c.png": ("x",)},
        ),
        (
            "metadata.jsonl",
            '{"file_name": "a.png", "text": "one"}\n{"file_name": "a.png", "text": "two"}',
            {"a.png": ("one", "two")},
        ),
        ("metadata.jsonl", '{"file_name": "a.png", "captions": ["x", "y"]}', {"a.png": ("x", "y")}),
        (
            "metadata.jsonl",
            '{"file_name": "a.png", "what": "a cat", "n": 1}',
            {"a.png": ("a cat",)},
        ),
        ("metadata.jsonl", '{"file_name": "a.png", "one": "x", "two": "y"}', {"a.png": ()}),
        ("metadata.jsonl", '{"file_name": "a.png", "text": "a\u2028b"}', {"a.png": ("a b",)}),
        ("sub/metadata.csv", "file_name,text\r\nc.png,a dog\r\n", {"sub/c.png": ("a dog",)}),
        (
            "metadata.csv",
            'text,file_name,n\n"a ""big"" dog,\nrunning",a.png,1\n\nb,sub/c.png,2',
            {"a.png": ('a "big" dog, running',), "sub/c.png": ("b",)},
        ),
        ("metadata.csv", "file_name,additional\na.png,a cat", {"a.png": ("a cat",)}),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_tables(
    folder: Path, name: str, text: str, wanted: dict[str, tuple[str, ...]], encoding: str
) -> None:
    (folder / name).write_bytes(text.encode(encoding))
    read = reader(folder)
    assert read.broken == []
    for picture in ("a.png", "b.png", "sub/c.png"):
        assert read.of(picture).captions == wanted.get(picture, ())
    assert read.used == {name}


def test_a_box_in_a_table(folder: Path) -> None:
    (folder / "metadata.csv").write_text('file_name,text,box\na.png,x,"[1, 2, 30, 40]"\nb.png,y,\n')
    assert beside(folder).box == (1, 2, 30, 40)
    assert beside(folder, "b.png").box is None


def test_the_innermost_table_is_believed(folder: Path) -> None:
    (folder / "metadata.jsonl").write_text('{"file_name": "sub/c.png", "text": "outer"}')
    (folder / "sub/metadata.csv").write_text("file_name,text\nc.png,inner")
    found = beside(folder, "sub/c.png")
    assert (found.captions, found.unlike) == (("inner",), ("metadata.jsonl",))


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("metadata.jsonl", b'{"file_name": "a.png"}\n{"text": 1}', "line 2 has no file_name"),
        ("metadata.jsonl", b'\n{"file_name": "a.png", "text": 1}', "line 2 has 1 as text"),
        ("metadata.jsonl", b'{"file_name": "a.png",\n', "line 1 is not JSON"),
        ("metadata.jsonl", b'{"file_name": "a.png", "text": "\x92"}', "byte 0x92 at 32"),
        ("metadata.csv", b"file_name;text\na.png;x", "metadata.csv has no column file_name: its"),
        ("metadata.csv", b"", "metadata.csv is empty"),
        (
            "metadata.csv",
            b"file_name,text\na.png,x, y",
            "line 2 has 3 columns and the first line 2",
        ),
        ("metadata.csv", b'file_name,text\na.png,"x" y', "line 2 is not CSV"),
    ],
)
def test_a_table_that_cannot_be_read_is_named_with_its_line(
    folder: Path, name: str, raw: bytes, words: str
) -> None:
    (folder / name).write_bytes(raw)
    [(said, error)] = reader(folder).broken
    assert said == name
    assert words in error.message


def test_rows_about_pictures_that_are_not_there(folder: Path) -> None:
    rows = ("a.png", "gone.png", "../a.png", "/etc/a.png")
    text = "".join(json.dumps({"file_name": row, "text": "x"}) + "\n" for row in rows)
    (folder / "metadata.jsonl").write_text(text)
    assert reader(folder).astray == {"metadata.jsonl": ["gone.png", "../a.png", "/etc/a.png"]}


def test_what_is_not_read_has_its_reason(folder: Path) -> None:
    for name in ("metadata.parquet", "meta_cap.json", "lone.json", "notes.md"):
        (folder / name).touch()
    assert set(reader(folder).unread) == {"metadata.parquet", "meta_cap.json"}
    assert why_unused("sub/lone.JSON") == why_unused("lone.txt") == LONELY
    assert why_unused("notes.md") is None


TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=30)


@settings(max_examples=60)
@given(
    rows=st.dictionaries(st.sampled_from(["a.png", "b.png", "sub/c.png"]), TEXT, min_size=1),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_any_text_comes_back_from_a_table(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[str, str], encoding: str
) -> None:
    folder = tmp_path_factory.mktemp("table")
    made = io.StringIO(newline="")
    csv.writer(made).writerows([("file_name", "text"), *rows.items()])
    lines = [json.dumps({"file_name": n, "text": t}, ensure_ascii=False) for n, t in rows.items()]
    for name, text in (("metadata.csv", made.getvalue()), ("metadata.jsonl", "\n".join(lines))):
        (folder / name).write_bytes(text.encode(encoding))
        [table] = Reader(
            folder, folders.Contents(pictures=list(rows), others={name: ""}), Captions()
        ).tables
        assert {n: "".join(e.captions) for n, e in table.entries.items()} == {
            n: folded(t) for n, t in rows.items()
        }
