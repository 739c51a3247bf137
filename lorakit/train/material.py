"""What steps learn from: latents and texts of samples, from the cache or encoded when they are due.

Each comes in two halves. `fetch` only reads and decodes, and runs in the background while a step
computes. `finish` may use the device, and runs between steps: beside one it could not have the
memory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from PIL import Image
from torch import Tensor

from lorakit.dataset.pictures import mask, prepare
from lorakit.dataset.report import Picture
from lorakit.dataset.views import View
from lorakit.errors import ExitCode, LorakitError
from lorakit.train.cache import Cache, picture_name, text_name
from lorakit.train.encoders import Latents, Texts
from lorakit.train.epochs import Epochs

Tensors = dict[str, Tensor]


class Source(Protocol):
    """Where a kind of tensors comes from."""

    done: bool
    """Whether nothing is left to finish of what was fetched."""

    def fetch(self, epoch: int, sample: int) -> Any:
        """What can be done ahead, on the CPU, in another thread."""

    def finish(self, fetched: Any) -> Tensors:
        """The tensors of what was fetched, fp32, on the CPU."""


@dataclass(frozen=True, slots=True)
class Material:
    """The samples and where their tensors come from."""

    epochs: Epochs
    latents: Source
    """mean and std, [c, h, w], unscaled; mask, [1, h, w], where a picture has one."""
    texts: Source
    """By the names of `Conditions`, without a first axis."""


class Cached:
    """Entries that are read: of pictures, or of texts."""

    done = True

    def __init__(self, cache: Cache, epochs: Epochs) -> None:
        self._cache, self._epochs = cache, epochs

    def finish(self, fetched: Tensors) -> Tensors:
        """They are what was fetched."""
        return fetched


class CachedLatents(Cached):
    """What the VAE said of pictures."""

    def fetch(self, epoch: int, sample: int) -> Tensors:
        """The latents of a sample."""
        view = self._epochs.view(epoch, sample)
        return self._cache.read(picture_name(self._epochs.picture(sample).sha256, view))


class CachedTexts(Cached):
    """What the text encoders said of captions."""

    def fetch(self, epoch: int, sample: int) -> Tensors:
        """What they said of a sample's caption."""
        return self._cache.read(text_name(self._epochs.text(epoch, sample)))


@dataclass(frozen=True, slots=True)
class Opened:
    """A picture at its training size, not yet encoded."""

    name: str
    picture: Image.Image
    mask: Image.Image | None


def opened(picture: Picture, view: View) -> Opened:
    """A picture of the dataset as a view of it shows it.

    Raises LorakitError where it or its mask is not the one any more that the report is of: what
    they give would be kept under the name of another.
    """
    path, mask_path = picture.path, picture.mask_path
    _unchanged(path, picture.name, picture.sha256)
    if mask_path is not None and view.mask:
        _unchanged(mask_path, f"The mask {picture.mask_name}", view.mask)
    return Opened(path.name, prepare(path, view), mask(path, mask_path, view))


def _unchanged(path: Path, name: str, sha256: str) -> None:
    try:
        with path.open("rb") as file:
            same = hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError as error:
        raise LorakitError(
            f"{name} cannot be read any more: {error.strerror or error}.",
            "Put it back, and go on with lorakit train --resume.",
            ExitCode.DATA,
        ) from error
    if not same:
        raise LorakitError(
            f"{name} has been changed since this training looked at it.",
            "Leave pictures and masks alone while they are trained on, and start again.",
            ExitCode.DATA,
        )


class LiveLatents:
    """Pictures that are opened and encoded whenever they are due."""

    done = False

    def __init__(self, encode: Latents, epochs: Epochs) -> None:
        self._encode, self._epochs = encode, epochs

    def fetch(self, epoch: int, sample: int) -> Opened:
        """The picture of a sample."""
        return opened(self._epochs.picture(sample), self._epochs.view(epoch, sample))

    def finish(self, fetched: Opened) -> Tensors:
        """Its latents."""
        return self._encode(fetched.picture, fetched.mask, fetched.name)


class LiveTexts:
    """Captions that are encoded whenever they are due."""

    done = False

    def __init__(self, encode: Texts, epochs: Epochs) -> None:
        self._encode, self._epochs = encode, epochs

    def fetch(self, epoch: int, sample: int) -> str:
        """The caption of a sample."""
        return self._epochs.text(epoch, sample)

    def finish(self, fetched: str) -> Tensors:
        """What the encoders say of it."""
        return self._encode(fetched)
