"""A folder with every kind of file that people have trained on by mistake, and what each is."""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo

RED, BLUE, WHITE, GREY = (255, 0, 0), (0, 0, 255), (255, 255, 255), (128, 128, 128)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a usable picture is."""

    size: tuple[int, int] = (64, 32)
    """Upright."""
    top_left: tuple[int, int, int] | None = RED
    """Colour near the upper left corner; None: any."""
    bottom_right: tuple[int, int, int] | None = BLUE
    caption: str = ""
    note: str = ""
    """In a finding about it."""


def halves() -> Image.Image:
    """64 x 32: left half red, right half blue."""
    image = Image.new("RGB", (64, 32), RED)
    image.paste(BLUE, (32, 0, 64, 32))
    return image


_TURNED = {
    1: (False, RED, BLUE),
    2: (False, BLUE, RED),
    3: (False, BLUE, RED),
    4: (False, RED, BLUE),
    5: (True, RED, BLUE),
    6: (True, RED, BLUE),
    7: (True, BLUE, RED),
    8: (True, BLUE, RED),
}
"""Of each orientation: whether it stands upright, and the colours in two corners."""


def build(folder: Path) -> tuple[dict[str, Expected], dict[str, str], dict[str, str], int]:
    """Fills a new folder.

    Returns usable pictures by name, unusable files and other files each with a part of the reason,
    and how many system files there are.
    """
    folder.mkdir(parents=True)
    usable: dict[str, Expected] = {}
    unusable: dict[str, str] = {}
    others: dict[str, str] = {}

    def save(name: str, image: Image.Image, expected: Expected, **how: object) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, **how)  # type: ignore[arg-type]
        usable[name] = expected

    def write(name: str, data: bytes) -> None:
        (folder / name).write_bytes(data)

    # Turned by EXIF, in three formats; and what stands there and is none.
    for orientation, (upright, first, last) in _TURNED.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        size = (32, 64) if upright else (64, 32)
        told = Expected(size=size, top_left=first, bottom_right=last)
        save(f"exif{orientation}.jpg", halves(), told, exif=exif, quality=95)
        save(f"exif{orientation}.webp", halves(), told, exif=exif, lossless=True)
        save(f"exif{orientation}.png", halves(), told, exif=exif)
    exif = Image.Exif()
    exif[0x0112] = 9
    save("exif9.jpg", halves(), Expected(note="EXIF orientation"), exif=exif, quality=95)
    save("exif-damaged.jpg", halves(), Expected(note="damaged EXIF"), exif=b"Exif\0\0MM\0*junk",
         quality=95)  # fmt: skip

    # Transparency, palettes, channels and depths.
    clear = Image.new("RGBA", (64, 32), (255, 0, 0, 0))
    save("clear.png", clear, Expected(top_left=WHITE, bottom_right=WHITE))
    palette = Image.new("P", (64, 32), 0)
    palette.putpalette([255, 0, 255] + [0] * 765)
    save("palette.png", palette, Expected(top_left=WHITE, bottom_right=WHITE), transparency=0)
    save(
        "grey-alpha.png",
        Image.new("LA", (64, 32), (128, 255)),
        Expected(top_left=GREY, bottom_right=GREY),
    )
    save("one-bit.png", Image.new("1", (64, 32), 1), Expected(top_left=WHITE, bottom_right=WHITE))
    # Adobe's way, inverted, as Pillow and Photoshop write it.
    save("cmyk.jpg", halves().convert("CMYK"), Expected(), quality=95)
    save(
        "deep.png", Image.new("I;16", (64, 32), 0x8080), Expected(top_left=GREY, bottom_right=GREY)
    )
    save("halves.bmp", halves(), Expected())
    save("halves.tiff", halves(), Expected())
    save("halves.avif", halves(), Expected(), quality=95)

    # Colour profiles.
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    save("profile.png", halves(), Expected(), icc_profile=srgb)
    save(
        "profile-damaged.png", halves(), Expected(note="colour profile"), icc_profile=b"none at all"
    )

    # Animations.
    frames = [Image.new("RGB", (64, 32), (n, n, 200)) for n in (0, 50, 100, 150)]
    moving = Expected(top_left=(0, 0, 200), bottom_right=(0, 0, 200), note="4 frames")
    for name in ("moving.gif", "moving.webp", "moving.png"):
        save(name, frames[0], moving, save_all=True, append_images=frames[1:], duration=90,
             **({"lossless": True} if name.endswith("webp") else {}))  # fmt: skip

    # Pixels that no trainer reads, and previews of what is no picture yet.
    for name, mode, pixel, why in (
        ("fractions.tiff", "F", 0.5, "pixels of numbers with a fraction"),
        ("wide.tiff", "I", 70_000, "pixels of more than 16 bits"),
        ("lab.tiff", "LAB", (50, 0, 0), "pixels of the colours of Lab"),
    ):
        Image.new(mode, (64, 32), pixel).save(folder / name)  # type: ignore[arg-type]
        unusable[name] = why
    halves().save(folder / "negative.tif", tiffinfo={254: 1})
    unusable["negative.tif"] = "a camera's raw file"

    # Cut short, dressed up, too large.
    whole = io.BytesIO()
    Image.effect_noise((256, 256), 90).convert("RGB").save(whole, "JPEG")
    write("cut.jpg", whole.getvalue()[: len(whole.getvalue()) // 2])
    unusable["cut.jpg"] = "damaged or cut short"
    whole = io.BytesIO()
    Image.effect_noise((256, 256), 90).save(whole, "PNG")
    write("cut.png", whole.getvalue()[: len(whole.getvalue()) // 2])
    unusable["cut.png"] = "damaged or cut short"
    write("empty.jpg", b"")
    unusable["empty.jpg"] = "0 bytes"
    write("page.jpg", b"<!DOCTYPE html><html>sign in</html>")
    unusable["page.jpg"] = "an HTML page"
    write("pointer.png", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    unusable["pointer.png"] = "Git LFS pointer"
    write("song.png", b"RIFF\x24\0\0\0WAVEfmt ")
    unusable["song.png"] = "sound or video"
    write("bomb.png", _bomb(13_400, 13_400))
    unusable["bomb.png"] = "more than 178,956,970 pixels"
    book = PngInfo()
    book.add_text("book", "x" * 2**21, zip=True)
    halves().save(folder / "book.png", pnginfo=book)
    unusable["book.png"] = "more text beside its pixels"
    buffer = io.BytesIO()
    halves().save(buffer, "PNG")
    write("really-png.jpg", buffer.getvalue())
    usable["really-png.jpg"] = Expected()
    write("really-png.dat", buffer.getvalue())
    others["really-png.dat"] = "PNG with another extension"
    write("no extension", buffer.getvalue())
    others["no extension"] = "PNG with another extension"
    write("really-png.txt", buffer.getvalue())
    unusable["really-png.txt"] = "is a PNG picture, not text"

    # Names.
    odd = ("[set A] (v2)/img [1].png", "#1 100%'s.png", "-lead.png", "new\nline.png",
           "e\u0301.png", "\U0001f600.png", os.fsdecode(b"\xff\xfe.png"))  # fmt: skip
    for number, name in enumerate((*odd, "aaa.bbb.png", "aaa.ccc.png", "IMG_1.JPG", "b.Png")):
        image = halves()
        image.putpixel((40, 16), (number, 99, 0))  # no two are the same
        save(name, image, Expected(), format="JPEG" if name.endswith("JPG") else "PNG")
    save("line.png", Image.effect_noise((6000, 20), 60),
         Expected(size=(6000, 20), top_left=None, bottom_right=None))  # fmt: skip
    save("dot.png", Image.new("RGB", (1, 1), RED), Expected(size=(1, 1), bottom_right=RED))

    # Captions, each with the picture beside it.
    def caption(stem: str, suffix: str, data: bytes, text: str) -> None:
        image = halves()
        image.putpixel((40, 16), (zlib.crc32(stem.encode()) % 256, 1, 0))
        save(f"{stem}.png", image, Expected(caption=text))
        write(f"{stem}{suffix}", data)

    caption("utf8", ".txt", "\ufeffköter  und\r\nhund\n".encode(), "köter und hund")
    caption("utf16", ".TXT", "köter".encode("utf-16"), "köter")
    caption("spelled", ".caption", b"a dog", "a dog")
    caption(
        "table", ".json", json.dumps({"caption": "a dog", "box": [0, 0, 8, 8]}).encode(), "a dog"
    )
    caption("silent", ".txt", b" \n", "")
    caption("quote", ".txt", b"a man\x92s hat", "")
    unusable["quote.txt"] = "byte 0x92 at 5"
    caption("zeros", ".txt", b"a\0", "")
    unusable["zeros.txt"] = "byte 0x00"
    write("metadata.jsonl", b'{"file_name": "dot.png", "text": "a dot"}\n')
    usable["dot.png"] = Expected(size=(1, 1), bottom_right=RED, caption="a dot")
    (folder / "dog.jpg").unlink(missing_ok=True)
    save("shared.jpg", halves(), Expected(caption="both"), quality=90)
    save("shared.webp", halves(), Expected(caption="both"), quality=70)
    write("shared.txt", b"both")

    # What is no picture, and what leads elsewhere.
    for name, data, why in (
        ("notes.md", b"# notes", "text"),
        ("lonely.txt", b"x", "beside no picture"),
        ("lonely.json", b"{}", "beside no picture"),
        ("cache.npz", b"PK\x03\x04", "another trainer cached"),
        ("cut.txt", b"of a picture that is cut", "cannot be used"),
    ):
        write(name, data)
        others[name] = why
    os.symlink("nowhere", folder / "dangling.png")
    others["dangling.png"] = "leads nowhere"
    os.symlink("exif1.png", folder / "again.png")
    others["again.png"] = "here already"
    os.symlink(".", folder / "loop")
    others["loop"] = "here already"
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    Image.effect_noise((64, 32), 40).convert("RGB").save(elsewhere / "far.png")
    os.symlink(elsewhere, folder / "linked")
    usable["linked/far.png"] = Expected(top_left=None, bottom_right=None)
    os.mkfifo(folder / "pipe.png")
    others["pipe.png"] = "pipe"

    system = ("._exif1.jpg", "._exif1.txt", ".DS_Store", "Thumbs.db", "desktop.ini")
    for name in system:
        write(name, b"\0\x05\x16\x07\0\x02\0\0")
    (folder / "__MACOSX").mkdir()
    write("__MACOSX/x.png", b"x")
    return usable, unusable, others, len(system) + 1


def settle(folder: Path) -> None:
    """Makes all files old: what has just been written no scan remembers."""
    for at, _, names in os.walk(folder, followlinks=False):
        for name in names:
            os.utime(os.path.join(at, name), (1e9, 1e9), follow_symlinks=False)
    for link in (entry for entry in folder.iterdir() if entry.is_symlink() and entry.is_dir()):
        if link.resolve() != folder.resolve():
            settle(link.resolve())


def _bomb(width: int, height: int) -> bytes:
    """A PNG of one bit a pixel, a few kilobytes of zeros."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    packer = zlib.compressobj()
    row = bytes(1 + (width + 7) // 8)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
