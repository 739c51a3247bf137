"""What a sample is in an epoch: every picture so often, each version in turn, nothing kept."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from trainings import changed

from lorakit.bundle.models import Bundle
from lorakit.dataset.report import DatasetReport
from lorakit.dataset.views import View
from lorakit.train import prepare
from lorakit.train.epochs import Epochs


@pytest.fixture
def report(bundle: Bundle) -> DatasetReport:
    """Five pictures, repeated 1 to 5 times."""
    _, found = prepare.look(bundle, Path("/"))
    pictures = tuple(
        dataclasses.replace(p, repeats=number) for number, p in enumerate(found.pictures, 1)
    )
    return dataclasses.replace(found, pictures=pictures)


def test_each_picture_is_as_many_samples_as_it_has_repeats(
    bundle: Bundle, report: DatasetReport
) -> None:
    epochs = Epochs(bundle, report)
    names = [epochs.picture(sample).name for sample in range(len(epochs))]
    assert len(epochs) == 15
    assert names == [p.name for p in epochs]
    assert Counter(names) == {f"{n}.png": n + 1 for n in range(5)}


def test_with_default_settings_a_sample_is_its_picture(
    bundle: Bundle, report: DatasetReport
) -> None:
    for memory in ({}, {"cache_latents": False, "cache_text": False}):
        epochs = Epochs(changed(bundle, memory=memory), report)
        for epoch in (0, 7):
            for sample in range(15):
                picture = epochs.picture(sample)
                assert epochs.view(epoch, sample) == View(fit=picture.fit)
                assert epochs.text(epoch, sample) == picture.caption
        assert len(list(epochs.views())) == len(list(epochs.texts())) == 5


def test_cached_captions_take_their_versions_in_turn(bundle: Bundle, report: DatasetReport) -> None:
    """A picture has so many of them, however often it is repeated; without a cache, no end."""
    captions = {"shuffle": True, "keep": 1}
    pictures = tuple(
        dataclasses.replace(p, captions=(f"{p.name}, a, b, c, d, e, f, g",))
        for p in report.pictures
    )
    report = dataclasses.replace(report, pictures=pictures)
    wanted = changed(bundle, dataset={"captions": captions, "variants": 3})
    epochs = Epochs(wanted, report)
    held = set(epochs.texts())
    assert len(held) == 15
    told = {s: [epochs.text(e, s) for e in range(6)] for s in range(15)}
    assert {text for texts in told.values() for text in texts} == held
    for texts in told.values():
        assert texts[:3] == texts[3:]
        assert {text.partition(",")[0] for text in texts} == {texts[0].partition(",")[0]}
    alone, twice = told[0], [t for s in (1, 2) for t in told[s]]
    assert len(set(alone)) == len(set(alone[:3])) == 3
    assert Counter(Counter(twice).values()) == {4: 3}
    assert told[1][0] != told[2][0]  # seen twice in one epoch, and not the same both times

    live = Epochs(changed(wanted, memory={"cache_text": False}), report)
    assert len({live.text(e, 0) for e in range(20)}) > 12
    assert live.text(3, 0) == live.text(3, 0)


def test_prior_pictures_are_told_without_a_trigger(bundle: Bundle, report: DatasetReport) -> None:
    sources = [{**s.model_dump(), "trigger": "ohwx"} for s in bundle.dataset.sources]
    for prior in (False, True):
        wanted = changed(bundle, dataset={"sources": [{**s, "prior": prior} for s in sources]})
        assert Epochs(wanted, report).text(0, 0).startswith("ohwx ") != prior
