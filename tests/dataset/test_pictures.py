"""One way to open a picture: upright, opaque, sRGB; and what cannot be one is said by name."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms

from lorakit.dataset.buckets import fit
from lorakit.dataset.pictures import examine, open_upright, prepare
from lorakit.dataset.sniff import kind, looks
from lorakit.dataset.views import View
from lorakit.errors import ExitCode, LorakitError

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def near(found: object, wanted: tuple[int, int, int], by: int = 12) -> bool:
    return isinstance(found, tuple) and all(
        abs(a - b) <= by for a, b in zip(found, wanted, strict=True)
    )


def two_halves() -> Image.Image:
    """64 x 32: left half red, right half blue."""
    image = Image.new("RGB", (64, 32), RED)
    image.paste(BLUE, (32, 0, 64, 32))
    return image


UPRIGHT = {  # orientation: size, colour at the top left, colour at the bottom right
    1: ((64, 32), RED, BLUE),
    2: ((64, 32), BLUE, RED),
    3: ((64, 32), BLUE, RED),
    4: ((64, 32), RED, BLUE),
    5: ((32, 64), RED, BLUE),
    6: ((32, 64), RED, BLUE),
    7: ((32, 64), BLUE, RED),
    8: ((32, 64), BLUE, RED),
}


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_size_and_pixels(tmp_path: Path, orientation: int, suffix: str) -> None:
    path = tmp_path / f"turned.{suffix}"
    exif = Image.Exif()
    exif[0x0112] = orientation
    two_halves().save(path, exif=exif, **({"quality": 95} if suffix != "png" else {}))
    size, top_left, bottom_right = UPRIGHT[orientation]
    image = open_upright(path)
    seen = examine(path)
    assert image.size == size == (seen.width, seen.height)
    assert near(image.getpixel((2, 2)), top_left)
    assert near(image.getpixel((size[0] - 3, size[1] - 3)), bottom_right)
    assert seen.notes == ()


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_orientation_that_is_none_is_noted(tmp_path: Path, value: int) -> None:
    path = tmp_path / "odd.jpg"
    exif = Image.Exif()
    exif[0x0112] = value
    two_halves().save(path, exif=exif)
    assert open_upright(path).size == (64, 32)
    assert str(value) in examine(path).notes[0]


def test_a_damaged_exif_block_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "odd.jpg"
    two_halves().save(path, exif=b"Exif\0\0MM\0*\xff\xff\xff\xff garbage")
    assert open_upright(path).size == (64, 32)
    assert examine(path).width == 64
    assert "damaged EXIF block" in examine(path).notes[0]


def _palette_with_hole() -> Image.Image:
    image = Image.new("P", (4, 4), 0)
    image.putpalette([255, 0, 255, 0, 0, 255])
    image.info["transparency"] = 0
    return image


@pytest.mark.parametrize(
    "image",
    [
        Image.new("RGBA", (4, 4), (255, 0, 0, 0)),
        Image.new("LA", (4, 4), (0, 0)),
        _palette_with_hole(),
    ],
    ids=["RGBA", "LA", "P with tRNS"],
)
def test_transparent_is_white_whatever_colour_hides_there(
    tmp_path: Path, image: Image.Image
) -> None:
    image.save(tmp_path / "clear.png")
    assert open_upright(tmp_path / "clear.png").getpixel((1, 1)) == WHITE


def test_half_transparent_is_mixed_with_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (0, 0, 255, 128)).save(tmp_path / "half.webp", lossless=True)
    assert near(open_upright(tmp_path / "half.webp").getpixel((1, 1)), (127, 127, 255), 2)


def test_grey_of_16_bits_keeps_its_shades(tmp_path: Path) -> None:
    image = Image.new("I;16", (3, 1))
    for x, value in enumerate((0, 32768, 65535)):
        image.putpixel((x, 0), value)
    image.save(tmp_path / "deep.png")
    found = open_upright(tmp_path / "deep.png")
    assert [found.getpixel((x, 0)) for x in range(3)] == [(0,) * 3, (128,) * 3, (255,) * 3]


@pytest.mark.parametrize(
    ("mode", "colour", "suffix", "wanted"),
    [
        ("CMYK", (0, 255, 255, 0), "jpg", RED),
        ("L", 200, "jpg", (200, 200, 200)),
        ("1", 1, "png", WHITE),
        ("YCbCr", (76, 84, 255), "jpg", RED),
        ("P", 0, "gif", (0, 0, 0)),
    ],
)
def test_modes(
    tmp_path: Path, mode: str, colour: object, suffix: str, wanted: tuple[int, int, int]
) -> None:
    path = tmp_path / f"a.{suffix}"
    Image.new(mode, (16, 16), colour).save(path)  # type: ignore[arg-type]
    image = open_upright(path)
    assert image.mode == "RGB"
    assert near(image.getpixel((8, 8)), wanted)


def test_a_colour_profile_is_applied_and_a_broken_one_is_noted(tmp_path: Path) -> None:
    grey = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.new("RGB", (4, 4), (10, 120, 240)).save(tmp_path / "srgb.png", icc_profile=grey)
    assert near(open_upright(tmp_path / "srgb.png").getpixel((0, 0)), (10, 120, 240), 1)

    Image.new("RGB", (4, 4), (10, 120, 240)).save(tmp_path / "wide.png", icc_profile=_swapped(grey))
    assert near(open_upright(tmp_path / "wide.png").getpixel((0, 0)), (240, 120, 10), 8)
    assert examine(tmp_path / "wide.png").notes == ()

    Image.new("RGB", (4, 4), BLUE).save(tmp_path / "bad.png", icc_profile=b"no profile at all")
    assert open_upright(tmp_path / "bad.png").getpixel((0, 0)) == BLUE
    assert "colour profile" in examine(tmp_path / "bad.png").notes[0]


def _swapped(profile: bytes) -> bytes:
    """sRGB with the tags of red and blue exchanged: applied or not, nobody mistakes it."""
    return profile.replace(b"rXYZ", b"tmpX").replace(b"bXYZ", b"rXYZ").replace(b"tmpX", b"bXYZ")


@pytest.mark.parametrize("suffix", ["gif", "webp", "png"])
def test_of_an_animation_the_first_frame_is_used_and_said_so(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"moves.{suffix}"
    frames = [Image.new("RGB", (8, 8), c) for c in (RED, BLUE, WHITE, (0, 255, 0))]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert near(open_upright(path).getpixel((4, 4)), RED)
    assert "4 frames" in examine(path).notes[0]


def test_bytes_decide_and_not_the_extension(tmp_path: Path) -> None:
    two_halves().save(tmp_path / "a.png", format="JPEG")
    assert looks(tmp_path / "a.png") == "JPEG"
    assert examine(tmp_path / "a.png").width == 64


HEIC = struct.pack(">I", 24) + b"ftypheic\0\0\0\0mif1heic"

REFUSED = [
    (b"", "empty"),
    (HEIC, "HEIC"),
    (b"<!DOCTYPE html><html><body>404</body></html>", "HTML page"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"),
    (b"\x80\x02}q\0X\x05\0\0\0", "Python pickle"),
    (b"PK\x03\x04\x14\0\0\0", "zip archive"),
    (b"\xff\x0a\xfa\x7f", "JPEG XL picture"),
    (b"\0\0\0\x18ftypisom\0\0\0\0isommp42", "video"),
    (b"hello, this is text", "text"),
    (b"\0" * 600, "zeros"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
]


@pytest.mark.parametrize(("data", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_no_picture_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "photo [1].jpg"
    path.write_bytes(data)
    with pytest.raises(LorakitError) as caught:
        open_upright(path)
    assert "photo [1].jpg" in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint
    assert caught.value.code == ExitCode.DATA


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "gif", "bmp", "tiff"])
def test_a_picture_cut_short_is_found(tmp_path: Path, suffix: str) -> None:
    whole = io.BytesIO()
    noise = Image.effect_noise((96, 96), 80).convert("RGB")
    noise.save(whole, format={"jpg": "JPEG", "tiff": "TIFF"}.get(suffix, suffix.upper()))
    path = tmp_path / f"cut.{suffix}"
    path.write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    for look in (examine, open_upright):
        with pytest.raises(LorakitError, match=rf"cut\.{suffix} .*") as caught:
            look(path)
        assert caught.value.code == ExitCode.DATA


def _one_bit_png(side: int) -> bytes:
    """A tiny file that claims side x side pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    return start + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_a_decompression_bomb_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "huge.png").write_bytes(_one_bit_png(13_400))
    with pytest.raises(LorakitError, match=r"huge\.png has more than 178,956,970 pixels"):
        examine(tmp_path / "huge.png")


def test_a_large_scan_writes_no_warning_anywhere(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(_one_bit_png(9_500))
    with warnings.catch_warnings(record=True) as seen, pytest.raises(LorakitError):
        examine(tmp_path / "large.png")
    assert seen == []


def _png16(colour: int, pixels: bytes, clear: bytes) -> bytes:
    """2 x 1 pixels of 16 bits a channel, of which one colour is transparent."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", 2, 1, 16, colour, 0, 0, 0)
    parts = ((b"IHDR", head), (b"tRNS", clear), (b"IDAT", zlib.compress(b"\0" + pixels)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*p) for p in parts) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("raw", "opaque"),
    [
        (_png16(0, b"\x12\x34\x80\x80", b"\x12\x34"), (128, 128, 128)),
        (_png16(2, b"\xff\xff\x80\0\0\0" + b"\0\0\0\0\xff\xff", b"\xff\xff\x80\0\0\0"), BLUE),
    ],
    ids=["grey", "colours"],
)
def test_one_transparent_colour_of_16_bits(
    tmp_path: Path, raw: bytes, opaque: tuple[int, int, int]
) -> None:
    (tmp_path / "deep.png").write_bytes(raw)
    image = open_upright(tmp_path / "deep.png")
    assert [image.getpixel((x, 0)) for x in (0, 1)] == [WHITE, opaque]
    assert examine(tmp_path / "deep.png").alpha == "some"


@pytest.mark.parametrize(
    ("mode", "colour", "words"),
    [
        ("F", 0.5, "numbers with a fraction"),
        ("I", 70_000, "more than 16 bits a channel"),
        ("LAB", (50, 0, 0), "the colours of Lab"),
    ],
)
def test_pixels_that_are_not_read_are_no_damage(
    tmp_path: Path, mode: str, colour: float, words: str
) -> None:
    Image.new(mode, (8, 8), colour).save(tmp_path / "odd.tiff")
    for look in (examine, open_upright):
        with pytest.raises(LorakitError, match=rf"odd\.tiff has pixels of {words}") as caught:
            look(tmp_path / "odd.tiff")
        assert "8 bits" in caught.value.hint


def test_a_camera_s_raw_file_is_named_and_its_preview_is_no_picture(tmp_path: Path) -> None:
    two_halves().save(tmp_path / "preview.tif", tiffinfo={254: 1})
    two_halves().save(tmp_path / "negative.tif", tiffinfo={50706: b"\1\4\0\0"})
    for name in ("preview.tif", "negative.tif"):
        with pytest.raises(LorakitError, match="a camera's raw file") as caught:
            examine(tmp_path / name)
        assert "Develop it" in caught.value.hint
    for head in (b"II*\0\x10\0\0\0CR\2\0", b"\0\0\0\x18ftypcrx \0\0\0\1", b"IIU\0\x18\0\0\0"):
        assert kind(head) == "a camera's raw file"
    two_halves().save(tmp_path / "plain.tif")
    assert looks(tmp_path / "plain.tif") == "TIFF"


def test_a_text_that_begins_like_a_bitmap_is_a_text(tmp_path: Path) -> None:
    assert kind(b"BMW is a make of cars, and this is a text about it.") == "text"
    for mode in ("RGB", "P", "1"):
        Image.new(mode, (4, 4)).save(tmp_path / "a.bmp")
        assert looks(tmp_path / "a.bmp") == "BMP"


def test_of_a_phone_s_picture_the_preview_is_not_enough(tmp_path: Path) -> None:
    from pillow_heif import from_pillow, register_heif_opener

    register_heif_opener()
    noise = Image.effect_noise((128, 96), 90).convert("RGB")
    noise.save(tmp_path / "a.heic", quality=80, thumbnails=[64])
    whole = examine(tmp_path / "a.heic").impression
    with Image.open(tmp_path / "a.heic") as image:
        assert image.info["thumbnails"] == [64]
    from_pillow(noise).save(tmp_path / "b.heic", quality=80)
    assert whole == examine(tmp_path / "b.heic").impression


def test_prepare_gives_the_bucket_and_its_middle(tmp_path: Path) -> None:
    image = Image.new("RGB", (300, 100), RED)
    image.paste(BLUE, (100, 0, 200, 100))
    image.save(tmp_path / "wide.png")
    square = prepare(tmp_path / "wide.png", View(fit=fit(300, 100, 64, 8, buckets=False)))
    assert square.size == (64, 64)
    assert near(square.getpixel((32, 32)), BLUE, 0)
    assert near(square.getpixel((3, 32)), BLUE, 0)


def test_prepare_of_an_extreme_picture_takes_no_extreme_memory(tmp_path: Path) -> None:
    Image.new("RGB", (60_000, 4), RED).save(tmp_path / "line.png")
    found = prepare(tmp_path / "line.png", View(fit=fit(60_000, 4, 1024, 64)))
    assert found.size == (2048, 512)


def test_a_picture_of_the_bucket_s_size_is_left_alone(tmp_path: Path) -> None:
    image = Image.effect_noise((64, 64), 60).convert("RGB")
    image.save(tmp_path / "same.png")
    assert prepare(tmp_path / "same.png", View(fit=fit(64, 64, 64, 8))).tobytes() == image.tobytes()


@given(st.binary(max_size=64))
def test_sniffing_knows_something_of_any_bytes(head: bytes) -> None:
    assert kind(head)


@given(st.data())
def test_damage_never_escapes_as_anything_but_an_error_in_words(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP"]))
    whole = io.BytesIO()
    two_halves().save(whole, format=name)
    raw = bytearray(whole.getvalue())
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("fuzz") / "a.jpg"
    path.write_bytes(raw)
    with suppress_named("a.jpg"):
        assert open_upright(path).mode == "RGB"


@contextmanager
def suppress_named(name: str) -> Iterator[None]:
    """Lets an error in words pass where it names the file."""
    try:
        yield
    except LorakitError as error:
        if name not in error.message:
            raise


@pytest.mark.parametrize(("bits", "clear"), [(1, 1), (2, 1), (2, 2), (4, 5), (8, 77)])
def test_a_grey_png_of_few_bits_is_transparent_where_it_says(
    tmp_path: Path, bits: int, clear: int
) -> None:
    """The left half is of the transparent grey, the right half of another."""
    half = "".join(format(v, f"0{bits}b") for v in [clear] * 32 + [0] * 32)
    row = b"\0" + int(half, 2).to_bytes(8 * bits, "big")

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    path = tmp_path / "a.png"
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, bits, 0, 0, 0, 0))
        + chunk(b"tRNS", struct.pack(">H", clear))
        + chunk(b"IDAT", zlib.compress(row * 64))
        + chunk(b"IEND", b"")
    )
    assert examine(path).alpha == "some"
    seen = open_upright(path, "#0000ff")
    assert (seen.getpixel((5, 5)), seen.getpixel((60, 5))) == ((0, 0, 255), (0, 0, 0))
