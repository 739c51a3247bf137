"""What a file is, by its first bytes: names and extensions lie."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

READABLE = {
    "JPEG": "JPEG",
    "PNG": "PNG",
    "WebP": "WEBP",
    "GIF": "GIF",
    "BMP": "BMP",
    "TIFF": "TIFF",
    "AVIF": "AVIF",
    "HEIC": "HEIF",
}
"""Kinds that are read as pictures, with Pillow's name of each; AVIF only where Pillow has it, HEIC
only where pillow-heif is installed."""

TEXTS = ("empty", "text", "an HTML page", "an SVG drawing", "of no known kind", "nothing but zeros")
"""Kinds of what may be a text: one of an old code page is of no known kind."""

HEAD_BYTES = 512
"""So much is looked at."""

_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"IIRO", "a camera's raw file"),
    (b"IIRS", "a camera's raw file"),
    (b"IIU\0", "a camera's raw file"),
    (b"FUJIFILMCCD-RAW", "a camera's raw file"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"8BPS", "a Photoshop file"),
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\0\x05\x16\x07", "a macOS side file"),
    (b"version https://git-lfs.github.com/", "a Git LFS pointer"),
    (b"\x1a\x45\xdf\xa3", "a video"),
)

_BRANDS = {
    b"avif": "AVIF", b"avis": "AVIF",
    b"heic": "HEIC", b"heix": "HEIC", b"heim": "HEIC", b"heis": "HEIC",
    b"hevc": "HEIC", b"hevx": "HEIC", b"hevm": "HEIC", b"hevs": "HEIC",
    b"mif1": "HEIC", b"msf1": "HEIC",
}  # fmt: skip
"""Brands of the ISO media format that are pictures; every other one is a video."""


def looks(path: Path) -> str:
    """What the file is, in words that go behind "it is": `JPEG`, `HEIC`, `an HTML page`, `empty`.

    Raises OSError where it cannot be read.
    """
    with path.open("rb") as file:
        return kind(file.read(HEAD_BYTES))


def kind(head: bytes) -> str:
    """What a file with these first bytes is; `of no known kind` where nothing fits."""
    if not head:
        return "empty"
    if head[:4] == b"RIFF":
        return "WebP" if head[8:12] == b"WEBP" else "a sound or video file"
    if head[4:8] == b"ftyp":
        return _media(head)
    if head[:4] in (b"II*\0", b"MM\0*"):
        return "a camera's raw file" if _raw(head) else "TIFF"
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "BMP"
    for start, name in _STARTS:
        if head.startswith(start):
            return name
    return _text(head)


_BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)
"""Sizes of the header behind BM; without one it is a text that begins so."""


def _raw(head: bytes) -> bool:
    """Whether a TIFF is what a camera's sensor saw, with a preview in front: it says so itself, by
    the version of DNG or by calling its first picture a reduced one."""
    if head[8:10] == b"CR":  # Canon's
        return True
    order: Literal["little", "big"] = "little" if head[:2] == b"II" else "big"
    at = int.from_bytes(head[4:8], order)
    count = int.from_bytes(head[at : at + 2], order)
    for entry in range(at + 2, min(at + 2 + 12 * count, len(head) - 11), 12):
        tag = int.from_bytes(head[entry : entry + 2], order)
        value = int.from_bytes(head[entry + 8 : entry + 12], order)
        if tag == 50706 or (tag == 254 and value & 1):
            return True
    return False


def _media(head: bytes) -> str:
    """The main brand, or of the generic `mif1` the first compatible one that says more."""
    length = int.from_bytes(head[:4], "big")
    brands = [head[8:12], *(head[i : i + 4] for i in range(16, min(length, len(head)), 4))]
    if brands[0] == b"crx ":
        return "a camera's raw file"
    if brands[0] not in _BRANDS:
        return "a video"
    return "AVIF" if any(_BRANDS.get(b) == "AVIF" for b in brands) else "HEIC"


def _text(head: bytes) -> str:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "an HTML page"
    if text.startswith(b"<svg") or (text.startswith(b"<?xml") and b"<svg" in text):
        return "an SVG drawing"
    if head.strip(b"\0") == b"":
        return "nothing but zeros"
    try:
        head[:-4].decode("utf-8")
    except UnicodeDecodeError:
        return "of no known kind"
    return "of no known kind" if b"\0" in head else "text"
