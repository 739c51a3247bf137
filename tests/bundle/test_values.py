from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.bundle import keys
from lorakit.bundle.values import number, shown, text, value


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (16.0, "16.0"), (1e-4, "1e-4"), (0.00015, "1.5e-4"), (0.001, "0.001"), (0.01, "0.01"),
        (1e-8, "1e-8"), (2.5e-9, "2.5e-9"), (-0.0002, "-2e-4"), (0.0, "0.0"), (1e22, "1e22"),
        (float("nan"), "nan"), (float("-inf"), "-inf"),
    ],
)  # fmt: skip
def test_floats_are_written_as_people_write_them(given: float, written: str) -> None:
    assert number(given) == written


@given(st.floats(allow_nan=False))
def test_a_float_stays_that_float(given: float) -> None:
    read = tomllib.loads(f"v = {number(given)}")["v"]
    assert type(read) is float
    assert read == given


@given(st.text())
def test_every_text_round_trips_and_hides_nothing(given: str) -> None:
    assert tomllib.loads(f"v = {text(given)}")["v"] == given
    assert text(given).isprintable()


def test_a_windows_path_stays_readable() -> None:
    assert text("C:\\new\\train") == r"'C:\new\train'"


def test_what_toml_cannot_say_is_refused() -> None:
    for bad in (None, "\udcff", object()):
        with pytest.raises(ValueError, match="TOML"):
            value(bad)


def test_long_lists_go_one_a_line_and_short_ones_do_not() -> None:
    assert value(["a", "b"]) == '["a", "b"]'
    assert value(["a" * 50, "b" * 50]).count("\n") == 3


def test_shown_is_one_short_line_for_anything() -> None:
    assert shown("a\nb") == '"a\\nb"'
    assert len(shown("x" * 500)) == 60
    assert shown(None) == "None"


def test_dotted_keys() -> None:
    path = ("dataset", "sources", 12, "path")
    assert keys.join(path) == "dataset.sources[12].path"
    assert keys.split("dataset.sources[12].path") == path
    assert keys.join(("a b", "\x1b")) == '"a b"."\\u001b"'
    for bad in ("", "a..b", "a[x]", "[0]", "a.", "a b"):
        with pytest.raises(ValueError, match=r".*"):
            keys.split(bad)
