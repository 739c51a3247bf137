"""Captions are found in any spelling of their name, decoded or refused by name, and counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.dataset import captions
from lorakit.errors import ExitCode, LorakitError
from lorakit.families import clip_vocabulary


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"a red robot", "a red robot"),
        (b"\xef\xbb\xbfa robot\r\n", "a robot"),
        ("ein größer Wagen".encode(), "ein größer Wagen"),
        ("カタカナ".encode("utf-16"), "カタカナ"),
        (b"\xfe\xff" + "big end".encode("utf-16-be"), "big end"),
        (b"  one\n\n two\tthree \r", "one two three"),
        (b"", ""),
        (b" \n ", ""),
        (b"\xef\xbb\xbf", ""),
    ],
)
def test_read(tmp_path: Path, raw: bytes, wanted: str) -> None:
    (tmp_path / "1.txt").write_bytes(raw)
    assert captions.read(tmp_path / "1.txt") == wanted


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"a man\x92s hat", "byte 0x92 at 5"),
        (b"\x81", "byte 0x81 at 0"),
        (b"\xef\xbb\xbfab\xff", "byte 0xff at 5"),
        ("no mark".encode("utf-16-le"), "byte 0x00 at 1"),
        (b"\xff\xfea", "not UTF-16"),
        (b"x" * 70_000, "longer than 64 KiB"),
    ],
)
def test_what_cannot_be_decoded_is_named_with_its_place(
    tmp_path: Path, raw: bytes, words: str
) -> None:
    (tmp_path / "1.txt").write_bytes(raw)
    with pytest.raises(LorakitError) as caught:
        captions.read(tmp_path / "1.txt")
    assert caught.value.message.startswith("1.txt ")
    assert words in caught.value.message
    assert caught.value.code == ExitCode.DATA


@given(st.text(max_size=200))
def test_any_text_comes_back_folded(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("caption") / "a.txt"
    clean = "".join(c for c in text if c != "\0" and not "\ud800" <= c <= "\udfff")
    path.write_bytes(clean.encode("utf-8"))
    assert captions.read(path) == " ".join(clean.removeprefix("\ufeff").split())


@pytest.mark.parametrize(
    ("caption", "trigger", "wanted"),
    [
        ("sitting on grass", "ohwx dog", "ohwx dog sitting on grass"),
        ("an ohwx dog on grass", "ohwx dog", "an ohwx dog on grass"),
        ("OHWX Dog runs", "ohwx  dog", "OHWX Dog runs"),
        ("a dogma", "dog", "dog a dogma"),
        ("a dog, running", "dog", "a dog, running"),
        ("", "ohwx", "ohwx"),
        ("a dog", "", "a dog"),
        ("a dog", "  ", "a dog"),
        ("", "", ""),
        ("a (c++) logo", "c++", "a (c++) logo"),
        ("a [x] b", ".*", ".* a [x] b"),
    ],
)
def test_with_trigger(caption: str, trigger: str, wanted: str) -> None:
    assert captions.with_trigger(caption, trigger) == wanted


@given(st.text(max_size=40).map(captions.folded), st.text(max_size=20))
def test_the_trigger_is_put_in_once(caption: str, trigger: str) -> None:
    once = captions.with_trigger(caption, trigger)
    assert captions.with_trigger(once, trigger) == once


@pytest.mark.parametrize(
    ("stem", "names", "wanted"),
    [
        ("a", ["a.txt", "a.jpg"], ["a.txt"]),
        ("IMG_1", ["IMG_1.TXT"], ["IMG_1.TXT"]),
        ("a", ["a.caption"], ["a.caption"]),
        ("a", ["a.caption", "a.txt"], ["a.txt", "a.caption"]),
        ("aaa.bbb", ["aaa.bbb.txt", "aaa.txt", "aaa.ccc.txt"], ["aaa.bbb.txt"]),
        ("[x", ["[x.txt"], ["[x.txt"]),
        ("a", ["a.b.txt", "ab.txt", "a.md"], []),
    ],
)
def test_beside(stem: str, names: list[str], wanted: list[str]) -> None:
    assert captions.beside(stem, names) == wanted


def test_counter_counts_and_shows_what_is_cut(
    tmp_path: Path, tiny_tokenizer: Callable[[Path], Path]
) -> None:
    counter = captions.counter(tiny_tokenizer(tmp_path), 5)
    assert counter is not None
    assert counter.measure("ab CD") == captions.Length(4, "")
    assert counter.measure("ab cde") == captions.Length(5, "")
    assert counter.measure("ab cde fgh") == captions.Length(8, "fgh")
    assert counter.measure("").tokens == 0


@given(st.text(max_size=60) | st.text("aé'sI\u0301 \t\n,<|>12", max_size=60))
def test_words_count_alone_what_they_count_together(text: str) -> None:
    counter = captions.counter(None, 5)
    assert counter is not None
    clean = text.encode("utf-8", "replace").decode()
    whole = clip_vocabulary.shipped().encode(clean, add_special_tokens=False)
    assert counter.count(clean) == len(whole.ids)
    cut = clean[whole.offsets[5][0] :] if len(whole.ids) > 5 else ""
    assert counter.measure(clean) == captions.Length(len(whole.ids), cut)
    assert len(counter.pieces(clean)) == len(whole.ids)


def test_counter_reads_a_whole_tokenizer_file_too(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    (tmp_path / "tokenizer").mkdir()
    words = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.enable_truncation(2)
    words.save(str(tmp_path / "tokenizer" / "tokenizer.json"))
    counter = captions.counter(tmp_path, 75)
    assert counter is not None
    assert counter.measure("a b a b").tokens == 4


@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_without_a_readable_tokenizer_nothing_is_counted(
    tmp_path: Path, tiny_tokenizer: Callable[[Path], Path], damage: str
) -> None:
    if damage == "garbage":
        (tiny_tokenizer(tmp_path) / "tokenizer" / "vocab.json").write_text("{")
    assert captions.counter(tmp_path, 75) is None


def test_a_base_that_is_not_here_or_a_single_file_is_counted_with_clip(tmp_path: Path) -> None:
    (tmp_path / "base.safetensors").touch()
    for place in (None, tmp_path / "base.safetensors"):
        counter = captions.counter(place, 5)
        assert counter is not None
        assert counter.measure("a photo of a cat") == captions.Length(5, "")
        assert counter.measure("a photo of an ohwx cat") == captions.Length(6, "cat")


def test_counts_as_transformers_does(
    tmp_path: Path, tiny_tokenizer: Callable[[Path], Path]
) -> None:
    transformers = pytest.importorskip("transformers")
    folder = tiny_tokenizer(tmp_path) / "tokenizer"
    theirs = transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    counter = captions.counter(tmp_path, 75)
    assert counter is not None
    for text in ("don't I'VE", "12,5 !? (a)", "a  b\nc", "naïve 中文 🎉"):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert counter.measure(text).tokens == len(ids)


def test_short_texts_are_counted_roughly_without_a_tokenizer() -> None:
    def loads() -> Any:
        raise AssertionError("it was loaded")

    counter = captions.Counter(loads, 75, roughly=True)
    assert counter.count("a" * 75) == 75
    assert counter.measure("a dog") == captions.Length(5, "")
    for text in ("a" * 76, "ä dog"):  # small letters of some are two characters
        with pytest.raises(AssertionError, match="it was loaded"):
            counter.count(text)
