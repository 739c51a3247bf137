from __future__ import annotations

from pathlib import Path

import pytest

from lorakit.wizard.paths import complete, tidy


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("photos/dog", "photos/dog"),
        ("  photos/dog \n", "photos/dog"),
        ("'photos/my dog'", "photos/my dog"),
        ('"photos/my dog/" ', "photos/my dog"),
        ("photos/dog/", "photos/dog"),
        ("/", "/"),
        ("//", "/"),
        ("", ""),
        ("'", "'"),
        ("file:///home/x/my%20dog", "/home/x/my dog"),
        ("~/dog", "~/dog"),
        ("[dog]", "[dog]"),
    ],
)
def test_what_is_not_part_of_a_path_goes(typed: str, path: str, tmp_path: Path) -> None:
    assert tidy(typed, tmp_path) == path


def test_backslashes_go_where_the_folder_is_there_without_them(tmp_path: Path) -> None:
    (tmp_path / "my dog").mkdir()
    (tmp_path / r"odd\ one").mkdir()
    assert tidy(r"my\ dog", tmp_path) == "my dog"
    assert tidy(r"odd\ one", tmp_path) == r"odd\ one"
    assert tidy(r"no\where", tmp_path) == r"no\where"


def test_completing_goes_as_far_as_the_folders_agree(tmp_path: Path) -> None:
    for name in ("photos/dog [1]", "photos/dog [2]", ".hidden", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "photos.txt").write_text("a file")
    assert complete("ph", tmp_path) == ("photos/", [])
    assert complete("photos/d", tmp_path) == ("photos/dog [", ["dog [1]", "dog [2]"])
    assert complete(f"{tmp_path}/ph", Path("/")) == (f"{tmp_path}/photos/", [])
    assert complete("x", tmp_path) == ("x", [])
    assert complete(".h", tmp_path) == (".hidden/", [])
    assert complete("photos/", tmp_path)[0] == "photos/dog ["
    (tmp_path / "model.safetensors").touch()
    assert complete("mo", tmp_path) == ("mo", [])
    assert complete("mo", tmp_path, (".safetensors",)) == ("model.safetensors", [])


def test_the_home_folder_is_completed(clean_home: Path) -> None:
    (clean_home / "pictures").mkdir()
    assert complete("~", Path("/")) == ("~/", [])
    assert complete("~/p", Path("/")) == ("~/pictures/", [])
