from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from test_scan import base, found, looked, names, picture

from lorakit.bundle.models import Dataset, Shape, Source
from lorakit.dataset import views
from lorakit.dataset.buckets import fit
from lorakit.dataset.pictures import mask, prepare
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.dataset.scan import scan
from lorakit.dataset.views import View, view

SHARES = st.floats(0, 1, allow_nan=False)
BOXES = st.tuples(SHARES, SHARES, SHARES, SHARES).map(
    lambda b: (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]) or 1.0, max(b[1], b[3]) or 1.0)
)
PLACES = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 10_000), st.integers(0, 10_000))


def one(width: int, height: int, box: Any = None, resolution: int = 64) -> Picture:
    whole = views.placed(fit(width, height, resolution, 8), box)
    return Picture(
        folder="/p", name="a.png", source=0, repeats=1, width=width, height=height, fit=whole,
        caption="", caption_name=None, tokens=None, sha256="00" * 32, turned=False, box=box,
    )  # fmt: skip


def scanned(folder: Path, **shape: object) -> DatasetReport:
    sources = (Source(path=str(folder), trigger="x"),)
    return scan(Dataset(sources=sources, resolution=64, **shape), folder, base())  # type: ignore[arg-type]


@given(st.integers(1, 20_000), st.integers(1, 20_000), PLACES)
def test_a_crop_lies_in_the_picture_and_keeps_what_the_report_says(
    width: int, height: int, place: tuple[int, int, int]
) -> None:
    picture = one(width, height)
    made = view(picture, Shape(crop="random"), *place).fit
    assert 0 <= made.left <= made.scale_width - made.width
    assert 0 <= made.top <= made.scale_height - made.height
    assert made.kept == picture.fit.kept
    assert view(picture, Shape(crop="random"), *place).fit == made


@given(
    st.integers(8, 4000), st.integers(8, 4000), BOXES, PLACES, st.sampled_from(["random", "centre"])
)
def test_a_box_stays_whole_wherever_it_fits(
    width: int, height: int, box: views.Box, place: tuple[int, int, int], crop: Any
) -> None:
    picture = one(width, height, box)
    made = view(picture, Shape(crop=crop), *place).fit
    assert 0 <= made.left <= made.scale_width - made.width
    assert 0 <= made.top <= made.scale_height - made.height
    sides = ((box[0], box[2], made.left, made.width, made.scale_width),
             (box[1], box[3], made.top, made.height, made.scale_height))  # fmt: skip
    for begin, end, at, size, whole in sides:
        if (end - begin) * whole + 2 <= size:
            assert at <= begin * whole + 1e-3
            assert end * whole <= at + size + 1e-3


def test_every_place_of_a_crop_is_drawn() -> None:
    drawn = {view(one(100, 64), Shape(crop="random", buckets=False), 1, e, 0).fit.left
             for e in range(2000)}  # fmt: skip
    fitted = one(100, 64).fit
    assert drawn == set(range(fitted.scale_width - fitted.width + 1))


def test_default_settings_always_show_the_same() -> None:
    picture = one(300, 100)
    assert (
        view(picture, Shape(), 1, 2, 3) == View(fit=picture.fit) == view(picture, Shape(), 9, 8, 7)
    )
    assert not views.varies(picture, Shape())
    assert views.varies(picture, Shape(flip=True))
    assert views.varies(one(300, 101), Shape(crop="random"))
    assert not views.varies(one(64, 64), Shape(crop="random"))


def test_flips_have_even_odds_and_the_crop_is_told_as_it_is_seen() -> None:
    picture = one(300, 100)
    every = [view(picture, Shape(flip=True), 5, e, 0) for e in range(1000)]
    assert 440 < sum(v.flip for v in every) < 560
    crop = replace(picture.fit, left=3)
    assert View(fit=crop, flip=True).told.left == crop.scale_width - crop.width - 3
    assert View(fit=crop).told == crop


def test_pixels_of_a_view(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (80, 100, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    whole = fit(100, 80, 64, 8)
    plain = prepare(tmp_path / "a.png", View(fit=whole))
    assert plain.size == (whole.width, whole.height)
    flipped = prepare(tmp_path / "a.png", View(fit=whole, flip=True))
    assert flipped.tobytes() == ImageOps.mirror(plain).tobytes()
    dark = prepare(tmp_path / "a.png", View(fit=whole, brightness=0.5))
    assert np.abs(np.asarray(dark) - np.asarray(plain) / 2).max() <= 1
    grey = np.asarray(prepare(tmp_path / "a.png", View(fit=whole, saturation=0.0)))
    assert (grey[..., 0] == grey[..., 1]).all()


def test_the_background_is_what_the_bundle_says(tmp_path: Path) -> None:
    Image.new("RGBA", (64, 64), (255, 0, 0, 0)).save(tmp_path / "a.png")
    shown = prepare(tmp_path / "a.png", View(fit=fit(64, 64, 64, 8), background="#102030"))
    assert shown.getpixel((5, 5)) == (16, 32, 48)


def test_a_mask_beside_a_picture_is_none_to_be_learned(tmp_path: Path) -> None:
    picture(tmp_path / "dog.jpg", 128, 64)
    picture(tmp_path / "cat.png", 64, 64)
    half = Image.new("L", (64, 32))  # of another size than its picture
    half.paste(255, (0, 0, 32, 32))
    half.save(tmp_path / "dog-mask.png")
    report = scanned(tmp_path, masks="files")
    assert names(report) == ["cat.png", "dog.jpg"]
    assert sum(report.account.values()) == report.files == 3
    cat, dog = report.pictures
    assert (cat.mask, cat.mask_path) == ("", None)
    assert dog.mask_path == tmp_path / "dog-mask.png"
    assert "cat.png" in found(report, "without a mask counts whole").what
    made = mask(dog.path, dog.mask_path, view(dog, Shape(), 0, 0, 0))
    assert made is not None
    grey = np.asarray(made)
    assert grey.shape == (dog.fit.height, dog.fit.width)
    assert (grey[:, : dog.fit.width // 2 - 4] > 250).all()
    assert (grey[:, dog.fit.width // 2 + 4 :] < 5).all()
    assert scanned(tmp_path, masks="files").digest == report.digest
    half.paste(255, (0, 0, 33, 32))
    half.save(tmp_path / "dog-mask.png")
    assert scanned(tmp_path, masks="files").digest != report.digest


def test_a_second_mask_is_none_to_be_learned_either(tmp_path: Path) -> None:
    picture(tmp_path / "dog.jpg", 128, 64)
    for suffix in ("png", "jpg"):
        Image.new("L", (128, 64), 255).save(tmp_path / f"dog-mask.{suffix}")
    (tmp_path / "dog-mask.txt").write_text("a mask")
    report = scanned(tmp_path, masks="files")
    assert [(p.name, p.mask_name) for p in report.pictures] == [("dog.jpg", "dog-mask.jpg")]
    assert {o.name: o.why for o in report.others}["dog-mask.png"] == "a mask that is not used"
    assert sum(report.account.values()) == report.files == 4


def test_pictures_share_a_mask_by_a_link(tmp_path: Path) -> None:
    """Also the mask of a link that is no picture of its own is none."""
    for number, name in enumerate(("a.jpg", "b.jpg")):
        picture(tmp_path / name, shade=number * 99)
    Image.new("L", (64, 64), 255).save(tmp_path / "a-mask.png")
    Image.new("L", (64, 64), 200).save(tmp_path / "c-mask.png")
    (tmp_path / "b-mask.png").symlink_to("a-mask.png")
    (tmp_path / "c.jpg").symlink_to("a.jpg")
    report = scanned(tmp_path, masks="files")
    masks = [(p.name, p.mask_name) for p in report.pictures]
    assert masks == [("a.jpg", "a-mask.png"), ("b.jpg", "b-mask.png")]
    assert report.pictures[0].mask == report.pictures[1].mask
    assert {o.name for o in report.others} == {"c.jpg", "c-mask.png"}
    assert sum(report.account.values()) == report.files == 6


def test_a_picture_with_nothing_to_be_seen_is_named_and_as_mask_teaches_nothing(
    tmp_path: Path,
) -> None:
    Image.new("RGBA", (64, 64), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert "a.png" in found(scanned(tmp_path), "transparent all over").what
    report = scanned(tmp_path, masks="alpha")
    assert [p.mask for p in report.pictures] == ["alpha"]
    assert "transparent nowhere" not in str(report.findings)


def test_pictures_named_like_masks_are_named_where_masks_are_off(tmp_path: Path) -> None:
    picture(tmp_path / "dog.jpg")
    picture(tmp_path / "dog-mask.png", shade=9)
    report = looked(tmp_path, trigger="x")
    assert len(report.pictures) == 2
    assert "dog-mask.png" in found(report, "named like masks").what
    (tmp_path / "other").mkdir()
    (tmp_path / "dog-mask.png").rename(tmp_path / "other" / "dog-mask.png")
    sources = tuple(Source(path=str(tmp_path / name), trigger="x") for name in (".", "other"))
    apart = scan(Dataset(sources=sources, resolution=64), tmp_path, base())
    assert len(apart.pictures) == 2
    assert "named like masks" not in str(apart.findings)


def test_a_black_mask_is_refused_by_name(tmp_path: Path) -> None:
    picture(tmp_path / "dog.jpg")
    Image.new("L", (64, 64)).save(tmp_path / "dog-mask.png")
    report = scanned(tmp_path, masks="files")
    assert found(report, "dog-mask.png is black").severity == "error"
    Image.new("LA", (64, 64), (255, 0)).save(tmp_path / "dog-mask.png")  # white, of which none is
    assert found(scanned(tmp_path, masks="files"), "dog-mask.png is black").severity == "error"


def test_a_mask_with_one_spot_is_not_black(tmp_path: Path) -> None:
    picture(tmp_path / "dog.jpg")
    spot = Image.new("L", (2000, 2000))
    spot.paste(255, (0, 980, 16, 996))
    spot.save(tmp_path / "dog-mask.png")
    report = scanned(tmp_path, masks="files")
    assert (report.masks, report.unusable) == (1, ())


def test_transparency_as_mask(tmp_path: Path) -> None:
    image = Image.new("RGBA", (64, 64), (255, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 64, 32))
    image.save(tmp_path / "a.png")
    picture(tmp_path / "b.png")
    report = scanned(tmp_path, masks="alpha")
    assert [p.mask for p in report.pictures] == ["alpha", ""]
    first = report.pictures[0]
    made = mask(first.path, None, view(first, Shape(), 0, 0, 0))
    assert made is not None
    assert np.asarray(made)[:30].max() < 5
    assert np.asarray(made)[34:].min() > 250
    assert "b.png" in found(report, "without a mask").what
    (tmp_path / "a.png").unlink()
    assert found(scanned(tmp_path, masks="alpha"), "No picture has a mask").severity == "warning"


def test_a_box_that_is_cut_is_named(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 640, 64)
    (tmp_path / "a.json").write_text('{"caption": "a", "box": [0, 0, 640, 64]}')
    assert "a.png" in found(looked(tmp_path), "only its middle is seen").what


def test_mirrored_pictures_whose_captions_say_sides_are_named(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("a dog on the Left")
    assert "a.png" in found(scanned(tmp_path, flip=True), "say left or right").what


@pytest.mark.parametrize(("prior", "subject", "said"), [(1, 4, True), (4, 1, True), (2, 3, False)])
def test_prior_pictures_are_about_as_many(
    tmp_path: Path, prior: int, subject: int, said: bool
) -> None:
    for n in range(2):
        picture(tmp_path / "own" / f"{n}.png", shade=n * 60)
        picture(tmp_path / "class" / f"{n}.png", shade=200 + n)
    sources = (
        Source(path="own", repeats=subject, trigger="x"),
        Source(path="class", repeats=prior, prior=True, trigger="dog"),
    )
    report = scan(Dataset(sources=sources, resolution=64), tmp_path, base())
    doubts = [f for f in report.findings if "prior ones" in f.what]
    assert bool(doubts) == said
    if said:
        assert f"repeats = {subject} for the prior" in doubts[0].fix
