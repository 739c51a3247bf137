"""Training without a cache sees what training with one sees, to the last bit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from trainings import batches, changed, trained, watched

from lorakit.bundle.models import Bundle
from lorakit.cache import shelves
from lorakit.errors import LorakitError
from lorakit.train import material, prepare
from lorakit.train.batches import Batches
from lorakit.train.epochs import Epochs
from lorakit.train.step import Batch

LIVE = {"cache_latents": False, "cache_text": False}


def tensors(batch: Batch) -> list[torch.Tensor]:
    told = batch.conditions
    found = (
        batch.latents, batch.noise, batch.timesteps, told.hidden, told.pooled, told.sizes,
        batch.mask, batch.weights,
    )  # fmt: skip
    return [t for t in found if t is not None]


@pytest.mark.parametrize("family", ["sd1", "sdxl"])
def test_batches_are_the_same_bit_by_bit(
    bundle: Bundle, bases: dict[str, Path], tmp_path: Path, family: str, fresh_cache: Path
) -> None:
    """Over two epochs, and asked for out of order."""
    base = {"family": family, "model": str(bases[family])}
    wanted = changed(bundle, base=base, train={"steps": 8, "accumulation": 2})
    one = batches(wanted, watched(tmp_path / "one"))
    other = batches(changed(wanted, memory=LIVE), watched(tmp_path / "other"))
    assert len(one.of(1)[0].latents) + len(one.of(1)[1].latents) > 2
    for step in (1, 2, 3, 4, 3, 1):
        for mine, theirs in zip(one.of(step), other.of(step), strict=True):
            pairs = list(zip(tensors(mine), tensors(theirs), strict=True))
            assert len(pairs) == (6 if family == "sdxl" else 4)
            assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("memory", [{}, LIVE])
def test_a_mask_that_changed_meanwhile_is_no_longer_the_one_that_was_looked_at(
    bundle: Bundle, tmp_path: Path, memory: dict[str, bool]
) -> None:
    """What it gives would lie in the cache under the name of the one before."""
    folder = tmp_path / "pictures"
    shutil.copytree(bundle.dataset.sources[0].path, folder)
    mask = folder / "0-mask.png"
    Image.new("L", (8, 8), 255).save(mask)
    shape = {"sources": [{"path": str(folder), "trigger": "ohwx"}], "masks": "files"}
    wanted = changed(bundle, dataset=shape, memory=memory)
    _, report = prepare.look(wanted, Path("/"))
    [masked] = [p for p in report.pictures if p.mask]
    view = Epochs(wanted, report).view(0, report.pictures.index(masked))
    assert material.opened(masked, view).mask is not None
    Image.new("L", (8, 8), 9).save(mask)
    with pytest.raises(LorakitError, match=r"0-mask\.png has been changed"):
        material.opened(masked, view)
    mask.unlink()
    with pytest.raises(LorakitError, match=r"0-mask\.png cannot be read any more"):
        material.opened(masked, view)


def test_sizes_that_share_no_batch_cut_nothing_else_off(bundle: Bundle, tmp_path: Path) -> None:
    """Pictures in a batch are what each of them is alone."""
    many = batches(changed(bundle, train={"batch_size": 4}), watched(tmp_path / "many"))
    alone = batches(changed(bundle, train={"batch_size": 1}), watched(tmp_path / "alone"))
    seen = {}
    for step in range(1, alone.plan.batches_per_epoch + 1):
        [pick] = alone.plan.picks(step, 1)
        seen[pick.indices[0]] = alone.of(step)[0]
    assert len(seen) == 5
    shapes = set()
    for step in range(1, many.plan.batches_per_epoch + 1):
        [pick], [batch] = many.plan.picks(step, 1), many.of(step)
        shapes.add(tuple(batch.latents.shape[-2:]))
        for place, index in enumerate(pick.indices):
            assert torch.equal(batch.latents[place], seen[index].latents[0])
            assert torch.equal(batch.conditions.hidden[place], seen[index].conditions.hidden[0])
    assert len(shapes) == 2


@pytest.mark.parametrize(
    "memory",
    [
        LIVE,
        pytest.param({"cache_latents": False}, marks=pytest.mark.slow),
        pytest.param({"cache_text": False}, marks=pytest.mark.slow),
    ],
)
def test_the_lora_is_the_same(
    bundle: Bundle, tmp_path: Path, fresh_cache: Path, memory: dict[str, bool]
) -> None:
    run = tmp_path / "run"
    expected = trained(bundle, tmp_path / "cached", watched(tmp_path / "cached")).digest
    for shelf in shelves.shelves(fresh_cache):
        for file in shelf.folder.glob("*.safetensors"):
            file.unlink()
    assert trained(changed(bundle, memory=memory), run, watched(run)).digest == expected
    kinds = {s.kind for s in shelves.shelves(fresh_cache)}
    assert ("latents" in kinds) == memory.get("cache_latents", True)


def test_captions_that_change_are_in_the_cache_in_their_versions(
    bundle: Bundle, tmp_path: Path, fresh_cache: Path
) -> None:
    """What is trained on in any epoch was encoded before the first; without a cache it is new."""
    sources = [{**s.model_dump(), "repeats": 2} for s in bundle.dataset.sources]
    captions = {"shuffle": True, "separator": " "}
    wanted = changed(bundle, dataset={"sources": sources, "captions": captions, "variants": 3})
    one = batches(wanted, watched(tmp_path / "one"))
    other = batches(changed(wanted, memory=LIVE), watched(tmp_path / "other"))

    def told(step: int, made: Batches) -> set[bytes]:
        return {h.numpy().tobytes() for b in made.of(step) for h in b.conditions.hidden}

    steps = range(1, 6 * one.plan.batches_per_epoch + 1)
    cached = set().union(*(told(step, one) for step in steps))
    live = set().union(*(told(step, other) for step in steps))
    assert len(cached) <= 5 * 3 < len(live)
    [held] = [s.entries for s in shelves.shelves(fresh_cache) if s.kind == "text"]
    assert len(cached) == held - 1  # and no prompt at all


def test_pictures_that_change_are_in_the_cache_in_their_versions(
    bundle: Bundle, tmp_path: Path, fresh_cache: Path
) -> None:
    """With masks and prior pictures; each version is what it would be without a cache."""
    folder = tmp_path / "pictures"
    shutil.copytree(bundle.dataset.sources[0].path, folder)
    for picture in sorted(folder.glob("*.png"))[:2]:
        half = Image.new("L", (8, 8))
        half.paste(255, (0, 0, 4, 8))
        half.save(picture.with_name(f"{picture.stem}-mask.png"))
    shutil.copytree(bundle.dataset.sources[0].path, tmp_path / "prior")
    sources = [
        {"path": str(folder), "trigger": "ohwx"},
        {"path": str(tmp_path / "prior"), "prior": True},
    ]
    shape = {"sources": sources, "flip": True, "crop": "random", "colour": 0.2, "masks": "files"}
    wanted = changed(
        bundle, dataset={**shape, "variants": 3}, loss={"unmasked_weight": 0.1, "prior_weight": 0.5}
    )
    one = batches(wanted, watched(tmp_path / "one"))
    other = batches(changed(wanted, memory=LIVE), watched(tmp_path / "other"))
    seen: set[bytes] = set()
    masked = 0
    # In its first epochs, of a picture that is seen once each, versions and epochs are the same.
    for step in range(1, 3 * one.plan.batches_per_epoch + 1):
        for mine, theirs in zip(one.of(step), other.of(step), strict=True):
            if all(epoch < 3 for epoch in (p.epoch for p in one.plan.picks(step, 1))):
                assert all(
                    torch.equal(a, b) for a, b in zip(tensors(mine), tensors(theirs), strict=True)
                )
            seen |= {row.numpy().tobytes() for row in mine.latents}
            if mine.mask is not None:
                masked += 1
                assert torch.allclose(mine.mask.mean(dim=(1, 2, 3)), torch.ones(len(mine.mask)))
    assert masked
    assert len(seen) > 5
