from __future__ import annotations

import pytest
from bundles import SMALL, bundles, locks
from hypothesis import given

from lorakit.bundle.diff import (
    Difference,
    differences,
    lines,
    of_bundles,
    of_locks,
    promise,
    settings_digest,
)
from lorakit.bundle.lock import Lock, LockedDataset
from lorakit.bundle.models import Bundle
from lorakit.bundle.read import parse
from lorakit.bundle.write import dump

LOCK = Lock(lorakit="0.1.0", threads=2, attention="sdpa", determinism="bytes")


@given(bundles)
def test_a_bundle_is_no_other_than_its_own_file(bundle: Bundle) -> None:
    back = parse(dump(bundle))
    assert of_bundles(bundle, back) == []
    assert settings_digest(bundle) == settings_digest(back)


@given(locks)
def test_a_lock_does_not_differ_from_itself(lock: Lock) -> None:
    assert of_locks(lock, lock.model_copy(update={"why": "x", "run": "y", "result": None})) == []


def test_what_is_left_out_equals_the_default_written_out() -> None:
    full = "[adapter]\nalpha = 16\nrank = 16\n[train]\nlearning_rate = 0.0001\n"
    assert of_bundles(parse(SMALL), parse(SMALL + full)) == []


def test_each_value_that_differs_has_its_key() -> None:
    more = '[[dataset.sources]]\npath = "more"\n[sample]\nprompts = ["a", "c"]\n'
    other = parse(SMALL + more, ["train.steps=7", "train.optimizer_options.eps=1e-6", "name=x"])
    found = of_bundles(parse(SMALL, ['sample.prompts=["b"]']), other)
    assert [str(d) for d in found] == [
        'name  "my-dog" -> "x"',
        "train.steps  1500 -> 7",
        "train.optimizer_options.eps  1e-8 -> 1e-6",
        'sample.prompts[0]  "b" -> "a"',
        'dataset.sources[1].path  absent -> "more"',
        "dataset.sources[1].repeats  absent -> 1",
        'dataset.sources[1].trigger  absent -> ""',
        "dataset.sources[1].prior  absent -> false",
        'sample.prompts[1]  absent -> "c"',
    ]


def test_a_whole_number_equals_the_same_with_a_point() -> None:
    assert differences({"a": {"b": 1}}, {"a": {"b": 1.0}}) == []


@pytest.mark.parametrize(
    ("setting", "counts"),
    [
        ("name=x", False),
        ("base.model=elsewhere/copy", False),
        ("base.revision=abc", False),
        ("dataset.sources[0].path=elsewhere", False),
        ("sample.seed=9", False),
        ("save.every=9", False),
        ("train.steps=1500", False),  # the default
        ("train.steps=9", True),
        ("adapter.alpha=9", True),
        ("dataset.sources[0].repeats=9", True),
        ("memory.checkpointing=full", True),
        ("memory.checkpointing=5", True),
    ],
)
def test_the_digest_of_the_settings_is_of_those_that_count(setting: str, counts: bool) -> None:
    changed = settings_digest(parse(SMALL, [setting]))
    assert (changed != settings_digest(parse(SMALL))) == counts


def test_what_a_lock_does_not_know_differs_from_nothing() -> None:
    then = LOCK.model_copy(update={"versions": {"torch": "1", "xformers": "2"}})
    now = LOCK.model_copy(update={"versions": {"torch": "2", "peft": "3"}, "settings": "ab"})
    assert of_locks(then, now) == [Difference("torch", "1", "2")]
    flash, math = (LOCK.model_copy(update={"kernel": k}) for k in ("flash", "math"))
    assert of_locks(LOCK, flash) == []
    assert of_locks(flash, math) == [Difference("attention_kernel", "flash", "math")]


def test_a_long_list_of_pictures_is_cut_with_a_count() -> None:
    def of(digest: str, start: int) -> Lock:
        names = tuple(f"{n}.png {digest} c" for n in range(start, start + 20))
        data = LockedDataset(digest=digest, pictures=names)
        return LOCK.model_copy(update={"dataset": data, "threads": start + 1})

    found = of_locks(of("aa", 0), of("bb", 5))
    assert len(found) == 26
    assert len(lines(found, None)) == 26
    said = lines(found)
    assert said[0] == "threads  1 -> 6"
    assert said[1] == 'picture 0.png  "aa" -> absent'
    assert said[11:] == ["and 15 more pictures or captions"]


def test_bytes_are_promised_only_where_nothing_differs_and_both_say_so() -> None:
    unsure = LOCK.model_copy(update={"determinism": "statistics", "why": "a GPU"})
    assert promise(LOCK, LOCK, [])[0]
    for then, now in ((LOCK, unsure), (unsure, LOCK)):
        assert promise(then, now, []) == (False, "same bytes promised: no, a GPU")
    assert not promise(LOCK, LOCK, [Difference("threads", 1, 2)])[0]
    bent = LOCK.model_copy(update={"changed": ("train.steps  1 -> 2, after step 1",)})
    said = "same bytes promised: no, changed on the way: train.steps  1 -> 2, after step 1"
    for then, now in ((LOCK, bent), (bent, LOCK)):
        assert promise(then, now, []) == (False, said)
