"""What captions say most often, and which are the longest."""

from __future__ import annotations

import json

from lorakit.bundle.models import Captions
from lorakit.dataset import captions
from lorakit.dataset.buckets import fit
from lorakit.dataset.frequencies import Long, frequencies
from lorakit.dataset.report import Picture


def picture(name: str, *texts: str) -> Picture:
    return Picture(
        folder="/set",
        name=name,
        source=0,
        repeats=1,
        width=64,
        height=64,
        fit=fit(64, 64, 64, 8),
        caption="".join(texts[:1]),
        captions=texts,
        caption_name=None,
        tokens=None,
        sha256=name,
        turned=False,
    )


PICTURES = [
    picture("a.png", "ohwx dog, Grass, grass"),
    picture("b.png", "ohwx dog, sand", "a dog on sand in the sun"),
    picture("c.png"),
]


def test_tags_tokens_and_the_longest_captions() -> None:
    found = frequencies(PICTURES, Captions(), captions.counter(None, 75), most=3, longest=2)
    assert found.captions == 3
    assert found.tags == (("ohwx dog", 2), ("a dog on sand in the sun", 1), ("grass", 1))
    assert found.distinct_tags == 4
    assert found.tokens == ((",", 3), ("dog", 3), ("grass", 2))
    assert found.distinct_tokens == 10
    assert found.lengths == ((4, 1), (6, 1), (7, 1))
    assert found.longest == (
        Long(name="b.png", tokens=7, caption="a dog on sand in the sun"),
        Long(name="a.png", tokens=6, caption="ohwx dog, Grass, grass"),
    )
    said = json.loads(json.dumps(found.as_dict()))
    assert said["tags"][0] == {"tag": "ohwx dog", "captions": 2}


def test_without_a_tokenizer_tags_are_counted_all_the_same() -> None:
    found = frequencies(PICTURES, Captions(separator=" "), None)
    assert found.tags[0] == ("dog,", 2)
    assert (found.tokens, found.lengths, found.longest) == ((), (), ())
