from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lorakit import durable
from lorakit.dataset import captions, difference, edits, journal
from lorakit.errors import ExitCode, LorakitError

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four pictures, of which two have captions, in a folder that kohya would read."""
    inside = tmp_path / "pictures" / "40_ohwx man"
    inside.mkdir(parents=True)
    for n in range(4):
        Image.new("RGB", (8, 8), (n, 0, 0)).save(inside / f"{n}.png")
    (inside / "0.txt").write_bytes(b"\xef\xbb\xbfa dog, Blurry ,beach\r\n")
    (inside / "1.caption").write_bytes("köter, house".encode("utf-16"))
    (inside / "alone.txt").write_text("a dog of no picture")
    return tmp_path / "pictures"


def every_file(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        (edits.trigger("ohwx"), "a dog", "ohwx, a dog"),
        (edits.trigger("ohwx", " "), "a dog", "ohwx a dog"),
        (edits.trigger("ohwx"), "a dog, OHWX", "a dog, OHWX"),
        (edits.trigger("ohwx"), "a dog, ohwxes", "ohwx, a dog, ohwxes"),
        (edits.trigger("ohwx"), "", "ohwx"),
        (edits.replace("dog", "cat"), "a dog, Dog", "a cat, Dog"),
        (edits.replace("dog", "cat", any_case=True), "a dog, Dog", "a cat, cat"),
        (edits.replace(".", ""), "a. dog", "a dog"),
        (edits.replace("dog", r"\1"), "a dog", r"a \1"),
        (edits.replace(r"(\w+) dog", r"dog \1", regex=True), "old dog", "dog old"),
        (edits.remove(["blurry"]), "a dog, Blurry ,beach\n", "a dog,beach\n"),
        (edits.remove(["dog"]), "a dog, beach", "a dog, beach"),
        (edits.remove(["a  dog"]), "a dog, beach", "beach"),
        (edits.remove(["a"], ";"), "a; b", "b"),
        (edits.trigger("ohwx\nman"), "a dog", "ohwx man, a dog"),
        (edits.remove([" ", "a"]), "a,,b", ",b"),
        (edits.each_line(edits.replace(r"\s+$", "", regex=True)), "a \nb \n", "a\nb\n"),
        (edits.each_line(edits.trigger("x")), "a\u2028b", "x, a\u2028b"),
        (
            edits.each_line(edits.trigger("x")),
            "one\n\nx two\r\nthree",
            "x, one\n\nx two\r\nx, three",
        ),
    ],
)
def test_what_a_caption_becomes(change: edits.Change, old: str, new: str) -> None:
    assert change(old) == new


def test_an_expression_that_is_none_is_a_sentence() -> None:
    for find, new in (("(", ""), ("a", r"\2"), ("a", r"\g<b>")):
        with pytest.raises(LorakitError, match="no regular expression"):
            edits.replace(find, new, regex=True)
    with pytest.raises(LorakitError, match="nothing to find"):
        edits.replace("", "x")


@given(TEXTS, TEXTS.filter(str.strip))
def test_a_trigger_is_there_afterwards_and_is_put_there_once(text: str, words: str) -> None:
    change = edits.trigger(words)
    words = captions.folded(words)
    once = change(text)
    assert once.endswith(text) or not text.strip()
    assert captions.holds(once, words) or not words[-1].isalnum()
    if captions.holds(once, words):
        assert change(once) == once


@given(st.lists(TEXTS.filter(lambda t: "," not in t), max_size=6), TEXTS.filter(str.strip))
def test_only_the_named_tag_goes(pieces: list[str], tag: str) -> None:
    left = edits.remove([tag])(",".join(pieces)).split(",")

    def plain(found: list[str]) -> list[str]:
        return [w for piece in found if (w := captions.folded(piece).casefold())]

    wanted = captions.folded(tag).casefold()
    if "," not in tag:
        assert plain(left) == [w for w in plain(pieces) if w != wanted]


def test_a_change_is_planned_made_and_taken_back(folder: Path) -> None:
    before = every_file(folder)
    plan = edits.plan(folder, "leave out blurry", edits.remove(["blurry"]))
    assert every_file(folder) == before
    assert [(e.name, e.old, e.new) for e in plan.edits] == [
        ("40_ohwx man/0.txt", "a dog, Blurry ,beach\r\n", "a dog,beach\r\n")
    ]
    assert plan.same == 1
    journal.apply(plan)
    assert (folder / "40_ohwx man/0.txt").read_bytes() == b"\xef\xbb\xbfa dog,beach\r\n"
    second = edits.plan(folder, "trigger", edits.trigger("ohwx"))
    journal.apply(second)
    assert (folder / "40_ohwx man/1.caption").read_bytes() == "ohwx, köter, house".encode("utf-16")
    last = journal.last(folder)
    assert last is not None
    assert last.what == "trigger"
    assert journal.undo(last) == 2
    first = journal.last(folder)
    assert first is not None
    assert journal.undo(first) == 1
    assert journal.last(folder) is None
    assert every_file(folder) == before
    assert not (folder / journal.FOLDER).exists()


def test_missing_captions_come_from_the_name_of_the_folder(folder: Path) -> None:
    plan = edits.fill(folder)
    assert [(e.name, e.before, e.new) for e in plan.edits] == [
        ("40_ohwx man/2.txt", None, "ohwx man"),
        ("40_ohwx man/3.txt", None, "ohwx man"),
    ]
    before = every_file(folder)
    (entry,) = journal.apply(plan)
    assert edits.fill(folder).edits == ()
    assert journal.undo(entry) == 2
    assert every_file(folder) == before


def test_what_changed_in_between_is_never_overwritten(folder: Path) -> None:
    plan = edits.plan(folder, "cat", edits.replace("dog", "cat"))
    (folder / "40_ohwx man/0.txt").write_text("a dog by hand")
    with pytest.raises(LorakitError, match=r"0\.txt changed since") as raised:
        journal.apply(plan)
    assert raised.value.code == ExitCode.DATA
    assert (folder / "40_ohwx man/0.txt").read_text() == "a dog by hand"
    (entry,) = journal.apply(edits.plan(folder, "cat", edits.replace("dog", "cat")))
    (folder / "40_ohwx man/0.txt").write_text("by hand again")
    with pytest.raises(LorakitError, match="nothing was taken back"):
        journal.undo(entry)
    assert (folder / "40_ohwx man/0.txt").read_text() == "by hand again"
    assert journal.undo(entry, force=True) == 1
    assert (folder / "40_ohwx man/0.txt").read_text() == "a dog by hand"


def test_a_change_that_was_cut_off_can_be_taken_back(folder: Path) -> None:
    """Killed after the old texts were kept and the first of two files was written."""
    before = every_file(folder)
    plan = edits.plan(folder, "trigger", edits.trigger("ohwx"))
    (entry,) = journal.apply(plan)
    second = plan.edits[1]
    assert second.before is not None
    (folder / second.name).write_bytes(second.before)
    assert journal.changed_since(entry) == []
    assert journal.undo(entry) == 1
    assert every_file(folder) == before


def test_a_caption_that_cannot_be_read_is_refused_by_name(folder: Path) -> None:
    (folder / "40_ohwx man/2.txt").write_bytes(b"a man\x92s hat")
    plan = edits.plan(folder, "trigger", edits.trigger("ohwx"))
    assert [e.message for e in plan.refused] == [
        "2.txt is not UTF-8: byte 0x92 at 5; it looks like cp1252."
    ]


def test_a_file_of_old_texts_cannot_reach_outside_its_folder(folder: Path) -> None:
    (folder / journal.FOLDER).mkdir()
    (folder / journal.FOLDER / "000001.json").write_text(
        '{"what": "x", "when": 0, "edits": [{"name": "../../x", "before": null, "after": ""}]}'
    )
    with pytest.raises(LorakitError, match="outside the folder"):
        journal.last(folder)


def test_nothing_to_put_or_leave_out_is_a_sentence() -> None:
    with pytest.raises(LorakitError, match="no trigger"):
        edits.trigger(" ")
    with pytest.raises(LorakitError, match="no tag"):
        edits.remove([" "])


def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders of a picture each, with a caption."""
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name / "0.png")
        (tmp_path / name / "0.txt").write_text("a dog")
        made.append(tmp_path / name)
    return made[0], made[1]


def test_of_several_folders_only_the_last_change_is_taken_back(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    journal.apply(*(edits.plan(f, "trigger", edits.trigger("ohwx")) for f in (a, b)))
    journal.apply(edits.plan(a, "cat", edits.replace("dog", "cat")))
    assert journal.undo(*journal.newest((a, b))) == 1
    assert [(f / "0.txt").read_text() for f in (a, b)] == ["ohwx, a dog"] * 2
    assert journal.undo(*journal.newest((a, b))) == 2
    assert [(f / "0.txt").read_text() for f in (a, b)] == ["a dog"] * 2
    assert journal.newest((a, b)) == ()


def test_one_change_in_several_folders_is_made_in_all_or_in_none(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    plans = [edits.plan(f, "trigger", edits.trigger("ohwx")) for f in (a, b)]
    (b / "0.txt").write_text("by hand")
    with pytest.raises(LorakitError, match="nothing was written"):
        journal.apply(*plans)
    assert (a / "0.txt").read_text() == "a dog"
    entries = journal.apply(*(edits.plan(f, "trigger", edits.trigger("ohwx")) for f in (a, b)))
    (b / "0.txt").write_text("by hand again")
    with pytest.raises(LorakitError, match="nothing was taken back"):
        journal.undo(*entries)
    assert (a / "0.txt").read_text() == "ohwx, a dog"


def test_a_folder_in_another_is_changed_with_it(folder: Path) -> None:
    inside = folder / "40_ohwx man"
    assert edits.outermost([inside, folder, folder]) == [folder]


def test_a_link_stays_a_link(folder: Path) -> None:
    target = folder / "texts" / "dog"
    target.parent.mkdir()
    target.write_text("a dog")
    link = folder / "40_ohwx man" / "2.txt"
    link.symlink_to(target)
    (entry,) = journal.apply(edits.plan(folder, "trigger", edits.trigger("ohwx")))
    assert link.is_symlink()
    assert target.read_text() == "ohwx, a dog"
    journal.undo(entry)
    assert link.is_symlink()
    assert target.read_text() == "a dog"


def test_a_word_that_is_no_text_is_a_sentence(folder: Path) -> None:
    plan = edits.plan(folder, "trigger", edits.trigger("ohwx\udcff"))
    assert {e.message for e in plan.refused} == {"What was typed is not UTF-8."}


def test_a_read_only_caption_is_refused(folder: Path) -> None:
    (folder / "40_ohwx man/0.txt").chmod(0o444)
    plan = edits.plan(folder, "trigger", edits.trigger("ohwx"))
    assert [e.message.endswith("0.txt is read-only.") for e in plan.refused] == [True]


def test_captions_in_tables_are_respected(folder: Path) -> None:
    inside = folder / "40_ohwx man"
    (inside / "metadata.jsonl").write_text('{"file_name": "2.png", "text": "a cat, house"}\n')
    (inside / "3.json").write_text("{broken")
    filled = edits.fill(folder)
    assert filled.edits == ()
    assert [e.message.startswith("3.json") for e in filled.refused] == [True]
    assert edits.plan(folder, "trigger", edits.trigger("ohwx")).elsewhere == 1
    assert edits.tags(folder)["a cat"] == 1


def test_what_a_kill_has_left_is_swept(folder: Path) -> None:
    left = folder / "40_ohwx man" / f"{durable.PREFIX}0123456789abcdef{durable.SUFFIX}"
    left.write_text("half")
    (entry,) = journal.apply(edits.plan(folder, "trigger", edits.trigger("ohwx")))
    assert not left.exists()
    (entry.path.parent / "notes").write_text("of somebody")
    journal.undo(entry)
    assert not entry.path.exists()


def test_tags_are_counted_once_a_caption(folder: Path) -> None:
    (folder / "40_ohwx man/0.txt").write_text("house, a  dog, house")
    assert dict(edits.tags(folder)) == {"house": 2, "a dog": 1, "köter": 1}


def test_a_difference_shows_all_of_what_differs() -> None:
    assert difference.lines("a\nsame", "b\nsame", 40) == ["  - a", "  + b"]
    assert difference.lines("", "new", 40) == ["  + new"]
    assert difference.lines("a\x1b[2J", "b", 40) == ["  - a [2J", "  + b"]
    assert difference.lines("a\n", "a\r\n", 40) == ["  only line ends differ"]


@given(TEXTS, TEXTS, st.integers(30, 100))
def test_a_difference_fits_the_screen(old: str, new: str, width: int) -> None:
    assert all(len(line) <= width for line in difference.lines(old, new, width))
