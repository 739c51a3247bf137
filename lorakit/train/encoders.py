"""The VAE and the text encoders at work: loaded when first asked, one picture or text at a time.

Training from a cache and training without one call the same functions, so they get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from lorakit.errors import ExitCode, LorakitError
from lorakit.train import out_of_memory
from lorakit.train.families.stable_diffusion import StableDiffusion, release

SMALLEST_TILE = 4
"""Side of a tile in latents, at least: tiles overlap by a quarter."""


class Texts:
    """What the text encoders of a base say."""

    def __init__(self, family: StableDiffusion, folder: Path, device: torch.device) -> None:
        self._read = lambda: family.load_text(folder, device)
        self._family = family
        self._encoders: Any = None

    def __call__(self, text: str) -> dict[str, Tensor]:
        """One text by the names of `Conditions`, fp32, on the CPU."""
        self.load()
        told = self._family.encode_text(self._encoders, text)
        if not _finite(told):
            raise LorakitError(
                f"The text encoder answers the caption {text!r} with numbers that are not finite.",
                "The base model's text encoder is damaged: download it again.",
                ExitCode.DATA,
            )
        return told

    def load(self) -> None:
        """Have the encoders on the device."""
        self._encoders = self._encoders or self._read()

    def free(self) -> None:
        """Let the encoders go; another text loads them again."""
        if self._encoders is not None:
            self._encoders = None
            release()


class Latents:
    """What the VAE of a base says, always in fp32."""

    def __init__(
        self,
        family: StableDiffusion,
        folder: Path,
        device: torch.device,
        note: Callable[[str], None],
    ) -> None:
        self._read = lambda: family.load_vae(folder).to(device)
        self._family, self._note = family, note
        self._vae: Any = None
        self._noted: set[str] = set()

    def __call__(
        self, picture: Image.Image, mask: Image.Image | None, name: str
    ) -> dict[str, Tensor]:
        """A picture of training size: mean and std [c, h, w], unscaled; mask [1, h, w] in 0..1
        where there is one; tile [1], its side in pixels, where it had to be cut. fp32, on the CPU.

        Where memory is not enough it is tried again, then in tiles. Raises LorakitError with the
        picture's name where that does not help, and where the answer is not finite.
        """
        self.load()
        told = self._encoded(picture, name)
        if not _finite(told):
            told = self._encoded(picture, name)
        if not _finite(told):
            raise LorakitError(
                f"The VAE answers {name} with numbers that are not finite, in fp32.",
                "Look at the picture, and remove it if it is damaged; or the base model's VAE is.",
                ExitCode.DATA,
            )
        if mask is not None:
            told["mask"] = shrunk(mask, told["mean"].shape[-2:])
        return told

    def load(self) -> None:
        """Have the VAE on the device."""
        self._vae = self._vae or self._read()

    def free(self) -> None:
        """Let the VAE go; another picture loads it again."""
        if self._vae is not None:
            self._vae = None
            release()

    def _encoded(self, picture: Image.Image, name: str) -> dict[str, Tensor]:
        for tile in (0, 0, *_tiles(picture.size, self._factor())):
            told = self._tried(picture, tile)
            if told is None:
                release()  # not where the error is caught: it holds what was being computed
            elif not tile:
                return told
            else:
                if name not in self._noted:
                    self._note(f"{name} did not fit in memory whole: encoded in tiles of {tile} px")
                    self._noted.add(name)
                return told | {"tile": torch.tensor([float(tile)])}
        width, height = picture.size
        raise LorakitError(
            f"The VAE has no memory left for {name} at {width} x {height} pixels, even in tiles.",
            "Lower dataset.resolution, or end other programs on the card.",
            ExitCode.OUT_OF_MEMORY,
        )

    def _tried(self, picture: Image.Image, tile: int) -> dict[str, Tensor] | None:
        """One attempt, in tiles of so many pixels or whole; None where memory was not enough."""
        vae = self._vae
        if tile:
            vae.enable_tiling()
            vae.tile_sample_min_size, vae.tile_latent_min_size = tile, tile // self._factor()
        try:
            mean, std = self._family.encode_picture(vae, picture)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory.is_one(error):
                raise
            return None
        finally:
            if tile:  # the next picture is encoded as if this one had never been
                vae.disable_tiling()
        return {"mean": mean, "std": std}

    def _factor(self) -> int:
        return int(2 ** (len(self._vae.config.block_out_channels) - 1))


def _tiles(size: tuple[int, int], factor: int) -> list[int]:
    """Sides of tiles to try, in pixels: powers of two, the larger one first."""
    largest = 1 << (max(size) - 1).bit_length() - 1
    return [t for t in (largest, largest // 2) if t >= SMALLEST_TILE * factor]


def shrunk(mask: Image.Image, size: tuple[int, ...]) -> Tensor:
    """A mask at the size of latents (h, w): [1, h, w] in 0..1, each the mean of its area."""
    import numpy as np

    whole = torch.from_numpy(np.array(mask.convert("L"), dtype=np.float32)) / 255
    return adaptive_avg_pool2d(whole[None], (size[0], size[1]))


def _finite(tensors: dict[str, Tensor]) -> bool:
    return all(bool(torch.isfinite(t).all()) for t in tensors.values())
