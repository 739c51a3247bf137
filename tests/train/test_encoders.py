"""A VAE without enough memory, or whose numbers overflow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from trainings import CPU, changed, prepared, trained, watched

from lorakit.bundle.models import Bundle
from lorakit.cache import shelves
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs.events import Noted, Stepped
from lorakit.train.encoders import Latents, shrunk
from lorakit.train.families import family_of
from lorakit.train.families.stable_diffusion import StableDiffusion

Notes = list[str]


@pytest.fixture
def notes() -> Notes:
    return []


@pytest.fixture
def encode(bundle: Bundle, tiny_base: Path, notes: Notes) -> Latents:
    return Latents(family_of(bundle), tiny_base, CPU, notes.append)


@pytest.fixture
def adjust(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], None]], None]:
    """Have something done to every VAE that is loaded."""

    def by(change: Callable[[Any], None]) -> None:
        real = StableDiffusion.load_vae

        def load(self: StableDiffusion, folder: Path) -> Any:
            vae = real(self, folder)
            change(vae)
            return vae

        monkeypatch.setattr(StableDiffusion, "load_vae", load)

    return by


def small(limit: int, times: int = 1000) -> Callable[[Any], None]:
    """A VAE for which pictures above a side of `limit` do not fit, so many times."""

    def change(vae: Any) -> None:
        real, left = vae.encoder.forward, [times]

        def forward(pixels: torch.Tensor) -> torch.Tensor:
            if max(pixels.shape[-2:]) > limit and left[0]:
                left[0] -= 1
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return real(pixels)

        vae.encoder.forward = forward

    return change


def noise(width: int, height: int) -> Image.Image:
    torch.manual_seed(1)
    return Image.frombytes(
        "RGB", (width, height), torch.randint(256, (height * width * 3,)).byte().numpy().tobytes()
    )


def test_memory_that_is_short_once_changes_nothing(
    encode: Latents, notes: Notes, adjust: Callable[..., None]
) -> None:
    picture = noise(48, 32)
    expected = encode(picture, None, "a.png")
    encode.free()
    adjust(small(8, times=1))
    found = encode(picture, None, "a.png")
    assert found.keys() == {"mean", "std"}
    assert all(torch.equal(found[key], expected[key]) for key in found)
    assert notes == []


@pytest.mark.parametrize(("limit", "tile"), [(32, 32), (16, 16)])
def test_a_picture_that_does_not_fit_is_encoded_in_tiles(
    encode: Latents, notes: Notes, adjust: Callable[..., None], limit: int, tile: int
) -> None:
    """And the next one, which fits, as if that one had never been."""
    large, little = noise(48, 32), noise(limit, limit)
    whole, alone = encode(large, None, "a.png"), encode(little, None, "b.png")
    encode.free()
    adjust(small(limit))
    for _ in range(2):
        found = encode(large, None, "a.png")
    assert found["tile"].tolist() == [tile]
    assert found["mean"].shape == found["std"].shape == whole["mean"].shape == (4, 8, 12)
    assert not torch.equal(found["mean"], whole["mean"])
    both = torch.stack([found["mean"].flatten(), whole["mean"].flatten()])
    assert torch.corrcoef(both)[0, 1] > 0.6  # noise in tiles of so few latents
    assert torch.equal(encode(little, None, "b.png")["mean"], alone["mean"])
    assert notes == [f"a.png did not fit in memory whole: encoded in tiles of {tile} px"]


def test_a_picture_that_fits_in_no_way_is_named(
    encode: Latents, adjust: Callable[..., None]
) -> None:
    adjust(small(4))
    with pytest.raises(
        LorakitError, match=r"for a\.png at 48 x 32 pixels, even in tiles"
    ) as failure:
        encode(noise(48, 32), None, "a.png")
    assert failure.value.code == ExitCode.OUT_OF_MEMORY
    assert "dataset.resolution" in failure.value.hint


def test_another_error_is_not_taken_for_memory(
    encode: Latents, adjust: Callable[..., None]
) -> None:
    def broken(vae: Any) -> None:
        def forward(pixels: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("a bug")

        vae.encoder.forward = forward

    adjust(broken)
    with pytest.raises(RuntimeError, match="a bug"):
        encode(noise(32, 32), None, "a.png")


def test_tiles_are_in_the_cache_as_such_and_the_run_says_so(
    bundle: Bundle, tmp_path: Path, fresh_cache: Path, adjust: Callable[..., None]
) -> None:
    adjust(small(16))
    for number in range(2):
        log = watched(tmp_path / f"{number}")
        prepared(bundle, log)
        warned = [e.text for e in log.of(Noted) if e.level == "warning"]
        assert "5 of the pictures are in the cache as encoded in tiles" in warned
    assert len(warned) == 1  # the second time nothing was encoded


def overflowing(vae: Any) -> None:
    """Weights that are too large for what is white, and for nothing else here."""
    with torch.no_grad():
        vae.encoder.conv_in.weight.fill_(3e18)


@pytest.fixture
def white(bundle: Bundle, tmp_path: Path) -> Bundle:
    """Two grey pictures, whose numbers are near 0, and a white one."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, colour in (("a", 127), ("b", 128), ("white", 255)):
        Image.new("RGB", (40, 40), (colour,) * 3).save(folder / f"{name}.png")
    sources = [{"path": str(folder), "trigger": "ohwx"}]
    return changed(bundle, dataset={"sources": sources}, train={"batch_size": 1})


@pytest.mark.parametrize("cached", [True, False])
def test_a_picture_whose_latents_are_not_finite_is_named(
    white: Bundle,
    tmp_path: Path,
    fresh_cache: Path,
    adjust: Callable[..., None],
    cached: bool,
) -> None:
    """Before training from a cache; without one before the step that would have learned it."""
    adjust(overflowing)
    log = watched(tmp_path / "run")
    with pytest.raises(LorakitError, match=r"answers white\.png with numbers") as failure:
        trained(changed(white, memory={"cache_latents": cached}), tmp_path / "run", log)
    assert failure.value.code == ExitCode.DATA
    assert not [loss for e in log.of(Stepped) for loss in e.losses if loss is None]
    held = [s.entries for s in shelves.shelves(fresh_cache) if s.kind == "latents"]
    assert held == ([2] if cached else [])


def test_a_mask_becomes_the_mean_of_each_area() -> None:
    mask = Image.new("L", (32, 16), 0)
    mask.paste(255, (0, 0, 12, 16))
    found = shrunk(mask, (2, 4))
    assert found.tolist() == [[[1.0, 0.5, 0.0, 0.0]] * 2]
