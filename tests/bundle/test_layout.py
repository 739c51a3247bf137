"""Places are right if the text at them is what tomllib read there."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.bundle import keys, layout
from lorakit.bundle.document import document

TRICKY = '''
schema = 1 # one
"odd key" . 'x.y' = """a "quoted"
  # no comment \\""""" # behind
date = 1979-05-27 07:32:00Z
[dataset] # table
sources = [ { path = "a]#", n.m = 1 },
  # between
  { path = 'b}' } , # last
]
empty = [] # none
[[lists]]
v = ["x", ["y", 3.0]]
[lists.below]
deep = {}
[[lists]]
[[lists.below2]]
w = \'\'\'it''s\'\'\'
[dataset.later]
z = +1e-4
'''


def leaves(data: Any, path: keys.Path = ()) -> dict[keys.Path, Any]:
    found: dict[keys.Path, Any] = {path: data} if path else {}
    inner = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for name, value in inner:
        found |= leaves(value, (*path, name))
    return found


def agrees(text: str) -> None:
    data = leaves(tomllib.loads(text))
    found = layout.places(text)
    assert found.keys() == data.keys()
    for path, place in found.items():
        written = text[place.start : place.end]
        if written and not place.header:
            assert tomllib.loads(f"v = {written}")["v"] == data[path], path
        before = text[: place.start]
        assert place.line <= before.count("\n") + 1


@pytest.mark.parametrize("text", [TRICKY, TRICKY.replace("\n", "\r\n"), "a = 1", "a.b.c = 2\n\n"])
def test_every_value_is_found_where_it_stands(text: str) -> None:
    agrees(text)


def test_lines_and_comments() -> None:
    found = layout.places(TRICKY)
    assert found["schema",].comment == "one"
    assert found["odd key", "x.y"].comment == "behind"
    assert found["odd key", "x.y"].line == 3
    assert found["dataset",].line == 6
    assert found["dataset", "sources", 1, "path"].line == 9
    assert found["dataset", "empty"].comment == "none"
    assert found["lists", 1, "below2", 0, "w"].line == 18


scalars = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
documents = st.recursive(
    st.dictionaries(st.text(max_size=5), values, max_size=4),
    lambda inner: st.dictionaries(
        st.text(max_size=5), st.one_of(values, inner, st.lists(inner, max_size=3)), max_size=4
    ),
    max_leaves=12,
)


@given(documents)
def test_any_document_is_written_as_it_is_read_and_placed(data: dict[str, Any]) -> None:
    text = document(data)
    assert tomllib.loads(text) == data
    agrees(text)
