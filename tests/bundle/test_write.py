from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest
from bundles import SMALL, bundles, paths
from hypothesis import given
from hypothesis import strategies as st

from lorakit.bundle.models import Bundle
from lorakit.bundle.paths import absolute
from lorakit.bundle.problems import BundleError
from lorakit.bundle.read import parse, read
from lorakit.bundle.write import dump, edit, replace, write
from lorakit.errors import LorakitError


@given(bundles, st.text())
def test_a_written_bundle_reads_back_the_same(bundle: Bundle, reason: str) -> None:
    text = dump(bundle, {"train.steps": reason, "dataset.sources[0].path": reason})
    assert parse(text) == bundle
    assert parse(text.replace("\n", "\r\n")) == bundle
    assert dump(parse(text)) == dump(bundle)


def test_what_a_written_bundle_looks_like() -> None:
    reasons = {"train.precision": "compute capability 8.9\nhas bf16\x1b[2J", "nothing": "x"}
    lines = dump(parse(SMALL), reasons).splitlines()
    assert lines[0] == "# lorakit bundle. Train: lorakit train my-dog.toml"
    assert lines[2:4] == ["schema = 1", 'name = "my-dog"']
    tables = [line for line in lines if line.startswith("[")]
    assert tables == [
        "[base]", "[dataset]", "[[dataset.sources]]", "[dataset.captions]", "[adapter]", "[train]",
        "[train.optimizer_options]", "[loss]", "[memory]", "[sample]", "[save]",
    ]  # fmt: skip
    assert 'precision = "bf16"           # compute capability 8.9 has bf16 [2J' in lines
    assert "learning_rate = 1e-4" in lines
    assert "alpha = 16.0" in lines


def test_the_header_can_be_pasted_into_a_shell() -> None:
    text = dump(parse(SMALL.replace("my-dog", "my dog")))
    assert "lorakit train 'my dog.toml'\n" in text


def test_a_value_that_toml_cannot_hold_is_named() -> None:
    bundle = parse(SMALL)
    broken = bundle.sample.model_copy(update={"negative": "\ud800"})
    with pytest.raises(LorakitError, match=r"sample\.negative"):
        dump(bundle.model_copy(update={"sample": broken}))


def test_write_keeps_the_mode_and_follows_a_link(tmp_path: Path) -> None:
    bundle, file, link = parse(SMALL), tmp_path / "b.toml", tmp_path / "link.toml"
    write(file, bundle)
    assert stat.S_IMODE(file.stat().st_mode) & 0o600 == 0o600
    file.chmod(0o640)
    link.symlink_to(file)
    changed = parse(SMALL, ["train.steps=7"])
    write(link, changed)
    assert read(file) == changed
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert {p.name for p in tmp_path.iterdir()} == {"b.toml", "link.toml"}


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    write(file, parse(SMALL))
    before = file.read_bytes()
    with pytest.raises(LorakitError, match="reads back"):
        replace(file, SMALL, lambda text: text != SMALL)
    with pytest.raises(BundleError):
        replace(file, "schema = ", lambda text: bool(parse(text)))
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["b.toml"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LorakitError, match=r"gone/b\.toml cannot be written: No such file"):
        write(tmp_path / "gone" / "b.toml", parse(SMALL))


HAND_WRITTEN = """\
# my dog, second try
schema = 1
name = "my-dog"   # do not change

[train] # speed
learning_rate = 1e-4 # keep me

  steps = 300
prompts_note.x = 1
[[dataset.sources]]
path = "photos" # a
repeats = 2

[[dataset.sources]]
path = 'more'

[dataset] # behind its sources
resolution = 512
"""


@given(
    st.sampled_from(
        [
            ("train.learning_rate", 2e-5), ("train.steps", 7), ("dataset.sources[1].path", "x"),
            ("dataset.resolution", 64), ("name", "other"), ("dataset.sources[0].repeats", 3),
        ]
    ),
    paths,
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)  # fmt: skip
def test_an_edit_changes_one_line(
    change: tuple[str, object], path: str, end: str, bom: bool
) -> None:
    key, new = change
    new = f"{path}/{new}" if key.endswith("path") else new
    text = ("\ufeff" if bom else "") + HAND_WRITTEN.replace("\n", end)
    before, after = text.split(end), edit(text, key, new).split(end)
    differing = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(differing) == 1
    old_line, new_line = differing[0]
    assert new_line.rstrip().endswith(old_line.partition("#")[2])
    assert new_line.partition("=")[0] == old_line.partition("=")[0]


@given(bundles, st.text(), st.sampled_from(["\n", "\r\n"]))
def test_an_edit_of_any_bundle_reads_back(bundle: Bundle, prompt: str, end: str) -> None:
    text = dump(bundle).replace("\n", end)
    edited = edit(edit(text, "sample.negative", prompt), "sample.prompts", [prompt])
    sample = bundle.sample.model_copy(update={"negative": prompt, "prompts": (prompt,)})
    assert parse(edited) == bundle.model_copy(update={"sample": sample})
    assert edited.count("\n") == edited.count(end)


@pytest.mark.parametrize(
    ("key", "new", "line"),
    [
        ("train.seed", 7, "seed = 7"),
        ("dataset.buckets", False, "buckets = false"),
        ("dataset.sources[0].trigger", "ohwx", 'trigger = "ohwx"'),
        ("dataset.sources[1].repeats", 9, "repeats = 9"),
        ("save.keep", 2, "keep = 2"),
        ("train.optimizer_options.eps", 1e-6, "eps = 1e-6"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_new_key_is_added_to_its_table(key: str, new: object, line: str, end: str) -> None:
    edited = edit(HAND_WRITTEN.replace("\n", end), key, new)
    new_header = f"[{key.rpartition('.')[0]}]"
    added = (
        {line, new_header}
        if "[" not in new_header[1:] and new_header not in HAND_WRITTEN
        else {line}
    )
    before, after = HAND_WRITTEN.split("\n"), edited.split(end)
    kept = [other for other in after if other not in added]
    assert [other for other in kept if other] == [other for other in before if other]
    assert line in after
    assert edited.count("\n") == edited.count(end)


def test_an_edit_in_an_inline_table() -> None:
    assert edit("train = { steps = 1 } # c\n", "train.seed", 2) == (
        "train = { steps = 1, seed = 2 } # c\n"
    )
    assert edit("train = {}", "train.seed", 2) == "train = {seed = 2}"
    assert edit("train = { steps = 1 }", "train.steps", 2) == "train = { steps = 2 }"


@pytest.mark.parametrize("key", ["dataset.sources[5].path", "name.x", "train", "a..b", "schema[0]"])
def test_an_edit_that_cannot_be_is_refused(key: str) -> None:
    with pytest.raises(LorakitError, match=r"no place|cannot be set"):
        edit(HAND_WRITTEN, key, 1)


def test_paths_become_absolute(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    bundle = absolute(parse(SMALL, ["base.model=./base"]), tmp_path)
    assert bundle.dataset.sources[0].path == str(tmp_path / "photos")
    assert bundle.base.model == str(tmp_path / "base")
    assert absolute(bundle, Path("/elsewhere")) == bundle
    hub = absolute(parse(SMALL, ["base.model=owner/name"]), tmp_path)
    assert hub.base.model == "owner/name"
    assert absolute(parse(SMALL), tmp_path).base.model == "pico"
    gone = absolute(parse(SMALL, ["base.model=./gone"]), tmp_path)
    assert gone.base.model == str(tmp_path / "gone")
    odd = absolute(parse(SMALL, ["dataset.sources[0].path=~nobody-of-this-name/a"]), tmp_path)
    assert odd.dataset.sources[0].path == str(tmp_path / "~nobody-of-this-name" / "a")
    home = absolute(parse(SMALL, ["dataset.sources[0].path=~/a"]), tmp_path)
    assert home.dataset.sources[0].path == os.path.expanduser("~/a")
    up = absolute(parse(SMALL, ["dataset.sources[0].path=../~x/./a"]), tmp_path)
    assert up.dataset.sources[0].path == str(tmp_path.parent / "~x" / "a")


def test_dump_is_plain_toml() -> None:
    assert tomllib.loads(dump(parse(SMALL)))["train"]["optimizer_options"]["eps"] == 1e-8
