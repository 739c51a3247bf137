"""What is wrong or doubtful about captions, each in one sentence with the way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lorakit.bundle.models import Captions, Dataset, Source
from lorakit.bundle.problems import Problem
from lorakit.dataset import captions, wildcards, wording
from lorakit.dataset.findings import counted, listed
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.dataset.sidecars import Reader, Sidecar
from lorakit.errors import ExitCode

SETTINGS = "dataset.captions"


def of_files(
    index: int, reader: Reader, beside: Iterable[tuple[Picture, Sidecar]]
) -> list[Problem]:
    """Doubts about the files that the captions of one source are from."""
    path, seen = f"dataset.sources[{index}].path", list(beside)
    found = []
    unlike = [
        f"{p.name} ({s.name} is used, not {' or '.join(s.unlike)})" for p, s in seen if s.unlike
    ]
    if unlike:
        found.append(
            _warning(
                path,
                f"{counted(len(unlike), 'picture')} with captions in more than one place, and they "
                f"differ: {listed(unlike)}.",
                "Remove the others. A .txt file goes before .caption, .json, metadata.jsonl and "
                "metadata.csv.",
            )
        )
    if empty := sorted({name for _, s in seen for name in s.empty}):
        found.append(
            _warning(
                path,
                f"{counted(len(empty), 'caption file')} without a caption: {listed(empty)}.",
                "Write into them what the pictures show, or remove them.",
            )
        )
    for table, names in reader.astray.items():
        found.append(
            _warning(
                path,
                f"{table} names {counted(len(names), 'picture')} that "
                f"{'is' if len(names) == 1 else 'are'} not there: {listed(names)}.",
                "A file_name counts from the folder of its table, and has the letters of the file.",
            )
        )
    if unread := [f"{name} ({why})" for name, why in reader.unread.items()]:
        found.append(_warning(path, f"Not read: {listed(unread)}."))
    if outside := [p.name for p, s in seen if s.box and not p.box]:
        found.append(
            _warning(
                path,
                f"The box lies outside of the picture, and is not used: {listed(outside)}.",
                "A box is in pixels of the upright picture, or in shares of 0 to 1.",
            )
        )
    return found


def of_report(
    report: DatasetReport, dataset: Dataset, counter: captions.Counter | None
) -> list[Problem]:
    """Doubts that show only when all captions have been read."""
    found: list[Problem] = []
    for index, source in enumerate(dataset.sources):
        pictures = [p for p in report.pictures if p.source == index]
        found += _missing(index, source, pictures, dataset.captions)
    if counter is not None:
        found += _too_long(report.pictures, dataset, counter)
    found += _moving(report.pictures, dataset)
    found += _idle(report.pictures, dataset.captions)
    return found


def _missing(
    index: int, source: Source, pictures: Sequence[Picture], settings: Captions
) -> Iterator[Problem]:
    without = [p.name for p in pictures if not p.captions]
    if not without:
        return
    alone = wording.around("", settings, captions.trigger_of(source))
    if len(without) < len(pictures):
        instead = f"they are told only: {alone}" if alone else "nothing stands for it"
        yield _warning(
            f"dataset.sources[{index}].path",
            f"{len(without)} of {counted(len(pictures), 'picture')} have no caption, and "
            f"{instead}; without one: {listed(without)}.",
            "Write their captions, each beside its picture.",
        )
    elif not alone:
        written = "write captions: dog.txt or dog.caption beside dog.jpg."
        yield Problem(
            where=f"dataset.sources[{index}].{'path' if source.prior else 'trigger'}",
            what=f"None of {counted(len(pictures), 'picture')} has a caption, and "
            + ("prior pictures take no trigger." if source.prior else "there is no trigger."),
            fix=written.capitalize() if source.prior else f"Set a trigger, or {written}",
            code=ExitCode.DATA,
        )


def _too_long(
    pictures: Sequence[Picture], dataset: Dataset, counter: captions.Counter
) -> Iterator[Problem]:
    long = [p for p in pictures if (p.tokens or 0) > counter.limit]
    never, at_times = [], []
    for p in long:
        trigger = captions.trigger_of(dataset.sources[p.source])
        if trigger and dataset.captions.shuffle and _moves(p, dataset.captions, trigger):
            at_times.append(p.name)
        elif trigger and any(_cut_off(t, dataset.captions, trigger, counter) for t in p.captions):
            never.append(p.name)
    if never:
        yield _warning(
            "dataset.sources",
            f"The trigger stands behind the {counter.limit} tokens that are read, so it is "
            f"never learned there: {listed(never)}.",
            "Move it to the front of these captions, or shorten them.",
        )
    if at_times:
        yield _warning(
            f"{SETTINGS}.keep",
            f"The trigger is a tag that shuffle moves, at times behind the {counter.limit} tokens "
            f"that are read, and then it is not learned: {listed(at_times)}.",
            "Move it to the front of these captions and set dataset.captions.keep, or shorten "
            "them.",
        )
    if long:
        first = max(
            (
                wording.whole(t, dataset.captions, _trigger(long[0], dataset))
                for t in _texts(long[0])
            ),
            key=counter.count,
        )
        yield _warning(
            "dataset.sources",
            f"{counted(len(long), 'caption')} longer than {counter.limit} tokens, and the "
            f"rest is not read: {listed(f'{p.name} ({p.tokens})' for p in long)}.",
            f'Shorten them; of the first, this is lost: "{_start(counter.measure(first).cut)}".',
        )


def _start(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 60 else f"{text[:60]} ..."


def _trigger(picture: Picture, dataset: Dataset) -> str:
    return captions.trigger_of(dataset.sources[picture.source])


def _texts(picture: Picture) -> tuple[str, ...]:
    return picture.captions or ("",)


def _cut_off(text: str, settings: Captions, trigger: str, counter: captions.Counter) -> bool:
    """Whether the trigger stands behind what is read of a caption, as a whole or in part."""
    told = wording.whole(text, settings, trigger)
    return not captions.holds(told[: len(told) - len(counter.measure(told).cut)], trigger)


def _moves(picture: Picture, settings: Captions, trigger: str) -> bool:
    """Whether the trigger is among the tags of a caption that have no fixed place, and only
    there."""
    if captions.holds(f"{settings.prefix} {settings.suffix}", trigger):
        return False
    for text in picture.captions:
        tags = wording.tags(text, settings.separator)
        fixed, free = tags[: settings.keep], tags[settings.keep :]
        if len(free) > 1 and any(captions.holds(tag, trigger) for tag in free):
            return not any(captions.holds(tag, trigger) for tag in fixed)
    return False


def _moving(pictures: Sequence[Picture], dataset: Dataset) -> Iterator[Problem]:
    settings = dataset.captions
    if not settings.shuffle:
        return
    moved = [
        p.name
        for p in pictures
        if (trigger := _trigger(p, dataset)) and _moves(p, settings, trigger)
    ]
    if moved:
        yield _warning(
            f"{SETTINGS}.keep",
            f"The trigger is a tag of {counted(len(moved), 'caption')}, and shuffle moves it "
            f"among the others, as keep is {settings.keep}: {listed(moved)}.",
            "Have the trigger as first tag, and set dataset.captions.keep = 1.",
        )


def _idle(pictures: Sequence[Picture], settings: Captions) -> Iterator[Problem]:
    """Settings that these captions give nothing to do, and braces that are left as they are."""
    texts = [t for p in pictures for t in p.captions]
    if not texts:
        return
    mixing = [k for k in ("shuffle", "drop_tags") if getattr(settings, k)]
    if mixing and not any(len(wording.tags(t, settings.separator)) > 1 for t in texts):
        yield _warning(
            f"{SETTINGS}.separator",
            f"No caption has {settings.separator!r} between tags, so "
            f"{' and '.join(mixing)} {'has' if len(mixing) == 1 else 'have'} nothing to do.",
            "Set dataset.captions.separator to what stands between the tags.",
        )
    if settings.wildcards and not any(map(wildcards.has_choice, texts)):
        yield _warning(
            f"{SETTINGS}.wildcards",
            "No caption has a choice such as {red|blue}, so wildcards has nothing to do.",
            "--set dataset.captions.wildcards=false",
        )
    if settings.wildcards:
        lone = [p.name for p in pictures if any(map(wildcards.unbalanced, p.captions))]
        if lone:
            yield _warning(
                f"{SETTINGS}.wildcards",
                f"{counted(len(lone), 'caption')} with a brace that has no other half, which is "
                f"left as it is: {listed(lone)}.",
                "Put in the missing brace, or a backslash before the one that stands alone.",
            )
    if settings.lines and all(len(p.captions) < 2 for p in pictures):
        yield _warning(
            f"{SETTINGS}.lines",
            "No caption file has more than one line, so lines has nothing to do.",
            "--set dataset.captions.lines=false",
        )


def _warning(where: str, what: str, fix: str = "") -> Problem:
    return Problem(where=where, what=what, fix=fix, severity="warning", code=ExitCode.DATA)
