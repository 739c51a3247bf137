"""Pictures that look alike are found, exactly, and without comparing each with each."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lorakit.dataset.alike import FAR_BITS, Impression, groups, impression


def _moire() -> Image.Image:
    image = Image.new("RGB", (90, 80))
    image.putdata([(x * y % 256, x * 3 % 256, y * 3 % 256) for y in range(80) for x in range(90)])
    return image


def _boxes() -> Image.Image:
    image = Image.new("RGB", (64, 64), (200, 180, 30))
    image.paste((10, 20, 90), (12, 8, 40, 50))
    image.paste((250, 250, 250), (30, 30, 60, 60))
    return image


@pytest.mark.parametrize(
    ("image", "dhash"),
    [
        (_moire(), "fefefefefefefefe"),
        (_boxes(), "2c2d2d3c3a3a1ada"),
        (Image.radial_gradient("L").convert("RGB"), "0f0f0f0f0f0f0f0f"),
    ],
    ids=["moire", "boxes", "gradient"],
)
def test_the_bits_are_those_of_imagehash(image: Image.Image, dhash: str) -> None:
    """As `imagehash.dhash` of version 4.3.2 gives them."""
    assert f"{impression(image).bits:016x}" == dhash


def test_copies_at_other_sizes_and_qualities_are_alike(tmp_path: Path) -> None:
    boxes = _boxes().resize((640, 640))
    boxes.resize((200, 200)).save(tmp_path / "small.jpg", quality=40)
    one, other = impression(boxes), impression(Image.open(tmp_path / "small.jpg"))
    assert one.near(other)
    assert not one.near(impression(boxes.transpose(Image.Transpose.FLIP_LEFT_RIGHT)))
    red, _, blue = boxes.split()
    assert not one.near(impression(Image.merge("RGB", (blue, red, red))))


@given(st.lists(st.tuples(st.integers(0, 255), st.sampled_from([0, 20, 40, 200])), max_size=30))
def test_nobody_is_missed_and_nobody_is_far(drawn: list[tuple[int, int]]) -> None:
    # Few bits, spread over the hash, so that many are near; sixteen that all have.
    seen = [
        Impression(0xFFFF << 40 | sum((low >> n & 1) << (n * 5) for n in range(8)), red, 9, 9)
        for low, red in drawn
    ]
    found = list(groups(enumerate(seen)))
    members = [number for group in found for number in group]
    assert len(members) == len(set(members))
    for first, *others in found:
        assert others
        assert all(seen[first].near(seen[other]) and other > first for other in others)
    alone = [n for n in range(len(seen)) if n not in members] + [group[0] for group in found]
    assert not any(seen[a].near(seen[b]) for a in alone for b in alone if a < b)


def test_a_picture_without_structure_is_like_none() -> None:
    assert list(groups(enumerate([Impression(0, 9, 9, 9)] * 5))) == []
    assert FAR_BITS == 3


def test_of_many_flat_pictures_few_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Things before a white wall: all their hashes are empty above and below."""
    draw = random.Random(0)
    seen = [Impression(draw.getrandbits(22) << 21, 90, 90, 90) for _ in range(3000)]
    compared = 0
    near = Impression.near

    def counted(self: Impression, other: Impression) -> bool:
        nonlocal compared
        compared += 1
        return near(self, other)

    monkeypatch.setattr(Impression, "near", counted)
    assert list(groups(enumerate(seen)))
    assert compared < 3000 * 3000 / 2 / 20
