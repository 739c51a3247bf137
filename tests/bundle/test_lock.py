from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from bundles import SMALL, bundles, locks
from hypothesis import given
from hypothesis import strategies as st

from lorakit.bundle.lock import Lock, LockedPicture, with_lock
from lorakit.bundle.models import Bundle
from lorakit.bundle.problems import BundleError
from lorakit.bundle.read import parse, read
from lorakit.bundle.write import dump, write_lock
from lorakit.errors import LorakitError

LOCK = Lock(lorakit="0.1.0", threads=2, attention="sdpa", determinism="bytes")


@given(bundles, locks, locks, st.sampled_from(["\n", "\r\n"]))
def test_a_lock_goes_to_the_end_and_in_the_place_of_another(
    bundle: Bundle, first: Lock, second: Lock, end: str
) -> None:
    plain = dump(bundle.model_copy(update={"lock": None}), {"train.steps": "enough"})
    text = plain.replace("\n", end)
    once = with_lock(text, first)
    assert once.startswith(text)
    assert parse(once) == bundle.model_copy(update={"lock": first})
    assert once.count("\n") == once.count(end)
    assert with_lock(once, second) == with_lock(text, second)
    assert with_lock(once, first) == once


comments = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=9).map("# {}".format)
tables = st.sampled_from(
    ["[lock]\nthreads = 3", "[lock.dataset]\npictures = [ # these\n  'a',\n\n  'b',\n]",
     "[lock . 'versions']\ntorch = '''\n[x]\n'''", "[train]\nsteps = 3", "[save]\nkeep = 1"]
)  # fmt: skip


@given(
    st.lists(tables, unique=True),
    st.lists(comments, min_size=6, max_size=6, unique=True),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_only_the_lines_of_the_lock_change(
    blocks: list[str], said: list[str], end: str, finished: bool
) -> None:
    text = SMALL + "".join(f"\n{c}\n{block}\n" for c, block in zip(said, blocks, strict=False))
    text = (text if finished else text.rstrip("\n")).replace("\n", end)
    locked = with_lock(text, LOCK)
    assert locked.count("\n") == locked.count(end)
    assert tomllib.loads(locked)["lock"]["threads"] == 2
    lines = locked.split(end)
    for n, block in enumerate(blocks):
        inside = "lock" in block and n > 0 and "lock" in blocks[n - 1]
        assert (said[n] in lines) != inside
        assert (block.replace("\n", end) + end in locked) == ("lock" not in block)


@pytest.mark.parametrize(
    "old", ["lock.threads = 3\n", "lock = { threads = 3 }\n", "'lock'.a.b = 1\nlock.c = 2\n"]
)
def test_a_lock_in_another_form_is_replaced_too(old: str) -> None:
    assert with_lock(old + SMALL, LOCK) == with_lock(SMALL, LOCK)


def test_a_text_that_cannot_hold_a_lock_is_refused() -> None:
    with pytest.raises(BundleError, match="no valid TOML"):
        with_lock("schema = ", LOCK)
    with pytest.raises(LorakitError, match="no place"):
        with_lock("x = nan\n", LOCK)  # unequal to itself, so nothing shows that it stayed


def test_a_lock_is_written_into_its_file(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text(SMALL + "# mine\n")
    write_lock(file, LOCK)
    assert read(file).lock == LOCK
    assert file.read_text().startswith(SMALL + "# mine\n\n[lock]\n")


@given(st.text(), st.text("0123456789abcdef"), st.text("0123456789abcdef"))
def test_a_line_of_a_picture_reads_back(name: str, picture: str, caption: str) -> None:
    line = LockedPicture(name, picture, caption)
    assert LockedPicture.read(str(line)) == line
