"""Opens a picture the one way that all of lorakit sees it: upright, RGB, sRGB, opaque."""

from __future__ import annotations

import importlib.metadata
import io
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lorakit.dataset.alike import Impression, impression
from lorakit.dataset.sniff import READABLE, looks
from lorakit.errors import ExitCode, LorakitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL import Image

    from lorakit.dataset.views import View

GROUND = "#ffffff"
"""Colour behind transparent pictures, unless a bundle says another."""

MAX_PIXELS = 178_956_970
"""More than this is refused: Pillow's own limit against decompression bombs."""

_ORIENTATION = 0x0112


Alpha = Literal["none", "some", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one look at a picture tells."""

    width: int
    """Upright, in pixels."""
    height: int
    turned: bool
    """Whether EXIF turned it."""
    notes: tuple[str, ...]
    """Doubts about it, each a sentence that follows its name."""
    impression: Impression
    """What it looks like, roughly."""
    alpha: Alpha
    """How much of it is transparent."""


EXAMINED = 6
"""Goes up whenever a look at the same file may say something else than it did before."""


@cache
def readers() -> str:
    """Names all software that a look at a picture depends on, with versions."""
    import PIL

    try:
        heif = importlib.metadata.version("pillow-heif")
    except importlib.metadata.PackageNotFoundError:
        heif = "none"
    return f"{EXAMINED}, Pillow {PIL.__version__}, pillow-heif {heif}"


def examine(path: Path) -> Seen:
    """Size of a picture as it stands upright, after reading it to its end.

    Raises LorakitError (code DATA) naming the file where it cannot be used.
    """
    with _opened(path) as opened:
        image = opened
        # The second picture of a phone's MPO file is the same shot, not a frame.
        frames = 1 if image.format == "MPO" else int(getattr(image, "n_frames", 1))
        # Pillow has turned a TIFF's size here already, and its pixels and tag once it is loaded.
        width, height = image.size
        # A JPEG is read to its end at an eighth of its size as well, in a fraction of the time. Of
        # a HEIC picture only the preview would be read.
        if image.format in ("JPEG", "MPO"):
            image.draft(None, (width // 8, height // 8))
        image = _loaded(image)
        turn, damaged = _orientation(image)
        alpha = _transparent(image)
        looks = impression(_turned(_small(image, alpha), turn))
        notes = []
        if damaged:
            notes.append(f"has an EXIF orientation that is none ({damaged}); taken as upright")
        if frames > 1:
            notes.append(f"has {frames} frames, and only the first is used")
        if not _profile_reads(image):
            notes.append("has a colour profile that cannot be read; taken as sRGB")
    if turn in (5, 6, 7, 8):
        width, height = height, width
    return Seen(
        width=width,
        height=height,
        turned=turn != 1,
        notes=tuple(notes),
        impression=looks,
        alpha=alpha,
    )


def open_upright(path: Path, background: str = GROUND) -> Image.Image:
    """The picture as RGB: turned upright, on the background where it is transparent, in sRGB.

    Of an animation it is the first frame. An EXIF orientation or a colour profile that cannot be
    read is left alone. Raises LorakitError (code DATA) naming the file.
    """
    with _opened(path) as opened:
        image = _loaded(opened)
        return _turned(_opaque(image, background), _orientation(image)[0])


def prepare(path: Path, view: View) -> Image.Image:
    """The picture as a view shows it: RGB, view.fit.width x view.fit.height pixels."""
    from PIL import ImageEnhance

    image = _shown(open_upright(path, view.background), view)
    for kind, factor in (
        (ImageEnhance.Brightness, view.brightness),
        (ImageEnhance.Contrast, view.contrast),
        (ImageEnhance.Color, view.saturation),
    ):
        if factor != 1.0:
            image = kind(image).enhance(factor)
    return image


def thumbnail(path: Path, side: int, background: str = GROUND) -> Image.Image:
    """The whole upright picture as RGB, its longer side at most `side` pixels.

    Raises what `open_upright` raises.
    """
    from PIL.Image import Resampling

    with _opened(path) as image:
        image.draft(None, (2 * side, 2 * side))  # a JPEG is read at about this size
        image.load()
        small = _turned(_opaque(image, background), _orientation(image)[0])
    small.thumbnail((side, side), Resampling.LANCZOS)
    return small


def mask(path: Path, file: Path | None, view: View) -> Image.Image | None:
    """Where the loss looks, as the same view shows it: grey, 255 is all of it.

    From the picture's own transparency, or from a `file`, which may have another size. None where
    the view has no mask. Raises what `open_upright` raises.
    """
    if not view.mask:
        return None
    if file is not None:
        return _shown(open_upright(file, "#000000").convert("L"), view)
    with _opened(path) as opened:
        image = _loaded(opened)
        alpha = image.convert("RGBA").getchannel("A")
        return _shown(_turned(alpha, _orientation(image)[0]), view)


def black(path: Path) -> bool:
    """Whether a mask's file leaves out everything. Raises what `open_upright` raises."""
    return open_upright(path, "#000000").convert("L").getbbox() is None


def _shown(image: Image.Image, view: View) -> Image.Image:
    """Scaled, cropped and mirrored."""
    from PIL.Image import Resampling, Transpose

    # Only the part that stays is scaled, so that a picture of 6000 x 20 never becomes one of
    # 150,000 x 500 on the way.
    fit = view.fit
    across, down = image.width / fit.scale_width, image.height / fit.scale_height
    box = (
        fit.left * across,
        fit.top * down,
        min((fit.left + fit.width) * across, image.width),
        min((fit.top + fit.height) * down, image.height),
    )
    image = image.resize((fit.width, fit.height), Resampling.LANCZOS, box=box)
    return image.transpose(Transpose.FLIP_LEFT_RIGHT) if view.flip else image


class _Unread(Exception):
    """A whole picture with pixels that are not read, in words that go behind "pixels of"."""


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """The picture, not yet decoded; whatever goes wrong inside becomes one LorakitError."""
    from PIL import Image, UnidentifiedImageError

    # Pillow's doubts belong into the report, by name, not on the terminal.
    warnings.filterwarnings("ignore", module=r"PIL\b")
    name = path.name
    try:
        kind = looks(path)
        if kind not in READABLE or not _reads(kind):
            raise _refused(path, kind)
        with path.open("rb") as file, Image.open(file, formats=[READABLE[kind]]) as image:
            yield image
    except LorakitError:
        raise
    except Image.DecompressionBombError:
        raise LorakitError(
            f"{name} has more than {MAX_PIXELS:,} pixels, the most that is read.",
            "Make it smaller first.",
            ExitCode.DATA,
        ) from None
    except MemoryError:
        raise LorakitError(
            f"{name} does not fit into memory.", "Make it smaller first.", ExitCode.DATA
        ) from None
    except UnidentifiedImageError:
        raise LorakitError(
            f"{name} begins like {kind} and cannot be read as one.",
            "Replace it by a whole copy, or remove it.",
            ExitCode.DATA,
        ) from None
    except PermissionError:
        raise LorakitError(
            f"{name} may not be read.", f"Allow it: chmod u+r {path}", ExitCode.DATA
        ) from None
    except _Unread as error:
        raise LorakitError(
            f"{name} has pixels of {error}, which are not read.",
            "Save it again with 8 bits a channel, as JPEG or PNG.",
            ExitCode.DATA,
        ) from None
    except Exception as error:  # damaged bytes raise nearly every type, by format and by place
        reason = str(error).strip().rstrip(".") or type(error).__name__
        if "MAX_TEXT" in reason:  # a picture with a whole book in it, or an attack
            raise LorakitError(
                f"{name} holds more text beside its pixels than is read.",
                "Save it again without its metadata.",
                ExitCode.DATA,
            ) from None
        raise LorakitError(
            f"{name} is damaged or cut short: {reason}.",
            "Replace it by a whole copy, or remove it.",
            ExitCode.DATA,
        ) from None


@cache
def _reads(kind: str) -> bool:
    """Whether the software for this kind is here."""
    from PIL import features

    if kind == "AVIF":
        return bool(features.check("avif"))
    if kind == "HEIC":
        try:
            import pillow_heif
        except ImportError:
            return False
        pillow_heif.register_heif_opener()
    return True


def _refused(path: Path, kind: str) -> LorakitError:
    name = path.name
    if kind == "empty":
        return LorakitError(
            f"{name} is empty, 0 bytes.", "Replace it by a whole copy, or remove it.", ExitCode.DATA
        )
    if kind == "a Git LFS pointer":
        return LorakitError(
            f"{name} is a Git LFS pointer: the picture itself was not downloaded.",
            "Run git lfs pull in its folder.",
            ExitCode.DATA,
        )
    if kind == "HEIC":
        return LorakitError(
            f"{name} is a HEIC picture, and pillow-heif, which reads these, is not installed.",
            "pip install 'lorakit[heic]', or convert it to JPEG or PNG.",
            ExitCode.DATA,
        )
    if kind == "a camera's raw file":
        return LorakitError(
            f"{name} is a camera's raw file, of which only the preview could be read.",
            "Develop it, and save it as JPEG or PNG.",
            ExitCode.DATA,
        )
    if kind in ("AVIF", "JPEG XL", "JPEG 2000", "an SVG drawing", "a Photoshop file"):
        what = kind if kind.startswith(("a ", "an ")) else f"a {kind} picture"
        return LorakitError(
            f"{name} is {what}, which is not read.", "Convert it to JPEG or PNG.", ExitCode.DATA
        )
    return LorakitError(
        f"{name} is {kind}, not a picture.", "Remove it, or replace it by a picture.", ExitCode.DATA
    )


def _orientation(image: Image.Image) -> tuple[int, str]:
    """How to turn it, 1 to 8, and in words what stands there instead, if it is none of these."""
    damaged = 1, "a damaged EXIF block"
    try:
        found = image.getexif()
        if image.info.get("exif") and not found:  # Pillow reads some damaged ones as empty
            return damaged
        value = found.get(_ORIENTATION, 1)
    except Exception:  # others raise nearly every type
        return damaged
    if isinstance(value, int) and 1 <= value <= 8:
        return value, ""
    return 1, repr(value)[:40]


def _turned(image: Image.Image, orientation: int) -> Image.Image:
    from PIL.Image import Transpose

    how = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }.get(orientation)
    return image if how is None else image.transpose(how)


def _loaded(image: Image.Image) -> Image.Image:
    """Decoded. A PNG names its transparent colour in as many bits as it has, 2, 4 or 16, which
    Pillow then looks for among pixels of 8."""
    from PIL import Image

    raw = image.tile[0].args if image.tile else None  # type: ignore[attr-defined]
    image.load()
    clear = image.info.get("transparency")
    if isinstance(clear, int) and raw in ("L;2", "L;4"):
        image.info["transparency"] = clear * (85 if raw == "L;2" else 17)
    if isinstance(clear, tuple) and max(clear) > 255:
        image.info["transparency"] = tuple(part >> 8 for part in clear)
    if isinstance(clear, int) and image.mode.startswith("I"):
        import numpy

        opaque = numpy.where(numpy.asarray(image) == clear, 0, 255).astype(numpy.uint8)
        image = _eight_bit(image)
        del image.info["transparency"]
        image.putalpha(Image.fromarray(opaque))
    return image


def _has_alpha(image: Image.Image) -> bool:
    return image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info


def _transparent(image: Image.Image) -> Alpha:
    if not _has_alpha(image):
        return "none"
    channel = image.getchannel("A") if image.mode in ("RGBA", "LA") else None
    channel = channel or image.convert("RGBA").getchannel("A")
    least, most = channel.getextrema()
    return "none" if least == 255 else "all" if most == 0 else "some"


def _opaque(image: Image.Image, background: str = GROUND) -> Image.Image:
    """RGB in sRGB, on the background where it is transparent."""
    from PIL import Image

    image = _eight_bit(image)
    profile = image.info.get("icc_profile")
    alpha = None
    if _has_alpha(image):
        alpha = image.convert("RGBA").getchannel("A")
        grey = image.mode in ("L", "LA", "La")  # a profile of grey is for one channel
        image = image.convert("RGBA").convert("L" if grey else "RGB")
    elif image.mode not in ("RGB", "L", "CMYK"):
        image = image.convert("RGB")
    colours = (_in_srgb(image, profile) if profile else None) or image.convert("RGB")
    if alpha is None:
        return colours
    ground = Image.new("RGB", colours.size, background)
    ground.paste(colours, mask=alpha)
    return ground


def _small(image: Image.Image, alpha: Alpha) -> Image.Image:
    """A small opaque copy; its colours are not corrected, as only likeness is asked for."""
    from PIL.Image import Resampling

    image = _eight_bit(image)
    if alpha != "none":
        image = image if image.mode == "RGBA" else image.convert("RGBA")
    elif image.mode not in ("L", "RGB", "CMYK"):
        # Resizing multiplies all colours by their transparency first; here there is none.
        image = image.convert("RGBA") if image.mode == "RGBa" else image.convert("RGB")
    image = image.resize((64, 64), Resampling.BOX)
    for key in ("icc_profile", *(("transparency",) if alpha == "none" else ())):
        image.info.pop(key, None)
    return _opaque(image)


def _eight_bit(image: Image.Image) -> Image.Image:
    """Grey of 16 bits scaled to 8, since Pillow's own conversion clips it to white."""
    if image.mode in ("F", "LAB"):
        raise _Unread("numbers with a fraction" if image.mode == "F" else "the colours of Lab")
    if not image.mode.startswith("I"):
        return image
    wide = image.convert("I")
    lowest, highest = (int(end) for end in wide.getextrema())  # type: ignore[arg-type]
    if lowest < 0 or highest > 65535:
        raise _Unread("more than 16 bits a channel")
    return wide.point(lambda value: value * (1 / 257) + 0.5).convert("L")


def _in_srgb(image: Image.Image, profile: bytes) -> Image.Image | None:
    """Colours by the picture's profile; None where it cannot be read or is for other channels."""
    from PIL import ImageCms

    try:
        given = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        space = given.profile.xcolor_space.strip()
        if {"GRAY": "L", "RGB": "RGB", "CMYK": "CMYK"}.get(space) != image.mode:
            return None
        wanted = ImageCms.createProfile("sRGB")
        return ImageCms.profileToProfile(image, given, wanted, outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, TypeError, ValueError):
        return None


def _profile_reads(image: Image.Image) -> bool:
    from PIL import ImageCms

    profile = image.info.get("icc_profile")
    if not profile:
        return True
    try:
        ImageCms.ImageCmsProfile(io.BytesIO(profile))
    except (OSError, TypeError, ValueError):
        return False
    return True
