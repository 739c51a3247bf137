"""Files of benchmarks: what is written reads back, what is none is refused in a sentence."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.errors import LorakitError
from lorakit.runs.bench_file import Case, differences, read, write

DATA = Path(__file__).parents[1] / "data" / "bench"


@pytest.mark.parametrize("file", sorted(DATA.glob("*.toml")), ids=lambda f: f.stem)
def test_a_file_reads_and_writes_back_the_same(file: Path, tmp_path: Path) -> None:
    found = read(file)
    write(found, tmp_path / "again.toml")
    assert read(tmp_path / "again.toml") == found
    assert (tmp_path / "again.toml").read_text().startswith("# What lorakit bench measured.")


seconds = st.floats(1e-6, 1e6)
cases = st.builds(
    Case,
    rank=st.integers(1, 1024),
    attention=st.sampled_from(["sdpa", "xformers"]),
    step_seconds=st.none() | seconds,
    level=st.none() | st.booleans(),
    peak_gib=st.none() | st.floats(0, 200),
    predicted_step_seconds=st.just(()) | st.tuples(seconds, seconds),
    failure=st.text(max_size=40),
)


@given(case=cases)
def test_any_case_reads_back(case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("bench") / "b.toml"
    write(read(DATA / "laptop.toml").with_case(case), file)
    back = read(file).case(case.key)
    assert back is not None
    assert back.failure == case.failure
    assert back.level == case.level
    for name in ("peak_gib", "rate", "predicted_rate"):
        then, now = getattr(case, name), getattr(back, name)
        assert now is None if then is None else now == pytest.approx(then, rel=1e-4)


def test_a_case_takes_the_place_of_the_same_one_before() -> None:
    bench = read(DATA / "laptop.toml")
    more = bench.with_case(Case(rank=4, attention="sdpa", step_seconds=0.5))
    assert [c.rank for c in more.cases] == [1, 4, 16]
    again = more.with_case(Case(rank=16, attention="sdpa", failure="gone"))
    assert [c.rank for c in again.cases] == [1, 4, 16]
    assert again.cases[2].rate is None


def changed(old: str, new: str) -> bytes:
    text = (DATA / "laptop.toml").read_text()
    assert old in text
    return text.replace(old, new, 1).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not say kind"),
        (b"schema = 1\n[machine]\ndevice = 1\n", "does not say kind"),
        (b"\x89PNG\r\n\x1a\n\x00", "it is no TOML file"),
        (b"[[cases]\n", "it is no TOML file"),
        (changed("schema = 1", "schema = 2"), "has schema 2, and this lorakit reads 1"),
        (changed("schema = 1\n", ""), "has schema None"),
        (changed('device = "CPU, 8 threads"\n', ""), "wrong machine.device: field required"),
        (changed("rank = 1\n", 'rank = "1"\n'), "wrong cases.0.rank: input should be a valid int"),
        (changed("threads = 8\n", "threads = 8\ncolour = 1\n"), "wrong machine.colour: extra"),
        (changed("step_seconds = 0.025", "step_seconds = nan"), "wrong cases.0.step_seconds"),
        (changed("step_seconds = 0.025", "step_seconds = 0.0"), "wrong cases.0.step_seconds"),
        (changed("rank = 1\n", "rank = -5\n"), "wrong cases.0.rank"),
        (changed("peak_gib = ", "peak_gib = -"), "wrong cases.0.peak_gib"),
        (changed('attention = "sdpa"', f'attention = "{"x" * 99}"'), "wrong cases.0.attention"),
        (b"a = " + b"[" * 500 + b"]" * 500, "its TOML is nested too deep"),
    ],
)
def test_what_is_no_benchmark_is_refused_in_a_sentence(
    content: bytes, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "b.toml"
    file.write_bytes(content)
    with pytest.raises(LorakitError) as caught:
        read(file)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_file_that_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(LorakitError, match="No such file"):
        read(tmp_path / "none.toml")
    with pytest.raises(LorakitError, match="Is a directory"):
        read(tmp_path)
    with pytest.raises(LorakitError, match="cannot be written: No such file"):
        write(read(DATA / "laptop.toml"), tmp_path / "none" / "b.toml")


def test_what_differs_is_told_with_units_and_once() -> None:
    one, other = read(DATA / "rtx-4090.toml"), read(DATA / "rtx-4070-ti-s.toml")
    assert [tuple(line) for line in differences(one, other)] == [
        ("device", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4070 Ti SUPER"),
        ("memory GiB", "23.99", "15.99"),
        ("torch", "2.11.0+cu128", "2.11.0+cu130"),
    ]
    assert list(differences(one, one)) == []
    laptop = {line.name for line in differences(one, read(DATA / "laptop.toml"))}
    assert {"base", "resolution", "precision", "power limit W", "memory is"} <= laptop


def test_a_file_holds_nothing_personal(tmp_path: Path) -> None:
    write(read(DATA / "rtx-4090.toml"), tmp_path / "b.toml")
    raw = tomllib.loads((tmp_path / "b.toml").read_text())
    assert set(raw) == {
        "schema", "kind", "date", "time", "memory", "machine", "settings", "cases"
    }  # fmt: skip
    assert set(raw["machine"]) <= set(type(read(DATA / "laptop.toml").machine).model_fields)
    assert not {"uuid", "host", "user", "path", "pci"} & set(raw["machine"])
