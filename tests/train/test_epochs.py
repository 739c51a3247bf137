"""What a sample is in an epoch: every picture so often, each version in turn, nothing kept."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from trainings import changed

from lorakit.bundle.models import Bundle
from lorakit.dataset.report import DatasetReport
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
                assert epochs.view(epoch, sample) == picture.fit
                assert epochs.text(epoch, sample) == picture.caption
        assert len(list(epochs.views())) == len(list(epochs.texts())) == 5
