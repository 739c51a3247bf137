"""A scan accounts for every file, in any naming, and finds all faults before training."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from lorakit.bundle.models import Dataset, Source
from lorakit.bundle.problems import Problem
from lorakit.dataset.report import DatasetReport
from lorakit.dataset.scan import scan
from lorakit.errors import ExitCode
from lorakit.families.base_model import BaseFacts


def base(folder: Path | None = None, token_limit: int = 75) -> BaseFacts:
    return BaseFacts(
        model="a/b",
        folder=folder,
        family="sd1",
        resolution=64,
        size_step=8,
        latent_factor=4,
        token_limit=token_limit,
        prediction="epsilon",
        weight_bytes=None,
    )


def picture(path: Path, width: int = 64, height: int = 64, shade: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = {".jpg": "JPEG", ".jpeg": "JPEG"}.get(path.suffix.lower(), "PNG")
    # The name goes into the colour, so that no two pictures are the same by accident.
    colour = (shade, len(path.name) * 7 % 256, sum(os.fsencode(path.name)) % 256)
    Image.new("RGB", (width, height), colour).save(path, format=kind)
    return path


def looked(folder: Path, facts: BaseFacts | None = None, **source: object) -> DatasetReport:
    dataset = Dataset(sources=(Source(path=str(folder), **source),), resolution=64)  # type: ignore[arg-type]
    return scan(dataset, folder, facts or base())


def found(report: DatasetReport, words: str) -> Problem:
    hits = [f for f in report.findings if words in f.what]
    assert len(hits) == 1, [f.what for f in report.findings]
    return hits[0]


def names(report: DatasetReport) -> list[str]:
    return [p.name for p in report.pictures]


def test_pictures_and_captions_in_any_spelling(tmp_path: Path) -> None:
    for name in ("IMG_1.JPG", "b.Png", "c.jPeG"):
        picture(tmp_path / name)
    (tmp_path / "IMG_1.TXT").write_text("one")
    (tmp_path / "b.Caption").write_text("two")
    report = looked(tmp_path)
    assert {p.name: p.caption for p in report.pictures} == {
        "IMG_1.JPG": "one",
        "b.Png": "two",
        "c.jPeG": "",
    }
    assert report.captioned == 2
    assert "c.jPeG" in found(report, "1 of 3 pictures have no caption").what


def test_system_files_are_counted_and_left_alone(tmp_path: Path) -> None:
    for n in range(3):
        picture(tmp_path / f"photo{n}.jpg", 64 + n)
    (tmp_path / "._photo1.jpg").write_bytes(b"\0\x05\x16\x07\0\x02\0\0")
    (tmp_path / "._photo1.txt").write_bytes(b"\0\x05\x16\x07")
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (tmp_path / name).write_bytes(b"x")
    picture(tmp_path / "__MACOSX" / "photo0.jpg")
    report = looked(tmp_path, trigger="ohwx")
    assert len(report.pictures) == 3
    assert report.ignored == 6
    assert report.findings == ()
    assert [p.caption for p in report.pictures] == ["ohwx"] * 3


def test_every_file_is_accounted_for(tmp_path: Path) -> None:
    picture(tmp_path / "a.jpg")
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.jpg").write_bytes(b"no picture")
    (tmp_path / "notes.md").write_text("x")
    (tmp_path / "lonely.txt").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling.jpg")
    os.mkfifo(tmp_path / "pipe.png")
    report = looked(tmp_path)
    assert names(report) == ["a.jpg"]
    assert [u.name for u in report.unusable] == ["b.jpg"]
    assert report.captions == 1
    assert {o.name: o.why for o in report.others} == {
        "dangling.jpg": "a link that leads nowhere",
        "lonely.txt": "beside no picture of its name",
        "notes.md": "text",
        "pipe.png": "no file: a pipe or a device",
    }
    assert report.ignored == 1
    assert report.files == sum(report.account.values()) == len(list(tmp_path.iterdir()))
    assert "lonely.txt" in found(report, "without a picture").what


def test_nested_folders_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b/2.png", "a/10.png", "a/9.png", "1.png", "b/c/3.png"):
        picture(tmp_path / name)
    (tmp_path / "b" / "2.txt").write_text("two")
    report = looked(tmp_path, trigger="x")
    assert names(report) == ["1.png", "a/10.png", "a/9.png", "b/2.png", "b/c/3.png"]
    assert report.pictures[3].caption == "x two"


def test_links_are_followed_once(tmp_path: Path) -> None:
    picture(tmp_path / "set" / "one.png")
    picture(tmp_path / "elsewhere" / "two.png")
    (tmp_path / "set" / "loop").symlink_to(tmp_path / "set")
    (tmp_path / "set" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set" / "again").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set" / "three.png").symlink_to(picture(tmp_path / "away.png"))
    report = looked(tmp_path / "set", trigger="x")
    assert names(report) == ["again/two.png", "one.png", "three.png"]


def test_a_folder_given_twice_is_said_so(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    sources = (Source(path=".", trigger="x"), Source(path=".", trigger="y"))
    report = scan(Dataset(sources=sources, resolution=64), tmp_path, base())
    assert [p.caption for p in report.pictures] == ["x", "y"]
    assert found(report, "1 picture in more than one source").severity == "warning"
    assert not [f for f in report.findings if "The same picture" in f.what]


def test_a_picture_called_a_caption_is_named_once(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    picture(tmp_path / "b.txt")
    os.symlink("nowhere.txt", tmp_path / "c.txt")
    report = looked(tmp_path, trigger="x")
    assert {o.name: o.why for o in report.others} == {
        "b.txt": "PNG with another extension",
        "c.txt": "a link that leads nowhere",
    }
    assert "b.txt" in found(report, "another extension").what
    assert not [f for f in report.findings if "without a picture" in f.what]


def test_folders_may_lie_deeper_than_python_s_stack(tmp_path: Path) -> None:
    deep = str(tmp_path / "set")
    os.mkdir(deep)
    try:
        for _ in range(1100):
            os.mkdir(deep := f"{deep}/d")
        picture(Path(deep, "a.png"))
        report = looked(tmp_path / "set", trigger="x")
        assert names(report) == ["d/" * 1100 + "a.png"]
        assert report.files == 1
    finally:  # else pytest, which removes by recursion, leaves them behind
        subprocess.run(["rm", "-r", tmp_path / "set"], check=True)


@pytest.mark.parametrize(
    "name",
    [
        "[set A] (v2)/img [1].png",
        "with space/#1 100% 'quoted'.png",
        "line\nbreak.png",
        "-dash.png",
        "smile \N{GRINNING FACE}.png",
        "e\u0301.png",
        "[/red]*?.png",
        os.fsdecode(b"latin \xe9.png"),
    ],
)
def test_odd_names_are_only_names(tmp_path: Path, name: str) -> None:
    path = picture(tmp_path / name)
    path.with_suffix(".txt").write_text("words")
    report = looked(tmp_path)
    assert names(report) == [name]
    assert report.pictures[0].caption == "words"
    assert json.loads(json.dumps(report.as_dict()))["pictures"][0]["path"] == str(path)
    assert len(report.digest) == 64


def test_dotted_stems_pair_with_their_own_caption(tmp_path: Path) -> None:
    for stem in ("aaa.bbb", "aaa.ccc"):
        picture(tmp_path / f"{stem}.jpg")
        (tmp_path / f"{stem}.txt").write_text(stem)
    assert [p.caption for p in looked(tmp_path).pictures] == ["aaa.bbb", "aaa.ccc"]


def test_a_shared_caption_is_said_so(tmp_path: Path) -> None:
    picture(tmp_path / "dog.jpg")
    picture(tmp_path / "dog.png", 72)
    (tmp_path / "dog.txt").write_text("a dog")
    report = looked(tmp_path)
    assert [p.caption for p in report.pictures] == ["a dog", "a dog"]
    assert found(report, "share one caption: dog").severity == "warning"


def test_two_captions_of_one_picture_are_said_so(tmp_path: Path) -> None:
    picture(tmp_path / "dog.jpg")
    (tmp_path / "dog.txt").write_text("from txt")
    (tmp_path / "dog.caption").write_text("from caption")
    report = looked(tmp_path)
    assert report.pictures[0].caption == "from txt"
    said = found(report, "captions in more than one place").what
    assert said.endswith("dog.jpg (dog.txt is used, not dog.caption).")


def test_no_captions_and_no_trigger_stops(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    problem = found(looked(tmp_path), "None of 1 picture has a caption")
    assert (problem.severity, problem.where) == ("error", "dataset.sources[0].trigger")
    assert looked(tmp_path, trigger="ohwx").findings == ()


def test_a_broken_caption_is_an_error_by_name(tmp_path: Path) -> None:
    picture(tmp_path / "1.png")
    (tmp_path / "1.txt").write_bytes(b"a man\x92s hat")
    problem = found(looked(tmp_path, trigger="x"), "byte 0x92 at 5")
    assert (problem.severity, problem.where, problem.code) == ("error", "1.txt", ExitCode.DATA)


def test_an_unreadable_picture_is_an_error_by_name(tmp_path: Path) -> None:
    picture(tmp_path / "good.png")
    raw = picture(tmp_path / "sub" / "cut.png", 300, 300).read_bytes()
    (tmp_path / "sub" / "cut.png").write_bytes(raw[: len(raw) // 2])
    report = looked(tmp_path, trigger="x")
    assert names(report) == ["good.png"]
    problem = found(report, "cut.png")
    assert (problem.severity, problem.where, problem.code) == (
        "error",
        "sub/cut.png",
        ExitCode.DATA,
    )


def test_the_same_picture_twice_is_a_warning(tmp_path: Path) -> None:
    raw = picture(tmp_path / "a.png").read_bytes()
    (tmp_path / "b.png").write_bytes(raw)
    assert found(looked(tmp_path, trigger="x"), "a.png, b.png").severity == "warning"


def test_a_picture_under_another_extension_is_not_lost_in_silence(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    picture(tmp_path / "b.png.bak")
    report = looked(tmp_path, trigger="x")
    assert names(report) == ["a.png"]
    assert found(report, "another extension").severity == "warning"


def test_buckets_sizes_and_upscaling(tmp_path: Path) -> None:
    picture(tmp_path / "square.png", 64, 64)
    picture(tmp_path / "tall.png", 300, 400)
    picture(tmp_path / "tiny.png", 16, 16)
    picture(tmp_path / "line.png", 600, 8)
    report = looked(tmp_path, trigger="x", repeats=3)
    assert report.buckets == {(64, 64): 2, (56, 72): 1, (128, 32): 1}
    assert report.epoch == 12
    assert report.upscaled == 2
    assert report.kept is not None
    assert 0.5 < report.kept < 1
    soft = found(report, "more than twice as large")
    assert "tiny.png 16 x 16 (4.0x)" in soft.what
    assert "line.png" in found(report, "longer than 4:1").what


def test_turned_pictures_have_the_bucket_of_what_is_seen(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (96, 48)).save(tmp_path / "a.jpg", exif=exif)
    report = looked(tmp_path, trigger="x")
    only = report.pictures[0]
    assert (only.width, only.height) == (48, 96)
    assert only.fit.height > only.fit.width
    assert report.turned == 1


def test_captions_longer_than_the_encoder_reads(
    tmp_path: Path, tiny_tokenizer: Callable[[Path], Path]
) -> None:
    facts = base(tiny_tokenizer(tmp_path / "base"), token_limit=10)
    picture(tmp_path / "set" / "long.png")
    (tmp_path / "set" / "long.txt").write_text("abcdef ghijkl last words")
    picture(tmp_path / "set" / "short.png")
    (tmp_path / "set" / "short.txt").write_text("abc")
    report = looked(tmp_path / "set", facts)
    assert report.too_long == 1
    assert [p.tokens for p in report.pictures] == [21, 3]
    problem = found(report, "1 caption longer than 10 tokens")
    assert "long.png (21)" in problem.what
    assert "last words" in problem.fix
    louder = [f.what for f in looked(tmp_path / "set", facts, trigger="words").findings]
    assert "never learned there: long.png" in louder[0]
    assert looked(tmp_path / "set", base(tmp_path)).too_long is None


def test_a_missing_folder_is_named_with_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "photos" / "dogs").mkdir(parents=True)
    dataset = Dataset(sources=(Source(path="photos/dog/2024"),))
    report = scan(dataset, tmp_path, base())
    problem = found(report, "photos/dog/2024 does not exist")
    assert problem.where == "dataset.sources[0].path"
    assert str(tmp_path / "photos") in problem.fix
    assert "dogs" in problem.fix
    assert report.pictures == ()


def test_a_file_given_as_folder(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    assert str(tmp_path) in found(looked(path), "is a file").fix


def test_a_folder_without_pictures_says_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.mp4", "b.mp4", "sub/c.pdf", ".DS_Store"):
        (tmp_path / name).write_bytes(b"x")
    problem = found(looked(tmp_path), "No pictures in")
    assert "2 .mp4, 1 .pdf, and 1 system file" in problem.what
    assert "1 folder in it" in problem.what
    assert ".jpg" in problem.fix


def test_kohya_folder_names_are_not_read_as_repeats(tmp_path: Path) -> None:
    picture(tmp_path / "10_ohwx man" / "a.png")
    report = looked(tmp_path, trigger="x")
    assert report.epoch == 1
    assert "10_ohwx man" in found(report, "not read as repeats").what
    for name in ("0_x", "_10", "10_", "1e3_x", "-3_x", "12345_x", "40 x", "\uff11\uff10_x"):
        picture(tmp_path / "others" / name / "a.png")
    assert not [
        f for f in looked(tmp_path / "others", trigger="x").findings if "repeats" in f.where
    ]


def test_digest_counts_content_and_not_the_place(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        picture(tmp_path / folder / "a.png")
        (tmp_path / folder / "a.txt").write_text("a dog")
    first, second = looked(tmp_path / "one"), looked(tmp_path / "two")
    assert first.digest == second.digest
    assert first.digest != looked(tmp_path / "one", repeats=2).digest
    assert first.digest != looked(tmp_path / "one", trigger="x").digest
    (tmp_path / "two" / "a.txt").write_text("a cat")
    assert first.digest != looked(tmp_path / "two").digest
    picture(tmp_path / "one" / "a.png", shade=9)
    assert first.digest != looked(tmp_path / "one").digest


def test_two_sources_and_progress(tmp_path: Path) -> None:
    for n in range(3):
        picture(tmp_path / "one" / f"{n}.png")
    picture(tmp_path / "two" / "9.png", 80)
    seen: list[tuple[int, int]] = []
    dataset = Dataset(
        sources=(Source(path="one", trigger="a"), Source(path="two", trigger="b", repeats=5)),
        resolution=64,
    )
    report = scan(dataset, tmp_path, base(), lambda done, total: seen.append((done, total)))
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert [(p.source, p.caption) for p in report.pictures] == [(0, "a")] * 3 + [(1, "b")]
    assert report.epoch == 8


def test_what_has_been_seen_can_be_asked_for_on_the_way(tmp_path: Path) -> None:
    for n in range(2):
        picture(tmp_path / "one" / f"{n}.png")
    (tmp_path / "one" / "1 cut.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "one" / "notes.pdf").write_bytes(b"%PDF")
    picture(tmp_path / "two" / "9.png")
    seen: list[DatasetReport] = []
    dataset = Dataset(sources=(Source(path="one"), Source(path="two")), resolution=64)
    report = scan(dataset, tmp_path, base(), partly=lambda made: seen.append(made()))
    assert [(len(r.pictures), len(r.unusable), len(r.others)) for r in seen] == [
        (1, 0, 0),
        (1, 1, 0),
        (2, 1, 0),
        (3, 1, 1),
    ]
    assert seen[-1].findings == ()
    assert seen[-1].pictures == report.pictures
    assert seen[-1].account == report.account


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    picture(tmp_path / "a.png").chmod(0)
    (tmp_path / "closed").mkdir(mode=0)
    report = looked(tmp_path, trigger="x")
    assert "chmod u+r" in found(report, "a.png may not be read").fix
    assert "closed" in found(report, "Folders that may not be read").what
