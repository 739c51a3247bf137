"""`lorakit dataset`: what a person is told of a folder of pictures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from rich.cells import cell_len
from terminal import Terminal

from lorakit.bundle.models import Dataset
from lorakit.cli import progress as telling
from lorakit.cli.progress import Progress
from lorakit.dataset.layout import layout
from lorakit.dataset.scan import scan
from lorakit.families.base_model import usual

Command = Callable[..., "subprocess.CompletedProcess[str]"]

ROOT = Path(__file__).resolve().parents[2]
ROBOTS = ROOT / "examples" / "robots" / "train"


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "40_ohwx man").mkdir(parents=True)
    Image.new("RGB", (640, 480), "red").save(folder / "40_ohwx man" / "a.png")
    Image.new("RGB", (20, 10), "blue").save(folder / "evil\x1b[31m\nname.png")
    (folder / "b.jpg").write_text("<html>")
    (folder / "notes\x1b.md").write_text("x")
    (folder / ".DS_Store").write_bytes(b"x")
    return folder


def test_a_good_folder(lorakit: Command) -> None:
    done = lorakit("dataset", ROBOTS, "--resolution", "64")
    assert done.returncode == 0
    assert done.stderr == "24 files in 1 folder: 12 .png, 12 captions\n"
    for line in (
        "12 pictures can be used, 0 cannot.",
        "Judged for any sd1 at 64 x 64 pixels.",
        "FILES                         24",
        "  pictures used               12",
        "  12 of 12 pictures have one, 100 %",
        "  longest 7 of 75 tokens that are read; 0 beyond the limit",
        "No problems.",
    ):
        assert line in done.stdout.splitlines(), line
    assert "64 x 64        12     12  100%   100%  1.00x  1.00x  ████" in done.stdout


def test_a_faulty_folder_ends_with_the_code_of_data(lorakit: Command, faulty: Path) -> None:
    done = lorakit("dataset", faulty)
    assert done.returncode == 5
    assert "2 pictures can be used, 1 cannot." in done.stdout
    assert "FILES                          5" in done.stdout
    assert "error: b.jpg is an HTML page, not a picture.\n  Remove it" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["1", "1", "1", "--"] in [row[1:] for row in rows if row and "photos" in row[0]]
    assert ["in", "all", "2", "41"] in rows
    [man] = [row for row in rows if row[-2:] == ["ohwx", "man"]]
    assert man[-5:-2] == ["1", "40", "40"]
    assert "\x1b" not in done.stdout + done.stderr
    assert r"evil\x1b[31m\x0aname.png" in done.stdout


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_table_is_as_wide_as_the_terminal_at_most(
    faulty: Path, columns: int, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    from lorakit.cli.dataset import _look
    from lorakit.cli.dataset_table import drawn

    monkeypatch.setenv("COLUMNS", str(columns))
    (faulty / "deep" / ("x" * 150)).mkdir(parents=True)
    for n in range(30):
        inside = faulty / "deep" / ("x" * 150) / f"{n + 1}_{'subject ' * 9}{n}"
        inside.mkdir()
        Image.new("RGB", (64 + 20 * n, 128), (8 * n, 0, 0)).save(inside / "p.png")
        (inside / "p.txt").write_text("tag, " * 9 + "犬" * 200 + ", 小さな犬")
    looked = _look(
        Dataset(sources=layout(faulty), resolution=256), Path.cwd(), usual("sd1"), Progress("")
    )
    lines = list(drawn(looked, io.TextIOWrapper(io.BytesIO(), encoding=encoding)))
    table = lines[: next(n for n, line in enumerate(lines) if line.startswith("PROBLEMS"))]
    assert max(map(cell_len, table)) == columns - 1
    assert ("█" in "\n".join(table)) == (encoding == "utf-8")
    heads = {line.split()[0] for line in table if line and line[0].isupper()}
    assert {"FILES", "SOURCE", "CAPTIONS", "BUCKET", "KEPT:"} <= heads


def test_json_is_pure_and_whole(lorakit: Command, faulty: Path) -> None:
    done = lorakit("dataset", faulty, "--json", "--family", "sdxl")
    assert done.returncode == 5
    said = json.loads(done.stdout)
    assert said["account"] == {
        "pictures used": 2, "files of captions read": 0, "masks read": 0, "not usable": 1,
        "other files": 1, "system files": 1,
    }  # fmt: skip
    assert said["files"] == 5
    assert said["resolution"] == 1024
    assert said["base"] == "sdxl"
    assert [(s["repeats"], s["trigger"]) for s in said["sources"]] == [(1, ""), (40, "ohwx man")]
    assert sum(b["pictures"] for b in said["buckets"]) == 2
    assert said["frequencies"]["captions"] == 0


def test_a_bundle_gives_its_folders_base_and_resolution(lorakit: Command, bundle: Path) -> None:
    done = lorakit("dataset", "--bundle", bundle, "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0
    assert (said["base"], said["resolution"], said["epoch"]) == ("base", 64, 3)
    # Its tokenizer knows letters only.
    assert [p["tokens"] for p in said["pictures"]] == [4, 4, 4]
    other = lorakit("dataset", "--bundle", bundle, "--json", "--resolution", "128")
    assert json.loads(other.stdout)["resolution"] == 128


def test_a_base_gives_its_sizes_and_tokens(lorakit: Command, bundle: Path) -> None:
    folder = bundle.parent / "my [dog] pictures"
    said = json.loads(lorakit("dataset", folder, "--base", bundle.parent / "base", "--json").stdout)
    assert said["pictures"][0]["tokens"] == 4
    assert said["resolution"] == 64


def test_pictures_are_looked_at_though_the_base_of_a_bundle_is_not_there(
    lorakit: Command, bundle: Path
) -> None:
    bundle.write_text(bundle.read_text().replace('model = "base"', 'model = "./gone"'))
    done = lorakit("dataset", "--bundle", bundle)
    assert "3 pictures can be used" in done.stdout
    assert "gone" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "Folders are wanted, or a bundle."),
        (("a", "--bundle", "b.toml"), 2, "not both"),
        (("--bundle", "none.toml"), 2, "none.toml"),
        ((".", "--resolution", "100"), 2, "96 or 104"),
        ((".", "--html", "none/page.html"), 2, "none/page.html cannot be written"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    lorakit: Command, tmp_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    done = lorakit("dataset", *words, cwd=tmp_path)
    assert done.returncode == code
    assert told in done.stderr
    assert done.stdout == ""


def test_a_folder_that_is_not_there_is_told_with_what_is(lorakit: Command, faulty: Path) -> None:
    done = lorakit("dataset", faulty.parent / "photo")
    assert done.returncode == 5
    assert "0 pictures can be used" in done.stdout
    assert "It holds photos." in done.stdout


def test_a_page_is_written_and_nothing_else(lorakit: Command, faulty: Path) -> None:
    before = sorted(faulty.rglob("*"))
    file = faulty.parent / "page.html"
    done = lorakit("dataset", faulty, "--html", file)
    assert done.returncode == 5
    assert file.read_text("utf-8").count("<article") == 2
    assert done.stderr.endswith(f"The page: {file}\n")
    assert sorted(faulty.rglob("*")) == before


def test_what_there_is_by_name_is_known_before_the_first_picture_is_read() -> None:
    told: list[str] = []
    scan(
        Dataset(sources=layout(ROBOTS), resolution=64),
        Path.cwd(),
        usual("sd1"),
        lambda done, total: told.append(f"{done} of {total}"),
        walked=lambda found: told.append(f"{found[0].files} files"),
    )
    assert told[:3] == ["24 files", "0 of 12", "1 of 12"]


def test_a_terminal_of_80_columns_shows_it_whole(
    terminal: Callable[..., Terminal], faulty: Path
) -> None:
    seen = terminal("dataset", faulty)
    assert seen.end() == 5, seen.text
    assert "PROBLEMS  " in seen.text
    assert seen.sent.count(b"\x1b") == 0
    lines = seen.sent.decode().split("\r\n")
    assert "looking for files ..." in lines[0]
    assert max(len(part) for line in lines for part in line.split("\r")) <= 80


@pytest.mark.parametrize("in_terminal", [False, True])
def test_progress_is_a_line_now_and_then(
    in_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(telling.time, "monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr.isatty", lambda: in_terminal, raising=False)
    progress = Progress("looked at")
    for done in range(1, 101):
        now[0] += 0.11
        progress(done, 100)
    progress.end()
    written = capsys.readouterr().err
    if in_terminal:
        lines = written.split("\r")[1:]
        assert len(lines) == 52  # each second call, and the line's end
        assert all(len(line) == 79 for line in lines[:-1])
        assert lines[0].rstrip() == "looked at 2 of 100 pictures, 2 %, 9/s, 11s left"
        assert lines[-2:] == [" " * 79, ""]
    else:
        assert written == (
            "looked at 46 of 100 pictures, 46 %, 9/s, 6s left\n"
            "looked at 92 of 100 pictures, 92 %, 9/s, 1s left\n"
        )
