from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from bundles import SMALL, bundles
from hypothesis import given
from hypothesis import strategies as st

from lorakit.bundle.models import Bundle
from lorakit.bundle.problems import BundleError, Problem
from lorakit.bundle.read import build, parse, read
from lorakit.bundle.write import dump

DATA = Path(__file__).parent.parent / "data" / "bundles"


def problems(text: str, *overrides: str) -> list[Problem]:
    with pytest.raises(BundleError) as caught:
        parse(text, overrides)
    return caught.value.problems


def problem(text: str, *overrides: str) -> Problem:
    found = problems(text, *overrides)
    assert len(found) == 1, found
    return found[0]


def with_train(line: str) -> str:
    return f"{SMALL}\n[train]\n{line}\n"


def test_what_is_not_said_takes_its_default() -> None:
    bundle = parse(SMALL)
    assert bundle.train.steps == 1500
    assert bundle.base.model == "pico"
    assert bundle.dataset.sources[0].repeats == 1


def values(data: Any, key: str = "") -> dict[str, Any]:
    """Every value of a text by its place."""
    if not isinstance(data, dict | list):
        return {key: data}
    found: dict[str, Any] = {}
    for name, inner in data.items() if isinstance(data, dict) else enumerate(data):
        found |= values(inner, f"{key}.{name}")
    return found


@pytest.mark.parametrize("file", sorted(DATA.glob("schema-*.toml")), ids=lambda f: f.name)
def test_every_released_schema_is_still_read(file: Path) -> None:
    assert parse(dump(read(file))) == read(file)


def test_every_value_of_schema_1_survives() -> None:
    """No key is left out of the file, and none of its settings stands at its default."""
    file = DATA / "schema-1.toml"
    given = values(tomllib.loads(file.read_text(encoding="utf-8")))
    assert values(tomllib.loads(dump(read(file)))) == given
    plain = values(tomllib.loads(dump(parse(SMALL))))
    same = {key for key, value in plain.items() if given[key] == value}
    assert same == {".schema", ".name", ".adapter.kind"}


def test_a_damaged_lock_is_one_problem() -> None:
    text = (DATA / "schema-1.toml").read_text(encoding="utf-8")
    broken = text.replace("threads = 8", 'threads = "8"').replace('cpu = "', 'gpu = "')
    found = problem(broken)
    assert found.where.startswith("lock.")
    assert "the lock is damaged" in found.what
    assert "[lock]" in found.fix
    assert found.line is not None


def test_everything_that_is_wrong_is_said_at_once_with_its_line() -> None:
    with pytest.raises(BundleError) as caught:
        read(DATA / "everything-wrong.toml")
    said = [(p.line, p.where) for p in caught.value.problems]
    assert said == [
        (None, "schema"),
        (1, "name"),
        (2, "learning_rate"),
        (3, "Train"),
        (6, "train.steps"),
        (7, "train.batch_size"),
        (8, "train.learning_rat"),
        (9, "train.learning_rate"),
        (10, "train.lr"),
        (11, "train.precision"),
        (12, "train.clip_norm"),
        (13, "train.seed"),
        (15, "train.optimizer_options.eps"),
        (17, "dataset.sources[0].path"),
        (18, "dataset.sources[0].repeats"),
        (19, "dataset.sources[1].path"),
        (20, "dataset.sources[1].repeats"),
        (22, "dataset.resolution"),
        (23, "dataset.buckets"),
        (25, "sample.prompts"),
        (26, "sample.negative"),
        (27, "zzz"),
    ]
    assert caught.value.path.endswith("everything-wrong.toml")
    for p in caught.value.problems:
        assert p.fix
        assert "pydantic" not in p.what + p.fix
        assert "Input should" not in p.what


@pytest.mark.parametrize(
    ("line", "what", "fix"),
    [
        ('learning_rate = "1e-4"', 'is "1e-4", a text; it takes a number, above 0, at most 10',
         "Remove the quotes: write 1e-4."),
        ("learning_rate = nan", "is nan; allowed: above 0, at most 10.", "The default is 1e-4."),
        ("learning_rate = -inf", "is -inf; allowed", "default"),
        ("learning_rate = -1e-4", "is -1e-4; allowed: above 0, at most 10", "default"),
        ("learning_rate = true", "is true; it takes a number", "Write learning_rate = 1e-4."),
        (f"learning_rate = 1{'0' * 400}", "is 1000000000", "default"),
        ("steps = 1e3", "is 1000.0; it takes a whole number, 1 to 10,000,000", "Write 1000."),
        ("steps = 10.5", "is 10.5; it takes a whole number", "Write 10 or 11."),
        ("steps = 0", "is 0; allowed: 1 to 10,000,000", "The default is 1500."),
        ('steps = "100"', 'is "100", a text', "Remove the quotes: write 100."),
        ('steps = "many"', 'is "many", a text', "Write steps = 1500."),
        ("steps = 1979-05-27", "is 1979-05-27; it takes a whole number", "Write steps = 1500."),
        ("steps = [1]", "is [1]; it takes a whole number", "Write steps = 1500."),
        ("steps.x = 1", "is a table; it takes a whole number", "Write steps = 1500."),
        ('optimizer = "adam"', 'is "adam"; allowed: adamw, adafactor.', 'optimizer = "adamw"?'),
        ('optimizer = "lion"', 'is "lion"; allowed: adamw, adafactor.', "Write one of these."),
        ("precision = 16", "is 16; it takes one of fp32, fp16, bf16", 'precision = "bf16"'),
        ("optimizer_options = 3", "is 3; it takes a table", "Write [train.optimizer_options]"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_shown_with_what_is_allowed(line: str, what: str, fix: str) -> None:
    found = problem(with_train(line))
    assert found.where.startswith("train.")
    assert f"{found.where} {what}" in found.what
    assert fix in found.fix
    assert found.line == 8


@pytest.mark.parametrize(
    ("table", "what", "fix"),
    [
        ("[dataset]\nbuckets = 1", "buckets is 1; it takes true or false", "Write true."),
        ('[dataset]\nbuckets = "no"', 'is "no", a text', "Remove the quotes: write false."),
        ("[dataset]\nresolution = 8", "is 8; allowed: 32 to 4096, a multiple of 8", "default"),
        ("[dataset]\nresolution = 70", "is 70", "Write 64 or 72."),
        ("[sample]\nprompts = [1]", "sample.prompts[0] is 1; it takes a text", '"1"'),
        ('[sample]\nprompts = "a"', "takes a list of texts", 'in brackets: prompts = ["a"].'),
        ('[base]\nmodel = ""', "base.model is empty", 'Write model = "pico".'),
        ('[base]\nmodel = "C:\\tmp"', 'the character "\\t"', "single quotes"),
        ('[base]\nmodel = "a\\u009b"', 'the character "\\u009b"', "single quotes"),
    ],
)
def test_other_wrong_values(table: str, what: str, fix: str) -> None:
    found = problem(f"{SMALL}\n{table}\n")
    assert what in found.what
    assert fix in found.fix
    assert found.line == 8


@pytest.mark.parametrize(
    ("given", "what", "fix"),
    [
        ('"5"', 'is "5", a text; it takes none, full, or 1 to 999.', "Remove the quotes: write 5."),
        ("0", "is 0; allowed: none, full, or 1 to 999.", 'The default is "none".'),
        ("1000", "is 1000; allowed: none, full, or 1 to 999.", 'The default is "none".'),
        ("5.0", "is 5.0; it takes none, full, or 1 to 999.", "Write 5."),
        ("true", "is true; it takes none, full, or 1 to 999.", 'Write checkpointing = "full".'),
        ("false", "is false; it takes", 'Write checkpointing = "none".'),
        ('"ful"', 'is "ful"; allowed: none, full', 'Did you mean checkpointing = "full"?'),
        ('"some"', 'is "some"; allowed: none, full, or 1 to 999.', "Write one of these."),
        ("[5]", "is [5]; it takes none, full, or 1 to 999.", 'Write checkpointing = "none".'),
        ("{ blocks = 5 }", "is a table; it takes none, full", 'Write checkpointing = "none".'),
    ],
)
def test_a_number_or_one_of_two_words(given: str, what: str, fix: str) -> None:
    """One problem, although two types would do."""
    found = problem(f"{SMALL}\n[memory]\ncheckpointing = {given}\n")
    assert found.what.startswith(f"memory.checkpointing {what}")
    assert (found.where, found.fix, found.line) == ("memory.checkpointing", fix, 8)


def test_a_whole_number_does_where_any_number_does() -> None:
    learning_rate = parse(with_train("learning_rate = 1")).train.learning_rate
    assert type(learning_rate) is float


@pytest.mark.parametrize(
    ("line", "where", "fix"),
    [
        ("learning_rat = 1e-4", "train.learning_rat", "Did you mean train.learning_rate?"),
        ("learning-rate = 1e-4", "train.learning-rate", "Did you mean train.learning_rate?"),
        ("Steps = 3", "train.Steps", "Did you mean train.steps?"),
        ("lr = 1e-4", "train.lr", "Did you mean train.learning_rate?"),
        ("network_dim = 4", "train.network_dim", "Did you mean adapter.rank?"),
        ("rank = 4", "train.rank", "Write it as adapter.rank."),
        ("every = 4", "train.every", "Write it as sample.every or save.every."),
        ("trigger = 4", "train.trigger", "Write it as dataset.sources[0].trigger."),
        ('name = "x"', "train.name", "Write it as name."),
        ("prompt = 4", "train.prompt", "Did you mean sample.prompts?"),
        ("xyzzy = 4", "train.xyzzy", "[train] takes steps, batch_size,"),
        ('"a\\u001b" = 4', 'train."a\\u001b"', "[train] takes"),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_meant(line: str, where: str, fix: str) -> None:
    found = problem(with_train(line))
    assert found.where == where
    assert fix in found.fix
    assert found.line == 8


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        (SMALL + "[Train]\nsteps = 3", "Train", "Did you mean [train]?"),
        (SMALL + "[trian]\nsteps = 3", "trian", "Did you mean [train]?"),
        (SMALL + "[optimizer_options]\n", "optimizer_options", "[train.optimizer_options]?"),
        (SMALL.replace("dataset", "Dataset"), "Dataset", "Did you mean [dataset]?"),
        (SMALL.replace(".sources", ".source"), "dataset.source", "[[dataset.sources]]?"),
        (
            SMALL.replace("path", "folder"),
            "dataset.sources[0].folder",
            "[[dataset.sources]] takes path",
        ),
        (SMALL.replace("name", "Name"), "Name", "Did you mean name?"),
    ],
)
def test_an_unknown_table_is_refused_with_the_one_meant(text: str, where: str, fix: str) -> None:
    found = problems(text)
    assert found[0].where == where or found[-1].where == where
    assert any(fix in p.fix for p in found)


def test_a_key_under_a_wrong_name_is_not_missing_too() -> None:
    assert len(problems(SMALL.replace("name", "Name"))) == 1
    assert len(problems(SMALL.replace("dataset.", "Dataset."))) == 1


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("schema = 1\nname = 'x'", "dataset", "The table [dataset] is missing."),
        ("schema = 1\nname = 'x'\n[dataset]", "dataset.sources", "dataset.sources is missing."),
        ("schema = 1\nname = 'x'\n[dataset]\nsources = []", "dataset.sources", "is empty"),
        ("schema = 1\nname = 'x'\n[dataset]\nsources = ['a']", "dataset.sources[0]", "a table"),
        ("schema = 1\nname = 'x'\n[dataset.sources]\npath = 'a'", "dataset.sources", "[[header]]"),
        ("schema = 1\nname = 'x'\ndataset = 'a'", "dataset", "it takes a table"),
        (SMALL.replace("path = ", "repeats = 1 #"), "dataset.sources[0].path", "is missing"),
    ],
)
def test_pictures_that_are_not_named(text: str, where: str, what: str) -> None:
    found = problem(text)
    assert found.where == where
    assert what in found.what
    assert found.fix == 'Write [[dataset.sources]] and below it path = "photos".'


@pytest.mark.parametrize(
    ("schema", "what", "fix"),
    [
        ("schema = 2", "Made by a newer lorakit: schema 2, this one knows 1.", "Update lorakit."),
        ("schema = 0", "schema is 0, and the first one is 1.", "Write schema = 1."),
        ('schema = "1"', 'schema is "1"; it takes a whole number.', "Write schema = 1."),
        ("schema = 1.0", "schema is 1.0", "Write schema = 1."),
        ("", "The file does not say its schema.", "Put schema = 1 in its first line."),
    ],
)
def test_the_schema_is_needed_and_known(schema: str, what: str, fix: str) -> None:
    found = problem(SMALL.replace("schema = 1", schema))
    assert what in found.what
    assert found.fix == fix
    assert found.line == (1 if schema else None)


def test_a_newer_schema_is_the_only_thing_said() -> None:
    assert problem("schema = 2\nnew_key = 1").where == "schema"


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        (r'path = "C:\Users\me"', "put a Windows path in single quotes"),
        (r'path = "\\nas\x"', "put a Windows path in single quotes"),
        ("lr = .0001", "Write 1e-4."),
        ("lr = 1.", "Write 1.0."),
        ("lr = 1.e-4 # why", "Write 1e-4."),
        ("lr = 0,5", "Write 0.5, with a point."),
        ("b = True", "Write true."),
        ("b = False", "Write false."),
        ("b = None", "TOML has no such value"),
        ("steps = 0010", "Write 10."),
        ("precision = bf16", 'Text needs quotes: precision = "bf16".'),
        ("precision = “bf16”", "Use straight quotes"),
        ('precision = "bf16', "A quote is missing at the end."),
        ("steps: 3", "TOML puts = between"),
        ("steps =", "Write a value behind the =."),
        ("// why", "A comment starts with #."),
        ("seed = 1\nseed = 2", "stands in the file twice"),
        ("a = [1,", ""),
    ],
)
def test_broken_toml_names_its_line_and_the_way_out(line: str, fix: str) -> None:
    found = problem(f"schema = 1\n[train]\n{line}")
    assert found.line == 3 + line.count("\n")
    assert found.what.startswith(f"Line {found.line}")
    assert fix in found.fix


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert read(file) == parse(SMALL) == parse("\ufeff" + SMALL)


@pytest.mark.parametrize(
    ("data", "what", "line"),
    [
        (SMALL.encode("utf-16"), "UTF-16", None),
        (b"\xfe\xff" + SMALL.encode("utf-16-be"), "UTF-16", None),
        (SMALL.encode("utf-16-le"), "UTF-16", None),
        (SMALL.encode("utf-16-be"), "UTF-16", None),
        (SMALL.replace("\n", "\r").encode(), "lone carriage return", 1),
        (SMALL.encode() + b"#\r\r\n", "lone carriage return", 6),
        (SMALL.encode() + b"# caf\xe9", "not UTF-8: line 6 holds the byte 0xe9", 6),
        (b"", "The file is empty.", None),
        (b" \n\t", "The file is empty.", None),
        (b"a = " + b"[" * 9000, "nested too deep", None),
        (b"a = " + b"1" * 9000, "thousands of digits", None),
    ],
)
def test_files_that_are_no_toml_are_named_as_what_they_are(
    data: bytes, what: str, line: int | None, tmp_path: Path
) -> None:
    file = tmp_path / "b.toml"
    file.write_bytes(data)
    with pytest.raises(BundleError, match=what) as caught:
        read(file)
    assert [p.line for p in caught.value.problems] == [line]
    assert caught.value.path == str(file)


def test_a_missing_file_a_folder_and_a_huge_file(tmp_path: Path) -> None:
    (tmp_path / "my-dog.toml").write_text(SMALL)
    with pytest.raises(BundleError, match=r"my-dgo\.toml does not exist\.") as caught:
        read(tmp_path / "my-dgo.toml")
    assert caught.value.hint == f"Did you mean {tmp_path / 'my-dog.toml'}?"
    with pytest.raises(BundleError, match="is a folder"):
        read(tmp_path)
    (tmp_path / "bundle.toml").write_text(SMALL)
    with pytest.raises(BundleError) as caught:
        read(tmp_path)
    assert str(tmp_path / "bundle.toml") in caught.value.hint
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(64 * 2**20)
    with pytest.raises(BundleError, match="has 64 MiB"):
        read(tmp_path / "model.safetensors")


def test_overrides_replace_values_before_anything_is_checked() -> None:
    bundle = parse(
        SMALL + "[train]\nsteps = 'x'\n",
        [
            "train.steps=300",
            "name = other",
            "dataset.sources[0].repeats=2",
            'sample.prompts=["a = b"]',
            "train.learning_rate=1e-5",
            "dataset.buckets=false",
            "train.optimizer_options.eps=1e-6",
            "sample.negative=1\nseed = 2",
            "memory.checkpointing=12",
        ],
    )
    assert bundle.train.steps == 300
    assert bundle.name == "other"
    assert bundle.dataset.sources[0].repeats == 2
    assert bundle.sample.prompts == ("a = b",)
    assert bundle.dataset.buckets is False
    assert bundle.train.optimizer_options.eps == 1e-6
    assert bundle.sample.negative == "1\nseed = 2"
    assert bundle.memory.checkpointing == 12
    assert parse(SMALL, ["memory.checkpointing=full"]).memory.checkpointing == "full"


@pytest.mark.parametrize(
    ("override", "where", "what", "fix"),
    [
        ("train.step=1", "train.step", "no key", "Did you mean train.steps?"),
        ("learning_rate=1", "learning_rate", "wrong table", "Write it as train.learning_rate."),
        ("train.learning_rate=.0001", "train.learning_rate", '".0001", a text', "Write 1e-4."),
        ("dataset.buckets=True", "dataset.buckets", "a text", "Write true."),
        ('train.steps="9"', "train.steps", "a text", "Remove the quotes: write 9."),
        ('memory.checkpointing="9"', "memory.checkpointing", "a text", "quotes: write 9."),
        ("train.steps=0", "train.steps", "allowed: 1 to", "The default is 1500."),
        ("train.steps", "train.steps", "names no value", "--set train.steps=300"),
        ("=3", "", "names no key", "--set train.steps=300"),
        ("train..steps=3", "train..steps", "names no key", "--set train.steps=300"),
        ("dataset.sources[1].path=x", "dataset.sources[1].path", "has 1 entry", ""),
        ("dataset.sources.path=x", "dataset.sources.path", "write dataset.sources[0].path", ""),
        ("name.x=3", "name.x", "name is no table", ""),
        ("name[0]=3", "name[0]", "name is no list", ""),
        ("lock.x=3", "lock.x", "changes the lock", "Leave it out."),
        ("schema=2", "schema", "newer lorakit", "Update"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_a_problem_without_a_line(
    override: str, where: str, what: str, fix: str
) -> None:
    found = problem(SMALL + "[train]\nsteps = 5\n", override)
    assert found.where == where
    assert what in found.what
    assert fix in found.fix
    assert found.line is None


def test_plain_tables_are_left_as_they_were() -> None:
    data = {"schema": 1, "name": "x", "dataset": {"sources": [{"path": "p"}]}}
    assert build(data, ["train.steps=3", "dataset.sources[0].path=q"]).train.steps == 3
    assert data == {"schema": 1, "name": "x", "dataset": {"sources": [{"path": "p"}]}}


@given(bundles, st.data())
def test_any_damage_to_a_bundle_is_explained_and_never_a_crash(
    bundle: Bundle, data: st.DataObject
) -> None:
    text = dump(bundle)
    at = data.draw(st.integers(0, len(text)))
    junk = data.draw(
        st.sampled_from(['"', "=", "\n[", "]]", "x", "1", "\\", "\x00", "\r", "é", ""])
    )
    cut = data.draw(st.integers(0, 4))
    try:
        parse(text[:at] + junk + text[at + cut :])
    except BundleError as error:
        for p in error.problems:
            assert p.what
            assert not re.search(r"Input should|pydantic|https?://errors", p.what)
