"""`lorakit dataset`: what folders of pictures hold, before anything is trained."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from lorakit import durable
from lorakit.bundle.models import Base, Dataset, FamilyName
from lorakit.bundle.problems import Problem
from lorakit.cli import streams
from lorakit.cli.progress import Progress
from lorakit.dataset import captions
from lorakit.dataset.buckets import table
from lorakit.dataset.findings import counted
from lorakit.dataset.folders import Contents
from lorakit.dataset.frequencies import frequencies
from lorakit.dataset.layout import layout
from lorakit.dataset.looked import Looked
from lorakit.dataset.scan import scan
from lorakit.errors import LorakitError
from lorakit.families.base_model import BaseFacts, inspect, recognised, usual
from lorakit.runs.words import clean

if TYPE_CHECKING:
    from lorakit.bundle.models import Bundle

NOUNS = ("caption", "mask", "system file")
"""Kinds that are no extensions."""
KINDS = 6
"""So many kinds of files are named in the first line."""


def dataset(
    paths: Sequence[Path],
    bundle: Path | None,
    base: str | None,
    family: str | None,
    resolution: int | None,
    html: Path | None,
    as_json: bool,
) -> int:
    """Print what the folders, or those of a bundle, hold. The exit code is 5 where something is
    wrong with them."""
    if bool(paths) == bool(bundle):
        raise LorakitError(
            "Folders are wanted, or a bundle" + (", not both." if paths else "."),
            "lorakit dataset PATH, or lorakit dataset --bundle FILE.",
        )
    if html and not html.parent.is_dir():
        raise LorakitError(
            f"{html} cannot be written: there is no folder {html.parent}.", "Make it first."
        )
    looking = Progress("looked at")
    try:
        looked = _looked(paths, bundle, base, family, resolution, looking)
    finally:
        looking.end()
    if html:
        _write(html, looked)
    if as_json:
        streams.out_json(_plain(looked))
    else:
        from lorakit.cli.dataset_table import drawn

        streams.out(*drawn(looked, sys.stdout))
    if html:
        streams.err(f"The page: {clean(str(html))}")
    return looked.exit_code


def _looked(
    paths: Sequence[Path],
    bundle: Path | None,
    base: str | None,
    family: str | None,
    resolution: int | None,
    progress: Progress,
) -> Looked:
    given = _bundle(bundle) if bundle else None
    root = bundle.resolve().parent if bundle else Path.cwd()
    facts = _base(given.base if given else Base(), base, family, given is not None, root)
    progress.show("looking for files ...")
    chosen = given.dataset if given else Dataset(sources=tuple(s for p in paths for s in layout(p)))
    if resolution or not given:
        chosen = _checked(chosen, resolution or facts.resolution)
    return _look(chosen, root, facts, progress)


def _bundle(path: Path) -> Bundle:
    from lorakit.bundle import read

    return read.read(path)


def _base(given: Base, model: str | None, family: str | None, own: bool, root: Path) -> BaseFacts:
    """The base that is asked for, or the bundle's own; else any base of a family."""
    if model:
        try:
            taken = Base.model_validate({"model": model, "family": family or given.family})
        except ValidationError:
            raise LorakitError(
                f"{model} is no name of a base: it holds a control character or is not UTF-8.",
                "Name a file, a folder or a Hub id.",
            ) from None
        return inspect(taken if family else recognised(taken, Path.cwd()), Path.cwd())
    if own and (family is None or family == given.family):
        try:
            return inspect(given, root)
        except LorakitError as error:
            # The pictures can be looked at all the same, as they fit any base of its family.
            streams.problems([_doubt(error)])
            return usual(given.family)
    return usual(family or get_args(FamilyName)[0])


def _doubt(error: LorakitError) -> Problem:
    return Problem(
        where="base.model", what=error.message, fix=error.hint, severity="warning", code=error.code
    )


def _checked(dataset: Dataset, resolution: int) -> Dataset:
    if resolution % 8:
        raise LorakitError(
            f"Resolution {resolution} is no multiple of 8.",
            f"{resolution // 8 * 8} or {resolution // 8 * 8 + 8} is.",
        )
    return dataset.model_copy(update={"resolution": resolution})


def _look(chosen: Dataset, root: Path, facts: BaseFacts, progress: Progress) -> Looked:
    def walked(found: Sequence[Contents]) -> None:
        progress.end()
        _first(found)

    report = scan(chosen, root, facts, progress, walked=walked)
    counter = captions.counter(facts.folder, facts.token_limit)
    return Looked(
        report=report,
        dataset=chosen,
        base=facts,
        counter=counter,
        frequencies=frequencies(report.pictures, chosen.captions, counter),
        buckets=table(report.pictures),
    )


def _first(found: Sequence[Contents]) -> None:
    """What there is by the names of files, said at once."""
    kinds = Counter[str]()
    for contents in found:
        kinds.update(contents.extensions)
        kinds["caption"] += len({n for names in contents.captions.values() for n in names})
        kinds["mask"] += len(set(contents.masks.values()))
        kinds["system file"] += contents.ignored
    named = [
        counted(count, kind) if kind in NOUNS else f"{count:,} {kind}"
        for kind, count in kinds.most_common()
        if count
    ]
    rest = f" and {len(named) - KINDS} more kinds" if len(named) > KINDS else ""
    files = sum(contents.files for contents in found)
    where = counted(sum(1 + len(contents.folders) for contents in found), "folder")
    listed = f": {', '.join(named[:KINDS])}{rest}" if named else ""
    line = clean(f"{counted(files, 'file')} in {where}{listed}")
    streams.err(*streams.folded(line, "", "  ", sys.stderr, whole=False))


def _write(file: Path, looked: Looked) -> None:
    from lorakit.dataset.page import page

    progress = Progress("drew")
    try:
        text = page(looked, clean, progress)
    finally:
        progress.end()
    try:
        durable.write(file, text.encode("utf-8"))
    except OSError as error:
        raise LorakitError(
            f"{file} cannot be written: {error.strerror or error}.", "Name another file."
        ) from None


def _plain(looked: Looked) -> dict[str, Any]:
    return {
        **looked.report.as_dict(),
        "base": looked.base.model or looked.base.family,
        "resolution": looked.dataset.resolution,
        "sources": [source.model_dump() for source in looked.dataset.sources],
        "buckets": [dataclasses.asdict(bucket) for bucket in looked.buckets],
        "frequencies": looked.frequencies.as_dict(),
    }
