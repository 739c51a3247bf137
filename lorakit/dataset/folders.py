"""Walks a folder of pictures and says what each file in it is, by name."""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from lorakit.dataset import captions

PICTURES = frozenset(
    (
        ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff",
        ".avif", ".heic", ".heif", ".jxl", ".jp2",
    )
)  # fmt: skip
"""Extensions of files that should be pictures, in any case of letters."""

SYSTEM = frozenset(
    (
        "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "@eadir",
        "$recycle.bin", "system volume information", "lost+found",
    )
)  # fmt: skip
"""Names that operating systems and network drives leave behind, in lower case."""


@dataclass(slots=True)
class Contents:
    """The files below one folder. Names are relative to it, with `/`, sorted."""

    pictures: list[str] = field(default_factory=list)
    """Files that should be pictures."""
    captions: dict[str, list[str]] = field(default_factory=dict)
    """Caption files of each picture that has any, the one to use first."""
    others: list[str] = field(default_factory=list)
    """Files that are neither, and links that lead nowhere."""
    ignored: int = 0
    """System files."""
    closed: list[str] = field(default_factory=list)
    """Folders that may not be read."""
    folders: list[str] = field(default_factory=list)
    """Folders below it that were looked into."""

    @property
    def extensions(self) -> dict[str, int]:
        """How many files of each extension there are, the most first."""
        names = [*self.pictures, *self.others]
        return dict(
            Counter(os.path.splitext(n)[1].lower() or "no extension" for n in names).most_common()
        )


def walk(root: Path) -> Contents:
    """The files in a folder and all folders below it.

    Links to files and folders are followed, each folder once, so a loop of links ends.
    Only names and kinds of entries are read, no file is opened.
    """
    found = Contents()
    _walk(root, "", found, set())
    for names in (found.pictures, found.others, found.folders):
        names.sort()
    return found


def is_system(name: str) -> bool:
    """Whether a file or folder of this name belongs to the system: dotfiles, `._photo.jpg`, …"""
    return name.startswith(".") or name.lower() in SYSTEM


def _walk(folder: Path, prefix: str, found: Contents, visited: set[tuple[int, int]]) -> None:
    try:
        here = folder.stat()
        if (here.st_dev, here.st_ino) in visited:
            return
        visited.add((here.st_dev, here.st_ino))
        entries = sorted(os.listdir(folder))
    except OSError:
        found.closed.append(prefix.rstrip("/") or ".")
        return
    files = []
    for name in entries:
        kind = _kind(folder / name)
        if is_system(name):
            found.ignored += _count(folder / name) if kind == "folder" else 1
        elif kind == "folder":
            found.folders.append(prefix + name)
            _walk(folder / name, f"{prefix}{name}/", found, visited)
        elif kind == "file":
            files.append(name)
        else:
            found.others.append(prefix + name)
    _sort_out(files, prefix, found)


def _sort_out(files: list[str], prefix: str, found: Contents) -> None:
    """Pictures by extension, each with its captions; what is left belongs to no picture."""
    pictures = [n for n in files if os.path.splitext(n)[1].lower() in PICTURES]
    texts: dict[str, list[str]] = {}
    for name in files:
        stem, suffix = os.path.splitext(name)
        if suffix.lower() in captions.SUFFIXES:
            texts.setdefault(stem, []).append(name)
    taken = set(pictures)
    for name in pictures:
        stem = os.path.splitext(name)[0]
        beside = captions.beside(stem, texts.get(stem, ()))
        taken.update(beside)
        found.pictures.append(prefix + name)
        if beside:
            found.captions[prefix + name] = [prefix + n for n in beside]
    found.others += [prefix + n for n in files if n not in taken]


def _kind(path: Path) -> str:
    """file, folder, or other: a link that leads nowhere, a pipe, a socket, a device."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "other"
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def _count(folder: Path) -> int:
    """Files below a system folder; links are not followed."""
    if folder.is_symlink():
        return 1
    return sum(len(files) for _, _, files in os.walk(folder))
