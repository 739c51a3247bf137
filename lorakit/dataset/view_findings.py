"""Doubts about crops, mirrors, masks and prior pictures, each in one sentence with the way out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lorakit.bundle.models import Dataset
from lorakit.bundle.problems import Problem
from lorakit.dataset import folders, views
from lorakit.dataset.findings import counted, listed
from lorakit.dataset.report import DatasetReport
from lorakit.errors import ExitCode

_SIDES = re.compile(r"\b(left|right)\b", re.IGNORECASE)

FAR = 2.0
"""Prior pictures may be so many times as many as the subject's, or as few."""


def of_report(report: DatasetReport, dataset: Dataset) -> Iterator[Problem]:
    """All of them."""
    if report.pictures:
        yield from _boxes(report)
        yield from _flips(report, dataset)
        yield from _clear(report)
        yield from _masks(report, dataset)
        yield from _prior(report, dataset)


def _warning(where: str, what: str, fix: str) -> Problem:
    return Problem(where=where, what=what, fix=fix, severity="warning", code=ExitCode.DATA)


def _boxes(report: DatasetReport) -> Iterator[Problem]:
    cut = [p.name for p in report.pictures if p.box and not views.holds(p.fit, p.box)]
    if cut:
        yield _warning(
            "dataset.buckets",
            f"The box is larger than what stays of the picture, and only its middle is seen: "
            f"{listed(cut)}.",
            "Make it smaller, or cut out the part that matters.",
        )


def _flips(report: DatasetReport, dataset: Dataset) -> Iterator[Problem]:
    if not dataset.flip:
        return
    sided = [p.name for p in report.pictures if any(map(_SIDES.search, p.captions))]
    if sided:
        yield _warning(
            "dataset.flip",
            f"Pictures are mirrored, and {counted(len(sided), 'caption')} of them say left or "
            f"right: {listed(sided)}.",
            "--set dataset.flip=false, or leave left and right out of the captions.",
        )


def _clear(report: DatasetReport) -> Iterator[Problem]:
    clear = [p.name for p in report.pictures if p.alpha == "all"]
    if clear:
        yield _warning(
            "dataset.background",
            f"{counted(len(clear), 'picture')} transparent all over, with nothing to be seen: "
            f"{listed(clear)}.",
            "Remove them, or save them again without transparency.",
        )


def _masks(report: DatasetReport, dataset: Dataset) -> Iterator[Problem]:
    if dataset.masks == "none":
        like: set[str] = set()
        for source in range(len(dataset.sources)):
            here = (p.name for p in report.pictures if p.source == source)
            like.update(folders.masks_among(here).values())
        if like:
            yield _warning(
                "dataset.masks",
                f"Pictures that are named like masks are learned as pictures: "
                f"{listed(sorted(like))}.",
                "--set dataset.masks=files, or move them away.",
            )
        return
    without = [p.name for p in report.pictures if not p.mask]
    beside = {"alpha": "is transparent nowhere", "files": "has no mask beside it"}[dataset.masks]
    if len(without) == len(report.pictures):
        yield _warning(
            "dataset.masks",
            f"No picture has a mask: every one {beside}.",
            "--set dataset.masks=none, or name masks like this: dog-mask.png of dog.jpg.",
        )
    elif without:
        verb = "counts" if len(without) == 1 else "count"
        yield _warning(
            "dataset.masks",
            f"{counted(len(without), 'picture')} without a mask {verb} whole: {listed(without)}.",
            "Add their masks, or leave them out.",
        )


def _prior(report: DatasetReport, dataset: Dataset) -> Iterator[Problem]:
    counts = {True: 0, False: 0}
    for p in report.pictures:
        counts[dataset.sources[p.source].prior] += p.repeats
    prior, subject = counts[True], counts[False]
    if not prior or not subject or 1 / FAR <= prior / subject <= FAR:
        return
    own = sum(dataset.sources[p.source].prior for p in report.pictures)
    repeats = max(1, round(subject / own))
    yield _warning(
        "dataset.sources",
        f"An epoch has {subject:,} pictures of the subject and {prior:,} prior ones, which is far "
        "from as many.",
        f"repeats = {repeats} for the prior pictures makes {repeats * own:,} of them; if that is "
        "still far off, raise the subject's repeats or leave prior pictures out."
        if repeats * own != prior
        else "Raise the subject's repeats, or leave prior pictures out.",
    )
