"""Commands without a terminal: what they print where, and their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lorakit import __version__
from lorakit.cli import demo, train
from lorakit.errors import LorakitError
from lorakit.runs import launch
from lorakit.runs.directory import Run, create, runs_root

Command = Callable[..., "subprocess.CompletedProcess[str]"]
DATA = Path(__file__).parents[1] / "data" / "events"


@pytest.fixture
def past(tmp_path: Path) -> Callable[[str], Run]:
    """Makes a run from recorded events."""
    from lorakit.bundle.read import parse

    def make(name: str) -> Run:
        text = f'schema = 1\nname = "{name}"\n[[dataset.sources]]\npath = "p"\n'
        run = create(parse(text), runs_root(), tmp_path)
        run.events.write_bytes((DATA / f"{name}.jsonl").read_bytes())
        return run

    return make


def test_a_start_that_takes_long_says_where_to_look(
    past: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = past("good")
    run.events.unlink()
    stand_in = str(Path(__file__).parents[1] / "stand_in.py")
    monkeypatch.setattr(launch, "WORKER", (sys.executable, stand_in))
    monkeypatch.setattr(train, "await_started", partial(launch.await_started, seconds=0))
    assert train.start_detached(run) == 0
    said = capsys.readouterr()
    assert said.out == f"{run.path}\n"
    assert "still starting after 60 s" in said.err
    assert str(run.log) in said.err


def test_training_into_a_file_is_a_line_at_a_time(
    bundle: Path, lorakit: Command, the_run: Callable[[], Run]
) -> None:
    ended = lorakit("train", bundle, env={"STAND_IN": "train 35"})
    run = the_run()
    assert ended.returncode == 0
    assert "\x1b" not in ended.stdout + ended.stderr
    assert "\r" not in ended.stdout + ended.stderr
    lines = ended.stderr.splitlines()
    assert f"run {run.path}" in lines
    steps = [line.split()[3] for line in lines if "  training  step" in line]
    assert steps == ["0/35", "10/35", "20/35", "30/35"]
    assert lines[-1].endswith("done at step 35")
    assert str(run.path / "dog.safetensors") in ended.stdout
    assert ended.stdout.startswith(f"{run.name}: done at step 35 of 35")


@pytest.mark.parametrize(
    ("what", "code", "says"),
    [
        ("fail", 5, "lorakit: error: IMG_1.jpg ends after 12 of 48 KiB.\n  Mend it.\n"),
        ("die", 1, "ended with exit code 3 and said no more."),
    ],
)
def test_a_training_that_fails_is_one_error_and_its_code(
    bundle: Path, lorakit: Command, what: str, code: int, says: str
) -> None:
    ended = lorakit("train", bundle, env={"STAND_IN": what})
    assert ended.returncode == code
    assert ended.stdout == ""
    assert says in ended.stderr
    assert "train.log" in ended.stderr
    assert ended.stderr.count("lorakit: error:") == 1
    assert "\x1b" not in ended.stderr
    detached = lorakit("train", bundle, "--detach", env={"STAND_IN": what})
    assert detached.returncode == code
    assert says in detached.stderr


def test_a_pipe_that_closes_ends_the_viewer_and_not_the_run(
    bundle: Path, the_run: Callable[[], Run]
) -> None:
    drive = Path(__file__).parents[1] / "drive.py"
    with subprocess.Popen(
        [sys.executable, str(drive), "train", str(bundle)],
        env={**os.environ, "STAND_IN": "noisy"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as viewer:
        assert viewer.stdout is not None
        while b"training" not in viewer.stdout.readline():
            pass
        viewer.stdout.close()
        viewer.wait(60)
    assert the_run().status() == "training"


def test_every_problem_of_a_bundle_comes_at_once_with_its_line(
    bundle: Path, lorakit: Command
) -> None:
    text = bundle.read_text().replace("steps = 30", 'steps = "30"\nlearning_rat = 1e-4')
    bundle.write_text(text)
    for command in ("train", "check"):
        ended = lorakit(command, bundle)
        assert ended.returncode == 2
        assert f"{bundle}:10: error: train.steps:" in ended.stderr
        assert f"{bundle}:11: error: train.learning_rat:" in ended.stderr
        assert "did you mean" in ended.stderr.lower()
        assert "Traceback" not in ended.stderr
    assert not runs_root().exists()


def test_what_is_wrong_with_the_pictures_has_its_own_code(bundle: Path, lorakit: Command) -> None:
    for picture in (bundle.parent / "my [dog] pictures").glob("*.png"):
        picture.write_text("no picture")
    ended = lorakit("train", bundle)
    assert ended.returncode == 5
    assert "error:" in ended.stderr
    assert not runs_root().exists()


def test_check_says_in_json_what_it_says_in_words(bundle: Path, lorakit: Command) -> None:
    good = lorakit("check", bundle, "--json")
    assert good.returncode == 0
    assert all(p["severity"] == "warning" for p in json.loads(good.stdout))
    bad = lorakit("check", bundle, "--json", "--set", "train.steps=-1")
    assert bad.returncode == 2
    assert [p["where"] for p in json.loads(bad.stdout)] == ["train.steps"]
    words = lorakit("check", bundle)
    assert words.stdout.startswith(f"{bundle}: 0 errors, ")


def test_set_changes_what_is_trained(
    bundle: Path, lorakit: Command, the_run: Callable[[], Run]
) -> None:
    ended = lorakit(
        "train", bundle, "--set", "train.steps=7", "--set", "name=cat", env={"STAND_IN": "train 1"}
    )
    assert ended.returncode == 0
    assert the_run().title == "cat"
    assert "steps = 7" in the_run().bundle.read_text()


def test_runs_are_listed_newest_first(lorakit: Command, past: Callable[[str], Run]) -> None:
    assert "lorakit demo" in lorakit("runs").stderr
    killed, good = past("killed"), past("good")
    good.path.rename(good.path.with_name("good-29990101-000000"))
    table = lorakit("runs").stdout.splitlines()
    assert table[0].split() == ["STATUS", "STEP", "%", "LOSS", "ETA", "RUN"]
    assert table[1].split()[0] == "done"
    assert table[2].split()[:3] == ["lost", "56/120", "47"]
    listed: list[dict[str, Any]] = json.loads(lorakit("runs", "--json").stdout)
    assert [run["name"] for run in listed] == ["good-29990101-000000", killed.name]
    assert listed[1]["step"] == 56


def test_runs_elsewhere(lorakit: Command, past: Callable[[str], Run], tmp_path: Path) -> None:
    run = past("good")
    run.path.parent.rename(tmp_path / "else where")
    assert lorakit("runs").stdout == ""
    assert run.name in lorakit("runs", "--runs", tmp_path / "else where").stdout
    assert lorakit("watch", "--runs", tmp_path / "else where").returncode == 0


def test_watching_what_has_ended_says_how(lorakit: Command, past: Callable[[str], Run]) -> None:
    past("good")
    ended = lorakit("watch", "good")
    assert ended.returncode == 0
    assert "done at step" in ended.stdout
    past("nan")
    ended = lorakit("watch", "nan")
    assert ended.returncode == 1
    assert "lorakit: error: The loss was not finite" in ended.stderr
    past("killed")
    ended = lorakit("watch", "killed")
    assert ended.returncode == 1
    assert "is gone without saying why" in ended.stderr


def test_only_what_runs_can_be_stopped(lorakit: Command, past: Callable[[str], Run]) -> None:
    run = past("good")
    ended = lorakit("stop", "good")
    assert ended.returncode == 2
    assert f"{run.name} is not running: it is done." in ended.stderr


def test_a_picture_is_drawn_by_a_process_of_its_own(
    lorakit: Command, past: Callable[[str], Run], tmp_path: Path
) -> None:
    run = past("good")
    drawn = lorakit("sample", "good", "a [dog]", "--seed", "7", "--steps", "3", "--guidance", "2")
    assert drawn.returncode == 0
    file = Path(drawn.stdout.removesuffix("\n"))
    assert file.parent == run.path / "samples"
    asked = file.read_text()
    assert asked.startswith(f"--out {file} --seed 7 --steps 3 --guidance 2.0")
    assert asked.endswith(f"-- {run.path} a [dog]")
    newest = lorakit("sample", "a cat", "--out", "cat.png", cwd=tmp_path)
    assert newest.stdout == f"{tmp_path / 'cat.png'}\n"
    assert lorakit("sample", "good", "fail").returncode == 4
    assert lorakit("sample", "good", "two", "words").returncode == 2


def test_without_a_terminal_the_wizard_says_what_to_use(lorakit: Command) -> None:
    for words in ((), ("new",)):
        for env in ({}, {"TERM": "dumb"}):
            ended = lorakit(*words, env=env)
            assert ended.returncode == 2
            assert ended.stdout == ""
            for way in ("lorakit new --plain", "lorakit train BUNDLE", "ssh -t"):
                assert way in ended.stderr
    assert "There is no bundle" in lorakit("new", "--from", "none.toml").stderr


def test_results_are_json_where_json_is_asked_for(lorakit: Command) -> None:
    assert json.loads(lorakit("schema").stdout)["type"] == "object"
    assert "cpu_threads" in json.loads(lorakit("hardware", "--json").stdout)
    listed = json.loads(lorakit("presets", "--json").stdout)
    one = json.loads(lorakit("presets", "show", listed[0]["name"], "--json").stdout)
    assert one["settings"]
    assert all(preset["unfit"] is not None for preset in listed)


def test_hardware_can_be_kept_in_a_file(lorakit: Command, tmp_path: Path) -> None:
    from lorakit.hardware.files import load

    ended = lorakit("hardware", "--save", tmp_path / "machine.toml")
    assert "trains on " in ended.stdout
    assert load(tmp_path / "machine.toml").cpu_threads >= 1
    assert lorakit("hardware", "--save", tmp_path / "no" / "such.toml").returncode == 2


def test_presets_are_listed_and_shown(lorakit: Command) -> None:
    listed = lorakit("presets").stdout
    name = listed.split()[0]
    assert lorakit("presets", "list").stdout == listed
    assert f'name = "{name}"' in lorakit("presets", "show", name).stdout
    ended = lorakit("presets", "show", "no-such-preset")
    assert ended.returncode == 2
    assert "lorakit: error: There is no preset" in ended.stderr


def test_presets_are_listed_for_a_machine_in_a_file(lorakit: Command) -> None:
    file = Path(__file__).parents[1] / "data" / "hardware" / "rtx3060.toml"
    for words in (("presets",), ("presets", "list")):
        fit, _, others = lorakit(*words, "--hardware", file).stdout.partition("\nNot for this")
        assert "sdxl-8gib " in fit
        assert "sdxl-24gib " in others
        assert "NVIDIA GeForce RTX 3060" in others


def test_presets_that_are_not_for_this_machine_say_why(lorakit: Command) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    fit, _, others = lorakit("presets", env=env).stdout.partition("\nNot for this machine, CPU")
    assert "pico-cpu" in fit
    assert "sdxl-8gib" not in fit
    (line,) = [line for line in others.splitlines() if line.startswith("sdxl-8gib ")]
    assert line.endswith("is for cuda, and training here runs on cpu")


def test_a_preset_is_copied_whole_and_over_no_other_file(lorakit: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    assert lorakit("presets", "copy", "sdxl-8gib", file).returncode == 0
    assert lorakit("presets", "show", file).stdout == file.read_text()
    ended = lorakit("presets", "copy", "sd1-8gib", file)
    assert ended.returncode == 2
    assert "exists already" in ended.stderr


def test_a_preset_of_ones_own_is_saved_from_a_bundle(
    bundle: Path, lorakit: Command, tmp_path: Path
) -> None:
    text = bundle.read_text().replace("steps = 30", "steps = 30  # enough for now")
    bundle.write_text(text.replace('pictures"', 'pictures"\ntrigger = "ohwx"'))
    env = {"LORAKIT_PRESETS": str(tmp_path / "presets")}
    ended = lorakit("presets", "save", "short", "--from", bundle, "--title", "Short", env=env)
    assert ended.stdout == f"{tmp_path / 'presets' / 'short.toml'}\n"
    saved = Path(ended.stdout.strip()).read_text()
    for personal in ("ohwx", "my [dog]", "dog", str(tmp_path)):
        assert personal not in saved
    assert "# enough for now" in saved
    assert lorakit("presets", env=env).stdout.startswith("short ")
    again = lorakit("presets", "save", "short", "--from", bundle, env=env)
    assert again.returncode == 2
    assert (
        lorakit("presets", "save", "short", "--from", bundle, "--overwrite", env=env).returncode
        == 0
    )


def test_an_error_is_told_without_a_traceback_unless_asked_for(lorakit: Command) -> None:
    plain = lorakit("watch", "[red]x[/red]")
    assert plain.returncode == 2
    assert plain.stderr.startswith("lorakit: error: There is no run [red]x[/red] in ")
    assert "Traceback" not in plain.stderr
    assert "Traceback" in lorakit("--debug", "watch", "x").stderr
    assert lorakit("--version").stdout == f"lorakit {__version__}\n"
    assert lorakit("no-such-command").returncode == 2


def test_a_stream_that_cannot_encode_a_name_still_gets_the_rest(
    process: Command, past: Callable[[str], Run]
) -> None:
    run = past("good")
    run.path.rename(run.path.with_name("Привет ✓"))
    env = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    ended = process("runs", env=env)
    assert ended.returncode == 0
    assert "done" in ended.stdout


def test_long_lines_are_never_wrapped(bundle: Path, lorakit: Command) -> None:
    deep = bundle.parent / ("d" * 120)
    deep.mkdir()
    ended = lorakit("train", bundle, "--runs", deep, env={"STAND_IN": "train 1", "COLUMNS": "40"})
    assert any(line.endswith("dog.safetensors  (8 B)") for line in ended.stdout.splitlines())
    assert f"run {deep}/dog-" in ended.stderr


def test_the_demo_puts_its_bundle_and_pictures_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    (shipped / "robots").mkdir(parents=True)
    (shipped / "robots" / "1.png").write_bytes(b"1")
    (shipped / "robots.toml").write_text("schema = 1\n")
    monkeypatch.setattr(demo, "examples", lambda: shipped)
    bundle = demo.prepare(tmp_path / "a" / "demo")
    assert bundle == tmp_path / "a" / "demo" / "robots.toml"
    assert (bundle.parent / "robots" / "1.png").read_bytes() == b"1"
    bundle.write_text("mine")
    assert demo.prepare(bundle.parent).read_text() == "mine"
    with pytest.raises(LorakitError, match="cannot be put in"):
        demo.prepare(bundle / "below a file")


def test_what_the_wizard_ends_with_is_done(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lorakit.bundle.read import read
    from lorakit.cli.new import conclude
    from lorakit.runs import launch
    from lorakit.runs.directory import find
    from lorakit.wizard.outcome import Outcome

    assert conclude(Outcome(what="left")) == 0
    assert conclude(Outcome(what="saved", path=Path("/a b.toml"))) == 0
    said = capsys.readouterr()
    assert said.out == "/a b.toml\n"
    assert "lorakit train '/a b.toml'" in said.err

    stand_in = Path(__file__).parents[1] / "stand_in.py"
    monkeypatch.setattr(launch, "WORKER", (sys.executable, str(stand_in)))
    monkeypatch.setenv("STAND_IN", "train 3")
    chosen = Outcome(
        what="train",
        bundle=read(bundle),
        reasons={"train.steps": "10 for each picture"},
        folder=bundle.parent,
    )
    assert conclude(chosen) == 0
    run = find(None, runs_root())
    assert "done at step 3" in capsys.readouterr().out
    assert "# 10 for each picture" in run.bundle.read_text()
    assert read(run.bundle).dataset.sources[0].path == str(bundle.parent / "my [dog] pictures")
