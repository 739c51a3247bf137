"""What each sample of an epoch is: pure functions of the seed, the epoch and the sample.

A sample is one picture, seen once; a picture that is repeated is several, one behind the other.
They are told apart by their index, and nothing is kept of them: 100,000 take as little as ten.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from lorakit.bundle.models import Bundle
from lorakit.dataset.buckets import Fit
from lorakit.dataset.report import DatasetReport, Picture


class Epochs:
    """The samples of a bundle's pictures."""

    def __init__(self, bundle: Bundle, report: DatasetReport) -> None:
        self._shape, self._seed = bundle.dataset, bundle.train.seed
        self._pictures = report.pictures
        self._cached = bundle.memory
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
        return self._pictures[bisect_right(self._first, sample) - 1]

    def view(self, epoch: int, sample: int) -> Fit:
        """How a sample's picture is brought to its size in an epoch."""
        return self.picture(sample).fit

    def text(self, epoch: int, sample: int) -> str:
        """What the model is told of a sample in an epoch."""
        return self.picture(sample).caption

    def views(self) -> Iterator[tuple[Picture, Fit]]:
        """Everything that `view` ever answers, for a cache to hold."""
        for picture in self._pictures:
            yield picture, picture.fit

    def texts(self) -> Iterator[str]:
        """Everything that `text` ever answers, for a cache to hold."""
        for picture in self._pictures:
            yield picture.caption
