"""How a picture is shown to the model at one time: cropped, mirrored, recoloured.

Pure functions of the seed, the epoch and the sample. With default settings it is always the same:
the middle of the picture, or as near to it as its box allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lorakit.bundle.models import Shape
from lorakit.dataset.buckets import Fit
from lorakit.dataset.chance import Chance
from lorakit.dataset.entries import Box
from lorakit.dataset.report import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One way to show a picture. Equal views give equal pixels."""

    fit: Fit
    """Size, scale and crop, before it is mirrored."""
    background: str = "#ffffff"
    flip: bool = False
    brightness: float = 1.0
    """This and the next two are factors, to three places."""
    contrast: float = 1.0
    saturation: float = 1.0
    mask: str = ""
    """Where the loss looks: `alpha`, the sha256 of a file, or empty: everywhere."""

    @property
    def told(self) -> Fit:
        """The crop as it lies in the picture that is seen, mirrored where that is."""
        if not self.flip:
            return self.fit
        return replace(self.fit, left=self.fit.scale_width - self.fit.width - self.fit.left)


def view(picture: Picture, shape: Shape, seed: int, epoch: int, sample: int) -> View:
    """How a sample's picture is shown in an epoch."""
    fit = picture.fit

    def chance(purpose: str) -> Chance:
        return Chance(seed, purpose, epoch, sample)

    if shape.crop == "random":
        drawn = chance("crop")
        across = _room(fit.width, fit.scale_width, picture.box and picture.box[0::2])
        down = _room(fit.height, fit.scale_height, picture.box and picture.box[1::2])
        fit = replace(fit, left=_drawn(drawn, across), top=_drawn(drawn, down))
    factors = {}
    if shape.colour:
        drawn = chance("colour")
        names = ("brightness", "contrast", "saturation")
        factors = {n: round(1 + shape.colour * (2 * drawn.share() - 1), 3) for n in names}
    return View(
        fit=fit,
        background=shape.background.lower(),
        flip=shape.flip and chance("flip").share() < 0.5,
        mask=picture.mask,
        **factors,
    )


def varies(picture: Picture, shape: Shape) -> bool:
    """Whether a picture is not always shown the same."""
    if shape.flip or shape.colour > 0:
        return True
    fit, box = picture.fit, picture.box
    across = _room(fit.width, fit.scale_width, box and box[0::2])
    down = _room(fit.height, fit.scale_height, box and box[1::2])
    return shape.crop == "random" and (len(across) > 1 or len(down) > 1)


def placed(fit: Fit, box: Box | None) -> Fit:
    """The crop nearest to the middle that holds the whole box, or the middle of a larger box."""
    if box is None:
        return fit
    across = _room(fit.width, fit.scale_width, box[0::2])
    down = _room(fit.height, fit.scale_height, box[1::2])
    return replace(
        fit,
        left=min(max(fit.left, across[0]), across[-1]),
        top=min(max(fit.top, down[0]), down[-1]),
    )


def holds(fit: Fit, box: Box) -> bool:
    """Whether the crop holds the whole box."""
    left, right = _pixels(box[0::2], fit.scale_width)
    top, bottom = _pixels(box[1::2], fit.scale_height)
    return (
        fit.left <= left
        and right <= fit.left + fit.width
        and fit.top <= top
        and bottom <= fit.top + fit.height
    )


def _room(size: int, whole: int, box: tuple[float, ...] | None) -> range:
    """Where a crop of this size may begin on one side of a picture, in pixels."""
    last = whole - size
    if box is None:
        return range(last + 1)
    begin, end = _pixels(box, whole)
    if end - begin > size:
        middle = min(max((begin + end - size) // 2, 0), last)
        return range(middle, middle + 1)
    return range(max(0, end - size), min(last, begin) + 1)


def _pixels(box: tuple[float, ...], whole: int) -> tuple[int, int]:
    """The whole pixels that a side of a box touches."""
    # The tolerance: 100 of 512 pixels as a share must not come back as 100.00000000000001.
    return math.floor(box[0] * whole + 1e-6), math.ceil(box[1] * whole - 1e-6)


def _drawn(drawn: Chance, room: range) -> int:
    return room[drawn.below(len(room))]
