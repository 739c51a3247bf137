"""What each sample of an epoch is: pure functions of the seed, the epoch and the sample.

A sample is one picture, seen once; a picture that is repeated is several, one behind the other.
They are told apart by their index, and nothing is kept of them: 100,000 take as little as ten.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from lorakit.bundle.models import Bundle
from lorakit.dataset import views, wording
from lorakit.dataset.captions import trigger_of
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.dataset.views import View


class Epochs:
    """The samples of a bundle's pictures.

    What is drawn anew for each of them cannot all be cached. Where it is to be, a picture has
    `dataset.variants` versions, and its samples take them in turn, over all epochs.
    """

    def __init__(self, bundle: Bundle, report: DatasetReport) -> None:
        self._dataset, self._seed = bundle.dataset, bundle.train.seed
        self._memory = bundle.memory
        self._pictures = report.pictures
        self._first = array("Q", [0])
        for picture in report.pictures:
            self._first.append(self._first[-1] + picture.repeats)

    def __len__(self) -> int:
        """Samples of one epoch."""
        return self._first[-1]

    def __iter__(self) -> Iterator[Picture]:
        """The picture of each sample, in the order of their indices."""
        for picture in self._pictures:
            for _ in range(picture.repeats):
                yield picture

    def picture(self, sample: int) -> Picture:
        """Which picture a sample is."""
        return self._pictures[self._number(sample)]

    def is_prior(self, picture: Picture) -> bool:
        """Whether it is there to keep the base from forgetting."""
        return self._dataset.sources[picture.source].prior

    def view(self, epoch: int, sample: int) -> View:
        """How a sample's picture is brought to its size in an epoch."""
        if self._memory.cache_latents:
            epoch, sample = self._version(epoch, sample)
        return self._view(self.picture(sample), epoch, sample)

    def text(self, epoch: int, sample: int) -> str:
        """What the model is told of a sample in an epoch."""
        if self._memory.cache_text:
            epoch, sample = self._version(epoch, sample)
        return self._text(self.picture(sample), epoch, sample)

    def views(self) -> Iterator[tuple[Picture, View]]:
        """Everything that `view` ever answers where it is cached, some of it more than once."""
        shape = self._dataset
        for picture, first in zip(self._pictures, self._first, strict=False):
            for version in range(shape.variants if views.varies(picture, shape) else 1):
                yield picture, self._view(picture, version, first)

    def texts(self) -> Iterator[str]:
        """Everything that `text` ever answers where it is cached, some of it more than once."""
        for picture, first in zip(self._pictures, self._first, strict=False):
            varies = wording.varies(self._dataset.captions, picture.captions)
            for version in range(self._dataset.variants if varies else 1):
                yield self._text(picture, version, first)

    def _number(self, sample: int) -> int:
        return bisect_right(self._first, sample) - 1

    def _version(self, epoch: int, sample: int) -> tuple[int, int]:
        """The (epoch, sample) that stand for a sample of an epoch in a cache."""
        number = self._number(sample)
        first, repeats = self._first[number], self._pictures[number].repeats
        return (epoch * repeats + sample - first) % self._dataset.variants, first

    def _view(self, picture: Picture, epoch: int, sample: int) -> View:
        return views.view(picture, self._dataset, self._seed, epoch, sample)

    def _text(self, picture: Picture, epoch: int, sample: int) -> str:
        trigger = trigger_of(self._dataset.sources[picture.source])
        settings = self._dataset.captions
        return wording.word(picture.captions, settings, trigger, self._seed, epoch, sample)
