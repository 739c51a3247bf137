"""What is no UTF-8 is refused with the code page it looks like and a command that mends it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.dataset import captions
from lorakit.dataset.code_pages import guesses
from lorakit.dataset.encodings import decode
from lorakit.dataset.sniff import kind
from lorakit.errors import ExitCode, LorakitError

LEGACY = [
    ("cp1252", "a man’s hat"),
    ("cp1252", "ein größer Wagen"),
    ("cp1252", "une fille à la plage, été"),
    ("cp1252", "“quoted” caption — dash"),
    ("cp932", "カタカナ"),
    ("cp932", "女の子、青い髪、笑顔"),
    ("cp932", "1girl, 制服, 笑顔"),
    ("gb18030", "一只狗在草地上"),
    ("gb18030", "1girl, 校服"),
    ("cp949", "개가 잔디 위에 앉아 있다"),
    ("cp949", "1girl, 교복"),
    ("big5", "一隻狗在草地上"),
    ("cp1251", "собака на траве"),
    ("cp1251", "1girl, форма"),
]


def refused(path: Path) -> LorakitError:
    with pytest.raises(LorakitError) as caught:
        captions.read(path)
    assert caught.value.code == ExitCode.DATA
    return caught.value


@pytest.mark.parametrize(("page", "text"), LEGACY)
def test_a_code_page_is_named_and_the_command_mends_the_file(
    tmp_path: Path, page: str, text: str
) -> None:
    path = tmp_path / "it's [a] $HOME" / "-1 .txt"
    path.parent.mkdir()
    path.write_bytes(text.encode(page))
    error = refused(path)
    assert f"it looks like {page}" in error.message
    if shutil.which("iconv"):
        command = error.hint.removeprefix("Save it again as UTF-8: ")
        subprocess.run(["sh", "-c", command], check=True)
        assert captions.read(path) == text
        assert [p.name for p in path.parent.iterdir()] == ["-1 .txt"]


@pytest.mark.parametrize("raw", [b"\x81", bytes(range(0x80, 0x100))])
def test_what_looks_like_nothing_is_given_no_name(raw: bytes) -> None:
    assert guesses(raw) == []


@pytest.mark.parametrize("order", ["utf-16le", "utf-16be"])
def test_utf_16_without_a_mark(tmp_path: Path, order: str) -> None:
    path = tmp_path / "1.txt"
    path.write_bytes("no mark".encode(order))
    assert (
        f"byte 0x00 at {1 if order == 'utf-16le' else 0}; it looks like {order}."
        in refused(path).message
    )


def test_a_name_that_no_screen_can_show_is_given_no_command(tmp_path: Path) -> None:
    path = tmp_path / "a\n\x1b[31m.txt"
    path.write_bytes(b"a man\x92s hat")
    assert refused(path).hint == "Save it again as UTF-8."


def test_a_zero_character_in_utf_16_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "1.txt"
    path.write_bytes(b"\xff\xfe" + "ab\0".encode("utf-16-le"))
    assert "byte 0x00 at 6" in refused(path).message


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_with_their_place(raw: bytes) -> None:
    said = ""
    try:
        decode(raw, "a.txt")
    except LorakitError as error:
        said = error.message
    if said and " at " not in said:  # something else that happens to be no text
        assert kind(raw) != "text"
    elif said:
        at = int(said.split(" at ")[1].split(".")[0].split(";")[0])
        assert f"0x{raw[at]:02x}" in said
    else:
        assert b"\0" not in raw or raw[:2] in (b"\xff\xfe", b"\xfe\xff")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"PK\x03\x04\x14\0\x80",
        b"\0\1\2\3\x80\0",
    ],
    ids=["PNG", "JPEG", "zip", "nothing known"],
)
def test_what_is_no_text_is_never_told_to_be_turned_into_one(tmp_path: Path, raw: bytes) -> None:
    """The command that does so would destroy it."""
    (tmp_path / "a.txt").write_bytes(raw)
    with pytest.raises(LorakitError, match=r"a\.txt is ") as caught:
        captions.read(tmp_path / "a.txt")
    assert "iconv" not in caught.value.hint
