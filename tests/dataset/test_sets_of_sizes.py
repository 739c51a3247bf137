"""Small, long and odd pictures stay in the set, and what becomes of each is said in numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from test_scan import base

from lorakit.bundle.models import Dataset, Source
from lorakit.dataset.report import DatasetReport
from lorakit.dataset.scan import scan


def looked(folder: Path, sizes: list[tuple[int, int]], resolution: int) -> DatasetReport:
    for width, height in sizes:
        noise = Image.effect_noise((width, height), 90).convert("RGB")
        noise.save(folder / f"{width}x{height}.png", compress_level=0)
    sources = (Source(path=str(folder), trigger="x"),)
    return scan(Dataset(sources=sources, resolution=resolution), folder, base())


def said(report: DatasetReport, words: str) -> str:
    [found] = [f.what for f in report.findings if words in f.what]
    return found


def test_pictures_below_the_resolution_are_kept_and_made_larger(tmp_path: Path) -> None:
    report = looked(tmp_path, [(64, 64), (300, 200), (767, 768), (768, 768)], 768)
    buckets = {p.name: (p.fit.width, p.fit.height) for p in report.pictures}
    assert buckets == {
        "64x64.png": (768, 768),
        "300x200.png": (936, 624),
        "767x768.png": (768, 768),
        "768x768.png": (768, 768),
    }
    assert report.upscaled == 3
    assert {p.name: round(p.upscale, 2) for p in report.pictures} == {
        "64x64.png": 12.0,
        "300x200.png": 3.12,
        "767x768.png": 1.0,
        "768x768.png": 1.0,
    }
    assert "2 pictures made more than twice as large" in said(report, "twice as large")
    assert "64x64.png 64 x 64 (12.0x)" in said(report, "twice as large")
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted(buckets)  # none moved or deleted


def test_the_longest_and_the_smallest_have_a_bucket(tmp_path: Path) -> None:
    report = looked(tmp_path, [(6000, 20), (20, 6000), (1, 1)], 1024)
    found = {p.name: (p.fit.width, p.fit.height, round(p.fit.kept, 4)) for p in report.pictures}
    assert found == {
        "6000x20.png": (2048, 512, 0.0133),
        "20x6000.png": (512, 2048, 0.0133),
        "1x1.png": (1024, 1024, 1.0),
    }
    long = said(report, "longer than 4:1")
    assert "2 pictures" in long
    assert "6000x20.png 6000 x 20 (keeps 1%)" in long


@pytest.mark.parametrize(
    ("size", "bucket", "kept"),
    [
        ((512, 512), (512, 512), 1.0),
        ((512, 768), (416, 624), 1.0),
        ((768, 512), (624, 416), 1.0),
        ((512, 640), (456, 568), 0.9965),
    ],
)
def test_a_resolution_is_an_area_and_what_is_lost_is_known(
    tmp_path: Path, size: tuple[int, int], bucket: tuple[int, int], kept: float
) -> None:
    [picture] = looked(tmp_path, [size], 512).pictures
    assert (picture.width, picture.height) == size
    assert (picture.fit.width, picture.fit.height) == bucket
    assert bucket[0] * bucket[1] <= 512 * 512
    assert round(picture.fit.kept, 4) == kept
