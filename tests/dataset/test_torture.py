"""Every picture of the worst folder has its right value, and every file of it is accounted for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pillow_heif import from_pillow
from test_scan import base
from torture import BLUE, RED, Expected, build, halves, settle

from lorakit.bundle.models import Dataset, Source
from lorakit.dataset import pictures
from lorakit.dataset.pictures import open_upright
from lorakit.dataset.report import DatasetReport
from lorakit.dataset.scan import scan
from lorakit.errors import LorakitError


def looked(folder: Path) -> DatasetReport:
    sources = (Source(path=str(folder), repeats=3, trigger=""),)
    return scan(Dataset(sources=sources, resolution=64), folder, base())


def near(found: object, wanted: tuple[int, int, int] | None) -> bool:
    assert isinstance(found, tuple)
    return wanted is None or all(abs(a - b) <= 16 for a, b in zip(found, wanted, strict=True))


def test_the_worst_folder(tmp_path: Path) -> None:
    usable, unusable, others, system = build(tmp_path / "worst")
    settle(tmp_path / "worst")
    for report in (looked(tmp_path / "worst"), looked(tmp_path / "worst")):  # and remembered
        assert {p.name for p in report.pictures} == usable.keys()
        for picture in report.pictures:
            wanted: Expected = usable[picture.name]
            assert (picture.width, picture.height) == wanted.size, picture.name
            assert picture.caption == wanted.caption, picture.name
            image = open_upright(picture.path)
            assert image.size == wanted.size, picture.name
            last = (image.width - 1, image.height - 1)
            assert near(image.getpixel((0, 0)), wanted.top_left), picture.name
            assert near(image.getpixel(last), wanted.bottom_right), picture.name
            notes = [f.what for f in report.findings if f.where == picture.name]
            if wanted.note:
                assert any(wanted.note in note for note in notes), picture.name
        found = {u.name: u.why for u in report.unusable}
        assert found.keys() == unusable.keys()
        for name, why in unusable.items():
            assert why in found[name], (name, found[name])
        found = {o.name: o.why for o in report.others}
        assert found.keys() == others.keys()
        for name, why in others.items():
            assert why in found[name], (name, found[name])
        assert report.ignored == system
        assert report.files == sum(report.account.values())
        inside = [Path(at, n) for at, _, names in os.walk(tmp_path / "worst") for n in names]
        assert report.files == len(inside) + 2  # the link that is passed over, what one leads to
        assert report.epoch == 3 * len(usable)


def test_phones_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pillow-heif they are read, whatever they are called; without it they are named."""
    from_pillow(halves()).save(tmp_path / "a.heic", quality=95)
    (tmp_path / "b.jpg").write_bytes((tmp_path / "a.heic").read_bytes() + b"\0")
    report = looked(tmp_path)
    assert [p.name for p in report.pictures] == ["a.heic", "b.jpg"]
    image = open_upright(tmp_path / "b.jpg")
    assert near(image.getpixel((2, 2)), RED)
    assert near(image.getpixel((60, 30)), BLUE)
    monkeypatch.setattr(pictures, "_reads", lambda kind: kind != "HEIC")
    with pytest.raises(LorakitError, match=r"b\.jpg is a HEIC picture, and pillow-heif") as raised:
        open_upright(tmp_path / "b.jpg")
    assert "lorakit[heic]" in raised.value.hint
