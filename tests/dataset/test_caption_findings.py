"""Whatever is doubtful about captions is said before training, with names and numbers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image

from lorakit.bundle.models import Dataset, Source
from lorakit.bundle.problems import Problem
from lorakit.dataset.report import DatasetReport
from lorakit.dataset.scan import scan
from lorakit.errors import ExitCode
from lorakit.families.base_model import usual

WORDS = " ".join(f"word {n}" for n in range(60))
"""About 120 words; each digit is a token."""


def pictures(folder: Path, *names: str) -> None:
    for name in names:
        colour = (len(name) * 7 % 256, sum(os.fsencode(name)) % 256, 0)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (512, 512), colour).save(folder / name)


def looked(
    folder: Path, how: dict[str, object] | None = None, family: str = "sd1", **source: object
) -> DatasetReport:
    told = Source.model_validate({"path": str(folder), **source})
    dataset = Dataset.model_validate({"sources": [told.model_dump()], "captions": how or {}})
    return scan(dataset, folder, usual(family))


def said(report: DatasetReport, where: str, words: str) -> Problem:
    hits = [f for f in report.findings if words in f.what]
    assert len(hits) == 1, [f.what for f in report.findings]
    assert hits[0].where == where
    return hits[0]


@pytest.mark.parametrize("suffixes", [(".txt",) * 10, (".caption",) * 10, (".txt", ".caption") * 5])
def test_captions_of_either_extension_are_found(tmp_path: Path, suffixes: tuple[str, ...]) -> None:
    pictures(tmp_path, *(f"{n}.png" for n in range(10)))
    for n, suffix in enumerate(suffixes):
        (tmp_path / f"{n}{suffix}").write_text(f"dog {n}")
    report = looked(tmp_path)
    assert [p.caption for p in report.pictures] == [f"dog {n}" for n in range(10)]
    assert (report.captioned, report.captions) == (10, 10)
    assert report.findings == ()


def test_no_captions_ask_for_a_trigger_and_some_missing_ones_are_named(tmp_path: Path) -> None:
    pictures(tmp_path, *(f"{n}.png" for n in range(10)))
    stop = said(looked(tmp_path), "dataset.sources[0].trigger", "None of 10 pictures has a caption")
    assert (stop.severity, stop.code) == ("error", ExitCode.DATA)
    assert looked(tmp_path, trigger="ohwx").findings == ()
    assert looked(tmp_path, {"prefix": "a dog"}).findings == ()
    prior = said(looked(tmp_path, prior=True, trigger="ohwx"), "dataset.sources[0].path", "None of")
    assert prior.fix.startswith("Write captions")

    for n in range(7):
        (tmp_path / f"{n}.txt").write_text("a dog")
    some = said(looked(tmp_path), "dataset.sources[0].path", "3 of 10 pictures have no caption")
    assert some.what.endswith("nothing stands for it; without one: 7.png, 8.png, 9.png.")
    some = said(looked(tmp_path, trigger="ohwx"), "dataset.sources[0].path", "3 of 10 pictures")
    assert "they are told only: ohwx; without one: 7.png, 8.png, 9.png" in some.what


@pytest.mark.parametrize("family", ["sd1", "sdxl"])
def test_a_trigger_in_the_part_that_is_cut_off(tmp_path: Path, family: str) -> None:
    pictures(tmp_path, "a.png", "b.png", "c.png", "d.png")
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"{WORDS} ohwx")
    (tmp_path / "d.txt").write_text("an ohwx dog")
    report = looked(tmp_path, family=family, trigger="ohwx")
    assert [p.tokens for p in report.pictures] == [171, 171, 171, 3]
    long = said(report, "dataset.sources", "3 captions longer than 75 tokens")
    assert "a.png (171), b.png (171), c.png (171)" in long.what
    assert "28 word 29 word" in long.fix
    never = said(report, "dataset.sources", "behind the 75 tokens that are read")
    assert "never learned there: a.png, b.png, c.png." in never.what
    # Whichever other way the trigger comes first, it is read.
    for how, trigger in (({"prefix": "ohwx"}, "ohwx"), ({}, "new")):
        report = looked(tmp_path, how, family, trigger=trigger)
        assert not [f for f in report.findings if "The trigger" in f.what]


def test_prefix_and_suffix_count(tmp_path: Path) -> None:
    pictures(tmp_path, "a.png")
    (tmp_path / "a.txt").write_text(" ".join(["dog"] * 74))
    assert looked(tmp_path, trigger="ohwx").findings == ()
    report = looked(tmp_path, {"suffix": ", best"}, trigger="ohwx")
    assert report.pictures[0].tokens == 77
    assert said(report, "dataset.sources", "1 caption longer than 75 tokens").fix.endswith(
        '", best".'
    )


def test_a_trigger_that_moves(tmp_path: Path) -> None:
    pictures(tmp_path, "a.png", "b.png")
    (tmp_path / "a.txt").write_text("ohwx, dog, grass")
    (tmp_path / "b.txt").write_text("dog, sand")
    moving = said(
        looked(tmp_path, {"shuffle": True}, trigger="ohwx"), "dataset.captions.keep", "moves"
    )
    assert "a tag of 1 caption," in moving.what
    assert moving.what.endswith("keep is 0: a.png.")
    assert looked(tmp_path, {"shuffle": True, "keep": 1}, trigger="ohwx").findings == ()
    assert looked(tmp_path, {"shuffle": True}, trigger="other").findings == ()

    (tmp_path / "a.txt").write_text(f"ohwx, {', '.join(WORDS.split())}")
    report = looked(tmp_path, {"shuffle": True}, trigger="ohwx")
    said(report, "dataset.captions.keep", "at times behind the 75 tokens that are read")
    report = looked(tmp_path, {"shuffle": True, "keep": 1}, trigger="ohwx")
    assert [f.what.split(",")[0] for f in report.findings] == ["1 caption longer than 75 tokens"]


def test_files_that_say_nothing_or_something_else(tmp_path: Path) -> None:
    pictures(tmp_path, "a.png", "b.png", "sub/c.png")
    (tmp_path / "a.txt").write_text(" ")
    (tmp_path / "b.txt").write_text("a dog")
    (tmp_path / "metadata.jsonl").write_text(
        '{"file_name": "b.png", "text": "a cat"}\n{"file_name": "sub/c.png", "text": "a bird"}\n'
        '{"file_name": "d.png", "text": "nothing"}\n'
    )
    (tmp_path / "metadata.parquet").touch()
    (tmp_path / "lone.json").write_text("{}")
    where = "dataset.sources[0].path"
    report = looked(tmp_path)
    assert [p.captions for p in report.pictures] == [(), ("a dog",), ("a bird",)]
    assert [p.caption_path for p in report.pictures] == [
        None, tmp_path / "b.txt", tmp_path / "metadata.jsonl",
    ]  # fmt: skip
    said(report, where, "1 caption file without a caption: a.txt")
    said(report, where, "b.png (b.txt is used, not metadata.jsonl)")
    said(report, where, "metadata.jsonl names 1 picture that is not there: d.png")
    said(report, where, "Not read: metadata.parquet (a Parquet table")
    said(report, where, "1 of 3 pictures have no caption")
    assert [o.name for o in report.others] == ["lone.json", "metadata.parquet"]
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(report.pictures) + report.captions + len(report.others) == len(files)


def test_files_that_cannot_be_read_stop_training(tmp_path: Path) -> None:
    pictures(tmp_path, "a.png", "b.png")
    (tmp_path / "a.txt").write_bytes(b"a man\x92s hat")
    (tmp_path / "b.json").write_bytes(b'{"caption": "x", "box": [1]}')
    (tmp_path / "metadata.csv").write_bytes(b"name,text\n")
    report = looked(tmp_path, trigger="ohwx")
    errors = {f.where: f.what for f in report.findings if f.severity == "error"}
    assert set(errors) == {"a.txt", "b.json", "metadata.csv"}
    assert errors["a.txt"] == "a.txt is not UTF-8: byte 0x92 at 5; it looks like cp1252."


def test_a_box_reaches_the_report_as_shares(tmp_path: Path) -> None:
    pictures(tmp_path, "a.png", "b.png")
    (tmp_path / "a.json").write_text('{"text": "x", "box": [128, 0, 256, 512]}')
    (tmp_path / "b.json").write_text('{"text": "x", "box": [600, 0, 700, 512]}')
    report = looked(tmp_path)
    assert [p.box for p in report.pictures] == [(0.25, 0.0, 0.5, 1.0), None]
    said(report, "dataset.sources[0].path", "outside of the picture, and is not used: b.png")


@pytest.mark.parametrize(
    ("how", "text", "where", "words"),
    [
        (
            {"shuffle": True},
            "a dog",
            "separator",
            "No caption has ',' between tags, so shuffle has",
        ),
        (
            {"shuffle": True, "drop_tags": 0.1, "separator": ";"},
            "a, b",
            "separator",
            "No caption has ';' between tags, so shuffle and drop_tags have nothing to do",
        ),
        ({"wildcards": True}, "a {dog}", "wildcards", "No caption has a choice"),
        ({"wildcards": True}, "{a|b} {c", "wildcards", "1 caption with a brace that has no other"),
        ({"lines": True}, "one\n", "lines", "No caption file has more than one line"),
        ({"shuffle": True}, "a, b", "", ""),
        ({"wildcards": True}, "{a|b}", "", ""),
        ({"lines": True}, "one\ntwo", "", ""),
    ],
)
def test_settings_that_have_nothing_to_do(
    tmp_path: Path, how: dict[str, object], text: str, where: str, words: str
) -> None:
    pictures(tmp_path, "a.png")
    (tmp_path / "a.txt").write_text(text)
    report = looked(tmp_path, how)
    if where:
        assert said(report, f"dataset.captions.{where}", words).severity == "warning"
    assert len(report.findings) == bool(where)


def test_prior_pictures_take_no_trigger(tmp_path: Path) -> None:
    pictures(tmp_path, "a.png")
    (tmp_path / "a.txt").write_text("a dog")
    assert looked(tmp_path, trigger="ohwx").pictures[0].caption == "ohwx a dog"
    assert looked(tmp_path, trigger="ohwx", prior=True).pictures[0].caption == "a dog"


def test_the_digest_follows_what_is_learned(tmp_path: Path) -> None:
    pictures(tmp_path, "a.png")
    digests = []
    for text in ("one", "one\ntwo", "one\nthree"):
        (tmp_path / "a.txt").write_text(text)
        digests.append(looked(tmp_path, {"lines": True}).digest)
    (tmp_path / "a.json").write_text('{"box": [0, 0, 9, 9]}')
    digests.append(looked(tmp_path, {"lines": True}).digest)
    assert len(set(digests)) == 4
