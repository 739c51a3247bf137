"""Walks a folder of pictures and says what each file in it is, by name."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable
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
    masks: dict[str, str] = field(default_factory=dict)
    """The mask of each picture that has one: `dog-mask.png` of `dog.jpg`."""
    others: dict[str, str] = field(default_factory=dict)
    """Files that are neither, each with what is known of why: a link that leads nowhere, a pipe,
    or nothing yet."""
    ignored: int = 0
    """System files."""
    files: int = 0
    """All files, system files among them."""
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


MASK = "-mask"
"""Ends the name of a mask, before its extension."""


def walk(root: Path, masks: bool = False, apart: Iterable[Path] = ()) -> Contents:
    """The files in a folder and all folders below it.

    With `masks`, a picture that is named as the mask of another one is none to be learned. Folders
    below it that are `apart` are left out, as they are looked at for themselves.

    Links to files and folders are followed, but nothing is met twice, so a loop of links ends: what
    lies in the folder itself comes before what a link leads to. Only names and kinds of entries are
    read, no file is opened.
    """
    own = _identity(root)
    walk = _Walk({one for one in map(_identity, apart) if one and one != own})
    walk.into(str(root), "")
    while walk.later:
        walk.follow(*walk.later.pop(0))
    masked = masks_among(walk.found.pictures) if masks else {}
    found = walk.done(set(masked.values()))
    pictures = set(found.pictures)
    found.masks = {name: mask for name, mask in masked.items() if name in pictures}
    used = set(found.masks.values())
    # Another one of the same picture, such as dog-mask.jpg beside dog-mask.png, is no picture.
    stems = {os.path.splitext(name)[0] for name in masked.values()}
    unused = {name for name in pictures - used if os.path.splitext(name)[0] in stems}
    found.pictures = sorted(pictures - used - unused)
    found.others |= dict.fromkeys(sorted(unused), "a mask that is not used")
    return found


def masks_among(pictures: Iterable[str]) -> dict[str, str]:
    """Which of these names is the mask of which."""
    every = [(name, os.path.splitext(name)[0]) for name in sorted(pictures)]
    masks: dict[str, str] = {}
    for name, stem in every:
        if stem.endswith(MASK):
            masks.setdefault(stem, name)
    return {name: masks[stem + MASK] for name, stem in every if stem + MASK in masks}


def is_system(name: str) -> bool:
    """Whether a file or folder of this name belongs to the system: dotfiles, `._photo.jpg`, …"""
    return name.startswith(".") or name.lower() in SYSTEM


class _Walk:
    def __init__(self, apart: set[tuple[int, int]]) -> None:
        self.found = Contents()
        self.later: list[tuple[str, str]] = []
        """Links to folders, as (path, name)."""
        self._folders = apart
        self._own: set[tuple[int, int]] = set()
        """Files that are no links, by device and inode."""
        self._links: dict[str, tuple[int, int]] = {}

    def into(self, folder: str, prefix: str) -> bool:
        """Look into a folder and all below it, unless it has been looked into."""
        waiting = self._one(folder, prefix)
        if waiting is None:
            return False
        while waiting:  # no recursion: a path may be longer than Python's stack
            path, name = waiting.pop()
            below = self._one(path, f"{name}/")
            if below is not None:
                self.found.folders.append(name)
                waiting += below
        return True

    def _one(self, folder: str, prefix: str) -> list[tuple[str, str]] | None:
        """Look into one folder: the folders in it, as (path, name); None where it has been met."""
        try:
            here = os.stat(folder)
            if (here.st_dev, here.st_ino) in self._folders:
                return None
            self._folders.add((here.st_dev, here.st_ino))
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:
            self.found.closed.append(prefix.rstrip("/") or ".")
            return []
        files = []
        below = []
        for entry in entries:
            name, kind = entry.name, _kind(entry)
            if is_system(name):
                count = _count(entry.path) if kind == "folder" else 1
                self.found.ignored += count
                self.found.files += count
            elif kind == "folder" and entry.is_symlink():
                self.later.append((entry.path, prefix + name))
            elif kind == "folder":
                below.append((entry.path, prefix + name))
            elif kind == "file":
                files.append(name)
                if entry.is_symlink():
                    with contextlib.suppress(OSError):  # it was there a moment ago
                        target = entry.stat()
                        self._links[prefix + name] = (target.st_dev, target.st_ino)
                else:
                    self._own.add((here.st_dev, entry.inode()))
            else:
                self.found.others[prefix + name] = kind
                self.found.files += 1
        self.found.files += len(files)
        _sort_out(files, prefix, self.found)
        return below[::-1]

    def follow(self, path: str, name: str) -> None:
        """Look into what a link leads to."""
        if self.into(path, f"{name}/"):
            self.found.folders.append(name)
        else:
            self.found.others[name] = "a link to a folder that is here already"
            self.found.files += 1

    def done(self, masks: set[str]) -> Contents:
        """All in order, and without links to what is here anyway. Pictures may share a mask."""
        found, met = self.found, set(self._own)
        twice = set()
        for name, target in sorted(self._links.items()):
            if name in masks:
                continue
            if target in met:
                twice.add(name)
            met.add(target)
        for name in twice:
            for caption in found.captions.pop(name, ()):
                found.others[caption] = ""
            found.others[name] = "a link to a file that is here already"
        for names in found.captions.values():  # what two pictures share is still a caption
            for name in names:
                found.others.pop(name, None)
        found.pictures = sorted(set(found.pictures) - twice)
        found.others = dict(sorted(found.others.items()))
        found.folders.sort()
        return found


def _sort_out(files: list[str], prefix: str, found: Contents) -> None:
    """Pictures by extension, each with its captions; what is left belongs to no picture."""
    pictures = []
    texts: dict[str, list[str]] = {}
    for name in files:
        stem, suffix = os.path.splitext(name)
        if suffix.lower() in PICTURES:
            pictures.append((name, stem))
        elif suffix.lower() in captions.SUFFIXES:
            texts.setdefault(stem, []).append(name)
    taken = {name for name, _ in pictures}
    for name, stem in pictures:
        found.pictures.append(prefix + name)
        if stem in texts:
            beside = captions.beside(stem, texts[stem])
            taken.update(beside)
            found.captions[prefix + name] = [prefix + n for n in beside]
    found.others.update({prefix + n: "" for n in files if n not in taken})


def _kind(entry: os.DirEntry[str]) -> str:
    """file, folder, or what else it is, in words."""
    try:
        if entry.is_dir():
            return "folder"
        if entry.is_file():
            return "file"
        if entry.is_symlink() and not os.path.exists(entry.path):
            return "a link that leads nowhere"
    except OSError:
        pass
    return "a link that leads nowhere" if entry.is_symlink() else "no file: a pipe or a device"


def _identity(folder: Path) -> tuple[int, int] | None:
    """Device and inode; None where there is no such folder."""
    try:
        here = os.stat(folder)
    except OSError:
        return None
    return here.st_dev, here.st_ino


def _count(folder: str) -> int:
    """Files below a system folder; links are not followed."""
    if os.path.islink(folder):
        return 1
    return sum(len(files) for _, _, files in os.walk(folder))
