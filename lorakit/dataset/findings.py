"""What is wrong or doubtful about the pictures, each in one sentence with the way out."""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from pathlib import Path

from lorakit.bundle.problems import Problem
from lorakit.dataset import alike, captions
from lorakit.dataset.folders import Contents
from lorakit.dataset.layout import repeated
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.dataset.sidecars import why_unused
from lorakit.dataset.sniff import READABLE, looks
from lorakit.errors import ExitCode

NAMED = 5
"""So many files are named in a sentence; of more, the rest is counted."""

MUCH_UPSCALED = 2.0
"""Above this a picture turns visibly soft."""


def listed(names: Iterable[str]) -> str:
    """The first names and how many more there are: `a.jpg, b.jpg and 3 more`."""
    every = list(names)
    shown = ", ".join(every[:NAMED])
    return f"{shown} and {len(every) - NAMED} more" if len(every) > NAMED else shown


def counted(count: int, noun: str) -> str:
    """`1 picture`, `2 pictures`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _of_source(index: int, key: str) -> str:
    return f"dataset.sources[{index}].{key}"


def _error(where: str, what: str, fix: str) -> Problem:
    return Problem(where=where, what=what, fix=fix, code=ExitCode.DATA)


def _warning(where: str, what: str, fix: str = "") -> Problem:
    return Problem(where=where, what=what, fix=fix, severity="warning", code=ExitCode.DATA)


def noted(name: str, note: str) -> Problem:
    """A doubt about one picture that is used all the same."""
    return _warning(name, f"{name} {note}.")


def missing_folder(index: int, given: str, folder: Path) -> Problem:
    """A source that is not there or no folder, with the nearest folder that is."""
    if folder.exists():
        what, fix = f"{given} is a file, not a folder.", f"Name its folder, {folder.parent}."
    else:
        parent = next((p for p in folder.parents if p.is_dir()), Path("/"))
        what = f"The folder {given} does not exist."
        fix = f"Looked for {folder}; the nearest folder there is is {parent}."
        inside = _folders_in(parent)
        if inside:
            fix += f" It holds {listed(inside)}."
    return _error(_of_source(index, "path"), what, fix)


def _folders_in(parent: Path) -> list[str]:
    try:
        return sorted(
            e.name for e in os.scandir(parent) if e.is_dir() and not e.name.startswith(".")
        )
    except OSError:
        return []


def of_folder(index: int, folder: Path, contents: Contents, repeats: int) -> list[Problem]:
    """Doubts about the folder of one source as a whole."""
    found = []
    if not contents.pictures:
        found.append(_no_pictures(index, folder, contents))
    if contents.closed:
        found.append(
            _error(
                _of_source(index, "path"),
                f"Folders that may not be read: {listed(contents.closed)}.",
                "Allow it: chmod u+rx on each of them.",
            )
        )
    hidden = [n for n, why in contents.others.items() if not why and _is_picture(folder / n)]
    if hidden:
        found.append(
            _warning(
                _of_source(index, "path"),
                f"Pictures with another extension are not used: {listed(hidden)}.",
                "Rename them to .jpg or .png, or move them away.",
            )
        )
    shared = [
        n for n, c in Tally(os.path.splitext(n)[0] for n in contents.captions).items() if c > 1
    ]
    if shared:
        found.append(
            _warning(
                _of_source(index, "path"),
                f"Pictures of the same name share one caption: {listed(shared)}.",
                "Rename one of them if they show different things.",
            )
        )
    lonely = [
        n
        for n in sorted({n for n, why in contents.others.items() if not why} - set(hidden))
        if os.path.splitext(n)[1].lower() in captions.SUFFIXES
    ]
    if lonely and contents.pictures:
        found.append(
            _warning(
                _of_source(index, "path"),
                f"Caption files without a picture: {listed(lonely)}.",
                "A caption has the name of its picture: dog.jpg and dog.txt.",
            )
        )
    named = [n for n in [folder.name, *contents.folders] if repeated(n.rsplit("/", 1)[-1])]
    if named and repeats == 1:
        found.append(
            _warning(
                _of_source(index, "repeats"),
                f"The number at the start of {listed(named)} is not read as repeats.",
                "Give each such folder a source of its own, with repeats.",
            )
        )
    return found


def _is_picture(path: Path) -> bool:
    try:
        return path.is_file() and looks(path) in READABLE
    except OSError:
        return False


_CACHES = {".npz": "what another trainer cached", ".safetensors": "weights, or what was cached"}


def why_other(folder: Path, name: str) -> str:
    """What a file is that is neither a picture nor read as captions of one."""
    try:
        kind = looks(folder / name)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if kind in READABLE:
        return f"{kind} with another extension"
    return why_unused(name) or _CACHES.get(os.path.splitext(name)[1].lower()) or kind


def _no_pictures(index: int, folder: Path, contents: Contents) -> Problem:
    kinds = ", ".join(f"{n} {suffix}" for suffix, n in contents.extensions.items())
    looked = f"{folder}" + (
        f" and {counted(len(contents.folders), 'folder')} in it" if contents.folders else ""
    )
    return _error(
        _of_source(index, "path"),
        f"No pictures in {looked}: {kinds or 'no files at all'}"
        + (f", and {counted(contents.ignored, 'system file')}." if contents.ignored else "."),
        "Expected .jpg, .png, .webp, .bmp, .gif or .tiff files, in it or in folders below it.",
    )


def of_report(report: DatasetReport) -> list[Problem]:
    """Doubts that show only when all pictures have been read; of captions, caption_findings."""
    found = [_error(u.name, u.why, u.fix) for u in report.unusable]
    found += _sizes(report.pictures)
    found += _duplicates(report.pictures)
    found += _alike(report.pictures)
    return found


def _sizes(pictures: Sequence[Picture]) -> list[Problem]:
    soft = [p for p in pictures if p.upscale > MUCH_UPSCALED]
    extreme = [p for p in pictures if p.fit.extreme]
    found = []
    if soft:
        named = listed(f"{p.name} {p.width} x {p.height} ({p.upscale:.1f}x)" for p in soft)
        found.append(
            _warning(
                "dataset.resolution",
                f"{counted(len(soft), 'picture')} made more than twice as large: {named}.",
                "Use larger originals or a lower resolution, or remove them.",
            )
        )
    if extreme:
        named = listed(f"{p.name} {p.width} x {p.height} (keeps {p.fit.kept:.0%})" for p in extreme)
        found.append(
            _warning(
                "dataset.buckets",
                f"{counted(len(extreme), 'picture')} longer than 4:1, and only the middle is "
                f"used: {named}.",
                "Cut out the part that matters.",
            )
        )
    return found


def _duplicates(pictures: Sequence[Picture]) -> list[Problem]:
    same: dict[str, dict[tuple[str, str], str]] = {}
    twice = set()
    for p in pictures:
        names = same.setdefault(p.sha256, {})
        if (p.folder, p.name) in names:
            twice.add(p.name)
        names[p.folder, p.name] = p.name
    found = [
        _warning(
            next(iter(names.values())),
            f"The same picture {len(names)} times: {listed(names.values())}.",
            "Keep one; to show it more often, use repeats.",
        )
        for names in same.values()
        if len(names) > 1
    ]
    if twice:
        found.append(
            _warning(
                "dataset.sources",
                f"{counted(len(twice), 'picture')} in more than one source, and seen for each: "
                f"{listed(sorted(twice))}.",
                "Remove one of the sources, unless that is what you want.",
            )
        )
    return found


def _alike(pictures: Sequence[Picture]) -> list[Problem]:
    """Pictures that are nearly the same; those that are the same to the byte count once."""
    once = {p.sha256: n for n, p in reversed(list(enumerate(pictures)))}
    seen = ((n, p.impression) for n in sorted(once.values()) if (p := pictures[n]).impression)
    found = [[pictures[n].name for n in group] for group in alike.groups(seen)]
    if not found:
        return []
    named = listed(" = ".join(names[:NAMED]) for names in found)
    return [
        _warning(
            "dataset.sources",
            f"Pictures that look nearly the same, {counted(len(found), 'group')}: {named}.",
            "Keep the best of each; what is there more often is learned more strongly.",
        )
    ]
