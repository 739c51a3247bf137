"""CLIP's vocabulary ships whole, and counts as transformers does."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from lorakit.families import clip_vocabulary as clip


def test_the_merges_are_those_that_were_published() -> None:
    text = gzip.decompress(clip.SHIPPED.read_bytes())
    assert hashlib.sha256(text).hexdigest() == (
        "9fd691f7c8039210e0fced15865466c65820d09b63988b0174bfe25de299051a"
    )
    assert "Copyright (c) 2021 OpenAI" in (clip.SHIPPED.parent / "LICENSE").read_text()


def test_the_vocabulary_follows_from_them() -> None:
    numbers = clip.vocabulary()
    assert len(numbers) == 49_408
    assert sorted(numbers.values()) == list(range(49_408))
    wanted = {"!": 0, "a": 64, "!</w>": 256, "a</w>": 320, "in": 512, "jekyll</w>": 49_405}
    wanted |= {"cat</w>": 2368, "<|startoftext|>": 49_406, "<|endoftext|>": 49_407}
    assert wanted.items() <= numbers.items()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a photo of a cat", [320, 1125, 539, 320, 2368]),
        ("A  Photo of\na CAT", [320, 1125, 539, 320, 2368]),
        ("", []),
        ("<|endoftext|>", [49_407]),
    ],
)
def test_known_numbers(text: str, wanted: list[int]) -> None:
    assert clip.shipped().encode(text, add_special_tokens=False).ids == wanted


def test_transformers_reads_what_is_written_and_counts_alike(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    clip.write(tmp_path)
    assert json.loads((tmp_path / "vocab.json").read_bytes()) == clip.vocabulary()
    theirs = transformers.CLIPTokenizer.from_pretrained(tmp_path, local_files_only=True)
    ours = clip.of_folder(tmp_path)
    for text in (
        "don't I'VE",
        "12,5 !? (a:1.2)",
        "a  b\nc",
        "naïve 中文 🎉 e\u0301",
        "1girl, <|endoftext|>",
    ):
        ids = theirs(text)["input_ids"]
        assert ids[0] == 49_406
        assert ids[-1] == 49_407
        for mine in (clip.shipped(), ours):
            assert mine.encode(text, add_special_tokens=False).ids == ids[1:-1]


def test_importing_it_reads_nothing() -> None:
    code = (
        "import sys; from lorakit.families import clip_vocabulary as c;"
        "assert c.shipped.cache_info().currsize == 0; assert 'tokenizers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
