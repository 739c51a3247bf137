"""Looks at the folders of a bundle: every picture is read once, to its end, before training."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from lorakit.bundle.models import Dataset, Source
from lorakit.bundle.problems import Problem
from lorakit.dataset import (
    caption_findings,
    captions,
    findings,
    folders,
    pictures,
    view_findings,
    views,
    wording,
)
from lorakit.dataset.buckets import fit
from lorakit.dataset.entries import shares
from lorakit.dataset.folders import Contents
from lorakit.dataset.looks import Look, looks
from lorakit.dataset.pictures import Seen
from lorakit.dataset.report import DatasetReport, Other, Picture, Unusable
from lorakit.dataset.sidecars import Reader, Sidecar
from lorakit.errors import LorakitError
from lorakit.families.base_model import BaseFacts


def scan(
    dataset: Dataset,
    root: Path,
    base: BaseFacts,
    progress: Callable[[int, int], None] = lambda done, total: None,
    fresh: bool = False,
    roughly: bool = False,
    walked: Callable[[Sequence[Contents]], None] = lambda found: None,
    partly: Callable[[Callable[[], DatasetReport]], None] = lambda report: None,
) -> DatasetReport:
    """What the folders hold; whatever is wrong with them is a finding in the report.

    Relative paths count from `root`, and a source inside another one is no part of that. All from
    the caller's thread, `walked` is called with what each folder holds by the names of its files,
    and then for each picture `progress` with pictures looked at and pictures in all, and `partly`
    with a function that makes a report, without findings, of what has been seen by then. Files that
    have not changed since an earlier scan are not decoded again, unless `fresh` asks for it. Tokens
    are counted exactly only where they may be too many, if `roughly` says that this is enough.
    Raises LorakitError only where the resolution is less than one step of the base.
    """
    places = [place(source, root) for source in dataset.sources]
    masks = dataset.masks == "files"
    contents = [folders.walk(f, masks, places) if os.path.isdir(f) else None for f in places]
    walked([c for c in contents if c])
    total = sum(len(c.pictures) for c in contents if c)
    counter = captions.counter(base.folder, base.token_limit, roughly)
    sources: list[_Source] = []
    found: list[Problem] = []
    progress(0, total)
    for index, source in enumerate(dataset.sources):
        inside, folder = contents[index], places[index]
        if inside is None:
            found.append(findings.missing_folder(index, source.path, folder))
            continue
        found += findings.of_folder(index, folder, inside, source.repeats)
        done = sum(len(one.contents.pictures) for one in sources)
        here = _Source(index, source, folder, inside, dataset, base, counter)
        sources.append(here)

        def looked(number: int, done: int = done) -> None:
            progress(done + number, total)
            partly(lambda: _report(sources, base))

        here.look(looked, fresh)
        found += here.findings
    report = _report(sources, base)
    found += findings.of_report(report)
    found += caption_findings.of_report(report, dataset, counter)
    found += view_findings.of_report(report, dataset)
    return dataclasses.replace(report, findings=tuple(found))


def _report(sources: Sequence[_Source], base: BaseFacts) -> DatasetReport:
    """What these folders hold, as far as they have been looked at."""
    return DatasetReport(
        pictures=tuple(p for one in sources for p in one.pictures),
        unusable=tuple(u for one in sources for u in one.unusable.values()),
        ignored=sum(one.contents.ignored for one in sources),
        captions=sum(len(one.read) for one in sources),
        masks=sum(len(one.masks) for one in sources),
        others=tuple(other for one in sources for other in one.others),
        files=sum(one.contents.files for one in sources),
        token_limit=base.token_limit,
    )


class _Source:
    """The scan of one folder."""

    def __init__(
        self,
        index: int,
        source: Source,
        folder: Path,
        contents: Contents,
        dataset: Dataset,
        base: BaseFacts,
        counter: captions.Counter | None,
    ) -> None:
        self.contents = contents
        self.pictures: list[Picture] = []
        self.unusable: dict[str, Unusable] = {}
        self.findings: list[Problem] = []
        self.read: set[str] = set()
        """Files that captions were read from."""
        self.masks: dict[str, Look] = {}
        """What masks hold."""
        self.others: list[Other] = []
        """Files that are not used, each with the reason; known when all is looked at."""
        self._index, self._source, self._folder = index, source, folder
        self._dataset, self._base, self._counter = dataset, base, counter
        self._trigger = captions.trigger_of(source)
        self._reader = Reader(folder, contents, dataset.captions)

    def look(self, progress: Callable[[int], None], fresh: bool) -> None:
        """Look at all of it."""
        self._broken(self._reader.broken)
        self._look_at_masks(fresh)
        beside: list[tuple[Picture, Sidecar]] = []
        root = str(self._folder)
        names = self.contents.pictures
        seen = looks((os.path.join(root, name) for name in names), fresh)
        with contextlib.closing(seen):
            for number, (name, look) in enumerate(zip(names, seen, strict=True), 1):
                if isinstance(look, LorakitError):
                    self._broken([(name, look)])
                else:
                    beside.append(self._used(root, name, look))
                progress(number)
        self.read.update(table.name for table in self._reader.tables)
        self.read -= self.unusable.keys()
        self.findings += caption_findings.of_files(self._index, self._reader, beside)
        self.others += self._unused()

    def _look_at_masks(self, fresh: bool) -> None:
        names = sorted(set(self.contents.masks.values()))
        root = str(self._folder)
        for name, look in zip(
            names, looks((os.path.join(root, n) for n in names), fresh), strict=True
        ):
            if isinstance(look, Look) and _black(os.path.join(root, name), look.seen):
                look = LorakitError(
                    f"The mask {name} is black, so nothing of its picture would be learned.",
                    "Make white what is to be learned, or remove the mask.",
                )
            if isinstance(look, LorakitError):
                self._broken([(name, look)])
            else:
                self.masks[name] = look

    def _unused(self) -> Iterator[Other]:
        for name, why in self.contents.others.items():
            if name not in self.read and name not in self.unusable:
                yield Other(name, why or findings.why_other(self._folder, name))
        beside = {n for names in self.contents.captions.values() for n in names}
        for name in sorted(beside):
            if name not in self.read and name not in self.unusable:
                yield Other(name, "a caption of a picture that cannot be used")

    def _broken(self, found: Iterable[tuple[str, LorakitError]]) -> None:
        for name, error in found:
            self.unusable[name] = Unusable(
                path=self._folder / name, name=name, why=error.message, fix=error.hint
            )

    def _used(self, root: str, name: str, look: Look) -> tuple[Picture, Sidecar]:
        said = self._reader.of(name)
        self._broken(said.broken)
        self.read.update(self._reader.files(name))
        self.findings += [findings.noted(name, note) for note in look.seen.notes]
        self.pictures.append(self._picture(root, name, look, said))
        return self.pictures[-1], said

    def _picture(self, root: str, name: str, look: Look, said: Sidecar) -> Picture:
        seen, shape, trigger = look.seen, self._dataset, self._trigger
        caption = captions.with_trigger("".join(said.captions[:1]), trigger)
        box = shares(said.box, seen.width, seen.height) if said.box else None
        step = self._base.size_step
        whole = fit(seen.width, seen.height, shape.resolution, step, shape.buckets)
        beside = self.contents.masks.get(name)
        mask = self.masks[beside].sha256 if beside in self.masks else ""
        if shape.masks == "alpha" and seen.alpha != "none":
            mask = "alpha"
        return Picture(
            folder=root,
            name=name,
            source=self._index,
            repeats=self._source.repeats,
            width=seen.width,
            height=seen.height,
            fit=views.placed(whole, box),
            caption=caption,
            captions=said.captions,
            caption_name=said.name,
            tokens=wording.tokens(self._counter, said.captions, shape.captions, trigger),
            box=box,
            mask=mask,
            mask_name=beside if beside in self.masks else None,
            sha256=look.sha256,
            turned=seen.turned,
            impression=seen.impression,
            alpha=seen.alpha,
        )


def _black(path: str, seen: Seen) -> bool:
    """Whether a mask is black. Its impression is rough, and not of what is transparent in it."""
    if not seen.impression.dark and seen.alpha == "none":
        return False
    try:
        return pictures.black(Path(path))
    except LorakitError:  # it could be read a moment ago
        return False


def place(source: Source, root: Path) -> Path:
    """The absolute folder of a source; `~` is the home folder."""
    return Path(os.path.abspath(root / Path(source.path).expanduser()))
