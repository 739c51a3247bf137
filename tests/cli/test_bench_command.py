"""`lorakit bench`: its table, its picture, its file, and two files side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from lorakit.cli import bench as command
from lorakit.cli.bench_picture import draw
from lorakit.cli.bench_table import show
from lorakit.errors import LorakitError
from lorakit.runs import meter
from lorakit.runs.bench_file import Bench, read

DATA = Path(__file__).parents[1] / "data" / "bench"


def bench(*words: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lorakit", "bench", *map(str, words)],
        cwd=cwd, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
        encoding="utf-8", timeout=280, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_pico_is_really_measured_and_gone_on_with(tmp_path: Path) -> None:
    ran = bench("--ranks", "1,32", "--out", "pico.toml", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert ran.returncode == 0, ran.stderr
    found = read(tmp_path / "pico.toml")
    assert [c.key for c in found.cases] == [(1, "sdpa"), (32, "sdpa")]
    one, other = found.cases
    assert one.rate
    assert other.rate
    assert 0 < (one.peak_gib or 0) < (other.peak_gib or 0) < 0.1
    assert one.predicted_peak_gib == pytest.approx(one.peak_gib, rel=0.05)  # not the program
    assert found.settings.base == "pico"
    lines = ran.stdout.splitlines()
    assert lines[0] == "pico, 64 x 64, batch 1, fp32, linear layers, adafactor"
    assert lines[1].startswith("CPU, 1 thread, torch ")
    assert sum(line.split()[:2] in (["1", "sdpa"], ["32", "sdpa"]) for line in lines) == 2
    assert "written to pico.png" in ran.stderr
    assert Image.open(tmp_path / "pico.png").size == (1350, 630)
    assert str(tmp_path) not in (tmp_path / "pico.toml").read_text()

    again = bench(
        "--ranks", "1,4", "--resume", "--out", "pico.toml", cwd=tmp_path, CUDA_VISIBLE_DEVICES=""
    )
    assert again.returncode == 0, again.stderr
    assert [c.rank for c in read(tmp_path / "pico.toml").cases] == [1, 4, 32]
    assert read(tmp_path / "pico.toml").cases[0] == one


def measuring(**options: str | Path) -> int:
    none = dict.fromkeys(("base", "ranks", "attention", "out"))
    switches = dict.fromkeys(("synthetic", "full", "resume"), False)
    return command.bench(**{**none, **switches, **options})  # type: ignore[arg-type]


def test_ctrl_c_shows_what_is_done_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Path(__file__).parents[1] / "meter_stand_in.py"  # presses it at rank 104
    monkeypatch.setattr(meter, "METER", (sys.executable, str(script)))
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert measuring(ranks="1,104,110", attention="sdpa", out=Path("a b.toml")) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    told = capsys.readouterr()
    assert ["1", "sdpa", "2.00"] in [line.split()[:3] for line in told.out.splitlines()]
    assert "written to a b.toml\nwritten to a b.png\n2 more cases to go." in told.err
    assert "  lorakit bench --resume --out 'a b.toml' ...\n" in told.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ranks": "1,x"}, "x is no rank: whole numbers from 1 to 1024."),
        ({"ranks": "0"}, "0 is no rank"),
        ({"ranks": "1,,2"}, "An empty text is no rank"),
        ({"ranks": "2000"}, "2000 is no rank"),
        ({"ranks": "²"}, "² is no rank"),
        ({"attention": "flash"}, "flash is no attention kernel: sdpa, xformers."),
        ({"out": Path("b.json")}, "b.json is no name for a TOML file."),
    ],
)
def test_bad_options_are_a_sentence(options: dict, said: str) -> None:
    with pytest.raises(LorakitError) as caught:
        measuring(**options)
    assert caught.value.message.startswith(said)
    assert caught.value.hint


def test_what_cannot_be_compared_is_told_once_and_by_name(tmp_path: Path) -> None:
    ran = bench("compare", DATA / "laptop.toml", __file__, cwd=tmp_path)
    assert ran.returncode == 2
    assert "test_bench_command.py holds no benchmark: it is no TOML file" in ran.stderr
    assert ran.stdout == ""


def test_two_cards_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.compare(DATA / "rtx-4090.toml", DATA / "rtx-4070-ti-s.toml") == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert ["A", "rtx-4090.toml"] in rows
    assert ["torch", "2.11.0+cu128", "2.11.0+cu130"] in rows
    assert ["memory", "GiB", "23.99", "15.99"] in rows
    assert ["driver"] not in [row[:1] for row in rows]
    assert ["16", "sdpa", "1.97", "0.58", "0.29", "11.39", "6.26", "0.55"] in rows
    assert ["128", "xformers", *["--"] * 6] in rows
    assert "B does 0.29 times the steps of A a second, in the median." in out
    assert "not the same work" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_other_work_is_told_from_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    command.compare(DATA / "laptop.toml", DATA / "rtx-4090.toml")
    told = "But a step is not the same work in both: they differ in family, resolution, precision."
    assert told in capsys.readouterr().out
    command.compare(DATA / "laptop.toml", DATA / "laptop.toml")
    out = capsys.readouterr().out
    assert "same machine, versions and settings" in out
    assert told not in out


@pytest.mark.parametrize("file", ["laptop", "rtx-4090", "rtx-4070-ti-s"])
def test_a_table_fits_80_columns_and_ascii(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(read(DATA / f"{file}.toml"))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    if file == "laptop":
        assert ["1", "sdpa", "40.00", "33.33", "25.0", "11.0", "11.0"] in map(str.split, lines)
        assert ["16", "sdpa", "~33.33", "--", "30.0", "12.5", "--"] in map(str.split, lines)
        assert "~  the speed was not level yet" in text
        assert "MiB" in text
        assert "reserved" not in text.replace("allocated, and reserved", "")
    missing = "rank 128, xformers: NotImplementedError: No operator found"
    assert (missing in text) == (file == "rtx-4090")
    assert ("+  with checkpointing" in text) == (file == "rtx-4070-ti-s")


def test_a_terminal_without_box_characters_gets_ascii(tmp_path: Path) -> None:
    ran = bench("compare", DATA / "laptop.toml", DATA / "rtx-4090.toml", cwd=tmp_path,
                PYTHONIOENCODING="ascii", LC_ALL="C")  # fmt: skip
    assert ran.returncode == 0
    assert ran.stdout.isascii()
    assert "?" not in ran.stdout


def test_text_from_a_file_steers_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DATA / "laptop.toml").read_text()
    evil = text.replace('device = "CPU, 8 threads"', r'device = "\u001b[31mred[/] [bold]x"', 1)
    (tmp_path / "evil.toml").write_text(evil)
    command.compare(tmp_path / "evil.toml", DATA / "laptop.toml")
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert r"\x1b[31mred[/] [bold]x" in out


def colours(path: Path) -> set[tuple[int, int, int]]:
    picture = Image.open(path).convert("RGB")
    return {colour for _, colour in picture.getcolors(maxcolors=2**24) or []}


BLUE, ORANGE, WHITE = (0x0B, 0x6E, 0x99), (0xC2, 0x5A, 0x00), (255, 255, 255)


def test_the_picture_has_a_line_for_each_kernel(tmp_path: Path) -> None:
    draw(read(DATA / "rtx-4090.toml"), tmp_path / "both.png")
    draw(read(DATA / "laptop.toml"), tmp_path / "one.png")
    assert {BLUE, ORANGE, WHITE} <= colours(tmp_path / "both.png")
    assert BLUE in colours(tmp_path / "one.png")
    assert ORANGE not in colours(tmp_path / "one.png")


def test_what_was_predicted_is_in_the_picture_too(tmp_path: Path) -> None:
    def blue(found: Bench) -> int:
        draw(found, tmp_path / "b.png")
        picture = Image.open(tmp_path / "b.png").convert("RGB")
        return {c: n for n, c in picture.getcolors(maxcolors=2**24) or []}[BLUE]

    found = read(DATA / "rtx-4090.toml")
    nothing = {"predicted_peak_gib": None, "predicted_step_seconds": ()}
    bare = found.model_copy(
        update={"cases": tuple(c.model_copy(update=nothing) for c in found.cases)}
    )
    assert blue(found) > 1.1 * blue(bare) > 0


def test_odd_names_and_missing_numbers_do_not_stop_the_picture(tmp_path: Path) -> None:
    found = read(DATA / "laptop.toml")
    machine = found.machine.model_copy(update={"device": "a $card_{2}$ \\frac \x1b[1m"})
    empty = found.model_copy(update={"machine": machine, "cases": found.cases[:1]})
    draw(empty, tmp_path / "odd.png")
    assert Image.open(tmp_path / "odd.png").size == (1350, 630)
