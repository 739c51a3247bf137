"""The arithmetic of sizes: every picture has a bucket, and the scaled picture covers it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.dataset.buckets import MAX_ASPECT, Fit, fit, sizes, table
from lorakit.dataset.report import Picture
from lorakit.errors import LorakitError

sides = st.integers(1, 40_000)
steps = st.sampled_from([8, 16, 32, 64])
resolutions = st.integers(8, 512).map(lambda n: n * 8)


def fitted(width: int, height: int, resolution: int, step: int, buckets: bool) -> Fit:
    return fit(width, height, max(resolution, step), step, buckets)


@given(sides, sides, resolutions, steps, st.booleans())
def test_bucket_is_within_the_area_and_covered(
    width: int, height: int, resolution: int, step: int, buckets: bool
) -> None:
    found = fitted(width, height, resolution, step, buckets)
    assert found.width % step == found.height % step == 0
    assert min(found.width, found.height) >= step
    assert found.width * found.height <= max(resolution, step) ** 2
    assert max(found.width, found.height) <= MAX_ASPECT * min(found.width, found.height)
    assert found.scale_width >= found.width
    assert found.scale_height >= found.height
    assert found.scale_width == found.width or found.scale_height == found.height
    assert 0 <= found.left <= found.scale_width - found.width
    assert 0 <= found.top <= found.scale_height - found.height
    assert abs(found.scale_width - found.width - 2 * found.left) <= 1
    assert 0 < found.kept <= 1


@given(sides, sides, resolutions, steps)
def test_scaling_keeps_the_shape_to_a_pixel(
    width: int, height: int, resolution: int, step: int
) -> None:
    found = fitted(width, height, resolution, step, True)
    exact = max(found.width / width, found.height / height)
    assert abs(found.scale_width - width * exact) <= 0.5 + 1e-6 * found.scale_width
    assert abs(found.scale_height - height * exact) <= 0.5 + 1e-6 * found.scale_height


@given(sides, sides, resolutions, steps)
def test_a_mirrored_picture_has_the_mirrored_bucket(
    width: int, height: int, resolution: int, step: int
) -> None:
    one = fitted(width, height, resolution, step, True)
    other = fitted(height, width, resolution, step, True)
    if width != height:
        assert (one.width, one.height) == (other.height, other.width)


@given(st.integers(64, 4000), st.integers(64, 4000), st.sampled_from([512, 768, 1024]))
def test_usual_shapes_lose_little(width: int, height: int, resolution: int) -> None:
    found = fit(width, height, resolution, 64)
    if not found.extreme:
        assert found.kept > 0.75


@given(sides, sides)
def test_buckets_off_means_squares(width: int, height: int) -> None:
    found = fit(width, height, 520, 64, buckets=False)
    assert (found.width, found.height) == (512, 512)


@pytest.mark.parametrize(
    ("width", "height", "resolution", "step", "bucket", "scaled", "extreme"),
    [
        (512, 512, 512, 64, (512, 512), (512, 512), False),
        (512, 768, 512, 64, (384, 640), (427, 640), False),
        (512, 640, 512, 64, (448, 576), (461, 576), False),
        (768, 512, 512, 64, (640, 384), (640, 427), False),
        (3024, 4032, 1024, 64, (896, 1152), (896, 1195), False),
        (64, 64, 768, 64, (768, 768), (768, 768), False),
        (6000, 20, 1024, 64, (2048, 512), (153600, 512), True),
        (20, 6000, 1024, 64, (512, 2048), (512, 153600), True),
        (1, 1, 1024, 64, (1024, 1024), (1024, 1024), False),
        (4000, 1000, 512, 64, (1024, 256), (1024, 256), False),
        (64, 64, 64, 8, (64, 64), (64, 64), False),
        (9, 700, 64, 64, (64, 64), (64, 4978), True),
    ],
)
def test_table(
    width: int,
    height: int,
    resolution: int,
    step: int,
    bucket: tuple[int, int],
    scaled: tuple[int, int],
    extreme: bool,
) -> None:
    found = fit(width, height, resolution, step)
    assert (found.width, found.height) == bucket
    assert (found.scale_width, found.scale_height) == scaled
    assert found.extreme is extreme


def test_no_bucket_lies_within_another_of_its_shape() -> None:
    for width, height in sizes(512, 64):
        larger = [(w, h) for w, h in sizes(512, 64) if w * height == h * width and w > width]
        assert not larger


def test_a_resolution_below_one_step_is_refused_in_words() -> None:
    with pytest.raises(LorakitError, match=r"Resolution 32 .* 64 pixels"):
        fit(100, 100, 32, 64)


def test_the_table_of_buckets_counts_what_each_picture_says() -> None:
    def picture(width: int, height: int, repeats: int) -> Picture:
        return Picture(
            folder="/set", name="a.png", source=0, repeats=repeats, width=width, height=height,
            fit=fit(width, height, 64, 8), caption="", caption_name=None, tokens=None, sha256="",
            turned=False,
        )  # fmt: skip

    pictures = [picture(64, 64, 1), picture(32, 32, 3), picture(130, 128, 1), picture(100, 50, 2)]
    found = table(pictures)
    assert [(b.width, b.height, b.pictures, b.seen) for b in found] == [
        (64, 64, 3, 5),
        (88, 40, 1, 2),
    ]
    square, wide = found
    assert square.kept_least == pictures[2].fit.kept < 1
    assert square.kept_mean == pytest.approx((2 + square.kept_least) / 3)
    assert (square.scale_least, square.scale_most) == (pictures[2].upscale, 2.0)
    assert wide.kept_mean == wide.kept_least == pictures[3].fit.kept
    assert table([]) == ()
