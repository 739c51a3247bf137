"""All that a look at pictures gives: what the table, the page and JSON are made of."""

from __future__ import annotations

from dataclasses import dataclass

from lorakit.bundle.models import Dataset
from lorakit.bundle.problems import Problem
from lorakit.dataset.buckets import Bucket
from lorakit.dataset.captions import Counter, trigger_of
from lorakit.dataset.frequencies import Frequencies
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.dataset.wording import whole
from lorakit.errors import ExitCode
from lorakit.families.base_model import BaseFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A report with what it was made for, and what follows from it."""

    report: DatasetReport
    dataset: Dataset
    base: BaseFacts
    counter: Counter | None
    frequencies: Frequencies
    buckets: tuple[Bucket, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Errors first."""
        return tuple(sorted(self.report.findings, key=lambda p: p.severity != "error"))

    @property
    def errors(self) -> int:
        """Problems that training waits for."""
        return sum(p.severity == "error" for p in self.report.findings)

    @property
    def exit_code(self) -> int:
        """OK, or that of the first error."""
        return next((p.code for p in self.problems if p.severity == "error"), ExitCode.OK)

    @property
    def longest(self) -> int | None:
        """Tokens of the longest caption as it is told; None where there is none, or none can be
        counted."""
        return max((p.tokens for p in self.report.pictures if p.tokens is not None), default=None)

    def told(self, picture: Picture) -> tuple[str, ...]:
        """The captions of a picture as they are told at their longest; one where it has none."""
        trigger = trigger_of(self.dataset.sources[picture.source])
        return tuple(
            whole(text, self.dataset.captions, trigger) for text in picture.captions or ("",)
        )
