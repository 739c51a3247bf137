"""Looks at the folders of a bundle: every picture is read once, to its end, before training."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lorakit.bundle.models import Dataset, Source
from lorakit.bundle.problems import Problem
from lorakit.dataset import caption_findings, captions, findings, folders, wording
from lorakit.dataset.buckets import fit
from lorakit.dataset.entries import shares
from lorakit.dataset.pictures import Seen, examine
from lorakit.dataset.report import DatasetReport, Picture, Unusable
from lorakit.dataset.sidecars import Reader, Sidecar
from lorakit.errors import LorakitError
from lorakit.families.base_model import BaseFacts


def scan(
    dataset: Dataset,
    root: Path,
    base: BaseFacts,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> DatasetReport:
    """What the folders hold; whatever is wrong with them is a finding in the report.

    Relative paths count from `root`. `progress` is called with pictures read and pictures in all,
    from the caller's thread. Raises LorakitError only where the resolution is less than one step
    of the base.
    """
    places = [place(source, root) for source in dataset.sources]
    contents = [folders.walk(folder) if os.path.isdir(folder) else None for folder in places]
    total = sum(len(c.pictures) for c in contents if c)
    counter = captions.counter(base.folder, base.token_limit)
    pictures: list[Picture] = []
    unusable: list[Unusable] = []
    found: list[Problem] = []
    used: set[tuple[int, str]] = set()
    done = 0
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        for index, source in enumerate(dataset.sources):
            inside, folder = contents[index], places[index]
            if inside is None:
                found.append(findings.missing_folder(index, source.path, folder))
                continue
            found += findings.of_folder(index, folder, inside, source.repeats)
            reader = Reader(folder, inside, dataset.captions)
            unusable += [_unusable(folder, *broken) for broken in reader.broken]
            beside: list[tuple[Picture, Sidecar]] = []
            looks = pool.map(_look, [folder / name for name in inside.pictures])
            for name, look in zip(inside.pictures, looks, strict=True):
                done += 1
                try:
                    progress(done, total)
                except BaseException:  # who asked has left: what is queued need not be read
                    pool.shutdown(cancel_futures=True)
                    raise
                if isinstance(look, LorakitError):
                    unusable.append(_unusable(folder, name, look))
                    continue
                said = reader.of(name)
                unusable += [_unusable(folder, *broken) for broken in said.broken]
                trigger = captions.trigger_of(source)
                box = shares(said.box, look.seen.width, look.seen.height) if said.box else None
                found += [findings.noted(name, note) for note in look.seen.notes]
                pictures.append(
                    Picture(
                        path=folder / name,
                        name=name,
                        source=index,
                        repeats=source.repeats,
                        width=look.seen.width,
                        height=look.seen.height,
                        fit=fit(
                            look.seen.width,
                            look.seen.height,
                            dataset.resolution,
                            base.size_step,
                            dataset.buckets,
                        ),
                        caption=captions.with_trigger("".join(said.captions[:1]), trigger),
                        captions=said.captions,
                        caption_path=folder / said.name if said.name else None,
                        tokens=wording.tokens(counter, said.captions, dataset.captions, trigger),
                        box=box,
                        sha256=look.sha256,
                        turned=look.seen.turned,
                    )
                )
                beside.append((pictures[-1], said))
            found += caption_findings.of_files(index, reader, beside)
            used |= {(index, name) for name in reader.used}
    report = DatasetReport(
        pictures=tuple(pictures),
        unusable=tuple(unusable),
        ignored=sum(c.ignored for c in contents if c),
        captions=sum(len(names) for c in contents if c for names in c.captions.values())
        + len(used),
        others=tuple(
            name
            for index, c in enumerate(contents)
            for name in (c.others if c else ())
            if (index, name) not in used
        ),
        token_limit=base.token_limit,
    )
    found += findings.of_report(report)
    found += caption_findings.of_report(report, dataset, counter)
    return dataclasses.replace(report, findings=tuple(found))


def place(source: Source, root: Path) -> Path:
    """The absolute folder of a source; `~` is the home folder."""
    return Path(os.path.abspath(root / Path(source.path).expanduser()))


@dataclass(frozen=True, slots=True)
class _Look:
    seen: Seen
    sha256: str


def _look(path: Path) -> _Look | LorakitError:
    """One picture, in a thread of the pool; an error is a value there, so that all are found."""
    try:
        seen = examine(path)
        with path.open("rb") as file:
            return _Look(seen, hashlib.file_digest(file, "sha256").hexdigest())
    except LorakitError as error:
        return error
    except OSError as error:
        return LorakitError(f"{path.name} cannot be read: {error.strerror}.", "Allow reading it.")


def _unusable(folder: Path, name: str, error: LorakitError) -> Unusable:
    return Unusable(path=folder / name, name=name, why=error.message, fix=error.hint)
