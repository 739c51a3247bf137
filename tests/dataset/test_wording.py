"""What the model is told: a pure function of captions, settings and place, and fair draws."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorakit.bundle.models import Captions
from lorakit.dataset import wildcards
from lorakit.dataset.captions import folded, with_trigger
from lorakit.dataset.wording import around, tags, varies, whole, word

TAG = st.text("abc {}|\\", min_size=1, max_size=4).map(folded).filter(bool)
TAGS = st.lists(TAG, max_size=6)
PLACE = {"seed": 42, "epoch": 3, "sample": 7}


def told(texts: tuple[str, ...], trigger: str = "", epoch: int = 0, **given: object) -> str:
    return word(texts, Captions.model_validate(given), trigger, 1, epoch, 0)


@given(st.text(max_size=40).map(folded), st.text(max_size=12), st.integers(0, 99))
def test_by_default_it_is_the_caption_with_its_trigger(text: str, trigger: str, epoch: int) -> None:
    assert word((text,), Captions(), trigger, 1, epoch, 5) == with_trigger(text, trigger)
    assert whole(text, Captions(), trigger) == with_trigger(text, trigger)
    assert not varies(Captions(), (text,))


def test_without_a_caption_it_is_the_trigger() -> None:
    assert told((), "ohwx") == "ohwx"
    assert told(()) == ""


@given(TAGS, st.integers(0, 8), st.booleans(), st.sampled_from([0.0, 0.5, 0.9]), st.integers(0, 9))
def test_no_tag_is_invented_and_kept_ones_stay(
    given_tags: list[str], keep: int, shuffle: bool, drop_tags: float, epoch: int
) -> None:
    text = ", ".join(given_tags)
    said = told((text,), epoch=epoch, shuffle=shuffle, keep=keep, drop_tags=drop_tags)
    left = tags(said, ",")
    assert left[:keep] == given_tags[:keep]
    assert not Counter(left) - Counter(given_tags)
    if not drop_tags:
        assert Counter(left) == Counter(given_tags)
    if not shuffle:
        rest = iter(given_tags)
        assert all(tag in rest for tag in left)  # in the order they had


@given(
    st.lists(st.text("abc,{|} \n", max_size=12), max_size=3),
    st.builds(
        Captions,
        shuffle=st.booleans(),
        keep=st.integers(0, 3),
        drop_tags=st.sampled_from([0.0, 0.4]),
        drop=st.sampled_from([0.0, 0.5, 1.0]),
        wildcards=st.booleans(),
        suffix=st.sampled_from(["", ", best", "best"]),
    ),
)
def test_the_same_place_says_the_same_and_what_never_varies_does_not(
    texts: list[str], how: Captions
) -> None:
    def say(epoch: int, sample: int = 2) -> str:
        return word(texts, how, "ohwx", 9, epoch, sample)

    every = [say(epoch) for epoch in range(6)]
    assert every == [say(epoch) for epoch in range(6)]
    if not varies(how, texts):
        assert len({say(e, s) for e in range(6) for s in range(3)}) == 1


def test_every_order_is_reached_as_often_as_any_other() -> None:
    counts = Counter(told(("x, a, b, c",), epoch=e, shuffle=True, keep=1) for e in range(3000))
    assert set(counts) == {f"x, {', '.join(p)}" for p in permutations("abc")}
    assert all(400 < n < 600 for n in counts.values())


def test_tags_are_dropped_at_the_rate_that_was_asked_for() -> None:
    left = Counter(
        tag
        for e in range(2000)
        for tag in tags(told(("k,a,b",), epoch=e, keep=1, drop_tags=0.3), ",")
    )
    assert left["k"] == 2000
    assert 1320 < left["a"] < 1480
    assert 1320 < left["b"] < 1480


def test_a_dropped_caption_says_nothing_at_all() -> None:
    said = Counter(
        told(("a dog",), "ohwx", epoch=e, drop=0.2, prefix="photo of", suffix=".")
        for e in range(2000)
    )
    assert set(said) == {"", "photo of ohwx a dog."}
    assert 320 < said[""] < 480
    assert told(("a dog",), "ohwx", drop=1.0) == ""


def test_one_of_several_captions_is_taken() -> None:
    said = Counter(told(("one", "two", "three"), "x", epoch=e) for e in range(3000))
    assert set(said) == {"x one", "x two", "x three"}
    assert all(900 < n < 1100 for n in said.values())


def test_repeats_of_a_picture_are_told_different_things() -> None:
    how = Captions(shuffle=True)
    assert len({word(("a, b, c, d",), how, "", 1, 0, sample) for sample in range(50)}) > 15


@pytest.mark.parametrize(
    ("text", "trigger", "how", "wanted"),
    [
        (
            "a dog",
            "ohwx",
            {"prefix": "photo of", "suffix": "outside"},
            "photo of ohwx a dog outside",
        ),
        ("a dog", "", {"suffix": ", best quality"}, "a dog, best quality"),
        ("a dog", "ohwx", {"prefix": " an ohwx  photo "}, "an ohwx photo a dog"),
        ("dog runs", "ohwx dog", {"prefix": "ohwx"}, "ohwx dog runs"),
        ("", "ohwx", {"prefix": "photo of"}, "photo of ohwx"),
        ("", "", {"prefix": "a", "suffix": "b"}, "a b"),
        ("", "", {"suffix": ", b"}, ", b"),
    ],
)
def test_prefix_trigger_and_suffix(
    text: str, trigger: str, how: dict[str, object], wanted: str
) -> None:
    assert told((text,), trigger, **how) == wanted


def test_a_trigger_that_is_put_in_never_moves_and_one_that_is_dropped_comes_back() -> None:
    for epoch in range(50):
        assert told(("a, b, c",), "ohwx", epoch=epoch, shuffle=True).startswith("ohwx ")
        said = told(("a, ohwx",), "ohwx", epoch=epoch, shuffle=True, drop_tags=0.6)
        assert said.split(", ").count("ohwx") + said.startswith("ohwx ") == 1


@pytest.mark.parametrize(
    ("text", "separator", "wanted"),
    [
        ("a|b", "|", {"a|b", "b|a"}),
        ("a | b", "|", {"a | b", "b | a"}),
        ("a b", " ", {"a b", "b a"}),
        ("a,b, ,", ",", {"a,b", "b,a"}),
        ("a ;; b", " ;; ", {"a ;; b", "b ;; a"}),
        ("a, b", ";", {"a, b"}),
    ],
)
def test_separators(text: str, separator: str, wanted: set[str]) -> None:
    said = {told((text,), epoch=e, shuffle=True, separator=separator) for e in range(40)}
    assert said == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a {red|blue} hat", {"a red hat", "a blue hat"}),
        ("{a|{b|c}}", {"a", "b", "c"}),
        ("a {|very }big dog", {"a big dog", "a very big dog"}),
        ("{one}", {"{one}"}),
        (r"\{a|b\}", {"{a|b}"}),
        (r"{a\|b|c}", {"a|b", "c"}),
        (r"ohwx \(dog\), {x|y}", {r"ohwx \(dog\), x", r"ohwx \(dog\), y"}),
        ("{a|b", {"{a|b"}),
        ("a} b|c", {"a} b|c"}),
        ("{a|{b|c}", {"{a|b", "{a|c"}),
        ("{}", {"{}"}),
    ],
)
def test_wildcards(text: str, wanted: set[str]) -> None:
    assert {told((text,), epoch=e, wildcards=True) for e in range(80)} == wanted
    assert told((text,)) == text
    assert varies(Captions(wildcards=True), (text,)) == (len(wanted) > 1)


def test_wildcards_are_chosen_evenly() -> None:
    said = Counter(told(("{a|{b|c}}",), epoch=e, wildcards=True) for e in range(4000))
    assert 1850 < said["a"] < 2150
    assert 900 < said["b"] < 1100


@pytest.mark.parametrize(
    ("text", "lone"),
    [
        ("{a|b}", False),
        ("{a|b", True),
        ("a}", True),
        (r"\{a", False),
        ("{{a|b}", True),
        ("", False),
    ],
)
def test_a_brace_without_its_other_half(text: str, lone: bool) -> None:
    assert wildcards.unbalanced(text) == lone


@settings(max_examples=200)
@given(st.text("ab{|}\\ ", max_size=30))
def test_any_text_is_read(text: str) -> None:
    said = wildcards.expand(text, lambda options: options[-1])
    assert wildcards.unbalanced(text) or said.count("{") == said.count("}") or "\\" in text
    if not set("{}\\") & set(text):
        assert said == text


def test_the_longest_wording_is_measured() -> None:
    how = Captions(wildcards=True, drop=0.5, shuffle=True, suffix=", end")
    assert whole("{a|bb}, c", how, "ohwx") == "ohwx bb, c, end"
    assert around("c", how, "") == "c, end"
