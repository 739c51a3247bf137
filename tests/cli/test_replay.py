"""`replay` and `diff` without torch: what is refused, what is said first, and the exit codes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorakit.bundle.lock import Lock, LockedBase, LockedDataset, LockedHardware, Result
from lorakit.bundle.paths import absolute
from lorakit.bundle.read import read
from lorakit.bundle.write import dump, write_lock
from lorakit.runs.directory import Run, every, runs_root

Command = Callable[..., "subprocess.CompletedProcess[str]"]

LOCK = Lock(
    lorakit="0.1.0",
    run="dog-20260101-000000",
    threads=2,
    attention="sdpa",
    determinism="bytes",
    why="so it is on a CPU",
    versions={"torch": "2.13.0", "peft": "0.21.2"},
    hardware=LockedHardware(device="CPU"),
    result=Result(digest="ab" * 32, step=30),  # that of the stand-in
)
GPU = {"determinism": "statistics", "why": "so it is on a GPU"}


@pytest.fixture
def locked(bundle: Path) -> Path:
    write_lock(bundle, LOCK)
    return bundle


def test_a_bundle_without_a_lock_is_trained_and_says_so(
    bundle: Path, lorakit: Command, the_run: Callable[[], Run]
) -> None:
    refused = lorakit("replay", bundle, "--strict")
    assert refused.returncode == 2
    assert "has no lock" in refused.stderr
    assert not runs_root().exists()
    ended = lorakit("replay", bundle)
    assert ended.returncode == 0
    assert "has no lock" in ended.stderr
    assert not the_run().original.exists()
    assert "replay:" not in ended.stdout


def test_nothing_differs(locked: Path, lorakit: Command, the_run: Callable[[], Run]) -> None:
    ended = lorakit("replay", locked, "--strict")
    assert ended.returncode == 0, ended.stderr
    assert "same bytes promised: yes, so it is on a CPU\n" in ended.stderr
    assert "\n--anew\n" in ended.stderr
    assert f"replay: the same LoRA: digest {'ab' * 32}\n" in ended.stdout
    run = the_run()
    waiting, then = read(run.bundle).lock, read(run.original).lock
    assert waiting is not None
    assert (waiting.threads, waiting.result) == (2, None)  # the trainer takes its threads from it
    assert then == LOCK.model_copy(update={"run": ""})
    assert lorakit("replay", run.path, "--strict").returncode == 0


def test_what_differs_is_said_first_and_strict_refuses_it(locked: Path, lorakit: Command) -> None:
    here = {"threads": 8, "versions": {"torch": "2.14.0", "peft": "0.21.2"}}
    env = {"STAND_IN_LOCK": json.dumps(here)}
    refused = lorakit("replay", locked, "--strict", env=env)
    assert refused.returncode == 2
    assert '  torch  "2.13.0" -> "2.14.0"\n  threads  2 -> 8\n' in refused.stderr
    assert "Differences from the lock: 2, and --strict allows none." in refused.stderr
    assert not runs_root().exists()
    ended = lorakit("replay", locked, env=env)
    assert ended.returncode == 0
    assert "same bytes promised: no, 2 things differ from the lock\n" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_was_changed_on_the_way_is_no_strict_replay(
    locked: Path, lorakit: Command, tmp_path: Path
) -> None:
    line = "train.learning_rate  0.003 -> 0.001, after step 9"
    straight = tmp_path / "straight.toml"
    straight.write_text(locked.read_text())
    write_lock(locked, LOCK.model_copy(update={"changed": (line,)}))
    here = {"STAND_IN_LOCK": json.dumps({"changed": []})}
    refused = lorakit("replay", locked, "--strict", env=here)
    assert refused.returncode == 2
    assert f'  changed on the way  "{line}" -> absent\n' in refused.stderr
    assert "Differences from the lock: 1, and --strict allows none." in refused.stderr
    assert not runs_root().exists()
    ended = lorakit("replay", locked, env=here)
    assert ended.returncode == 0
    assert f"same bytes promised: no, changed on the way: {line}\n" in ended.stderr
    told = lorakit("diff", straight, locked)
    assert told.returncode == 1
    assert f'lock: changed on the way  absent -> "{line}"\n' in told.stdout
    assert lorakit("diff", locked, locked).returncode == 0


def test_only_a_broken_promise_is_a_failure(locked: Path, lorakit: Command) -> None:
    other = LOCK.model_copy(update={"result": Result(digest="cd" * 32, step=30)})
    write_lock(locked, other)
    ended = lorakit("replay", locked)
    assert ended.returncode == 1
    assert f"replay: another LoRA: digest {'cd' * 32} then, {'ab' * 32} now" in ended.stdout
    assert "report it" in ended.stdout
    assert lorakit("watch", "dog").returncode == 1  # a viewer that lost its line hears it, too
    write_lock(locked, other.model_copy(update=GPU))
    ended = lorakit("replay", locked, env={"STAND_IN_LOCK": json.dumps(GPU)})
    assert ended.returncode == 0
    assert "same bytes promised: no, so it is on a GPU" in ended.stderr
    assert "another LoRA" in ended.stdout


@pytest.mark.parametrize("lock", [True, False])
def test_detached_it_returns_and_who_watches_hears_the_verdict(
    bundle: Path, lorakit: Command, the_run: Callable[[], Run], lock: bool
) -> None:
    if lock:
        write_lock(bundle, LOCK)
    started = lorakit("replay", bundle, "--detach", env={"STAND_IN": "wait"})
    assert started.returncode == 0, started.stderr
    run = the_run()
    assert started.stdout == f"{run.path}\n"
    assert f"{run.name} is training. Look at it: lorakit watch" in started.stderr
    assert ("same bytes promised: yes" in started.stderr) is lock
    assert lorakit("stop", run.name).returncode == 0
    watched = lorakit("watch", run.name)
    assert watched.returncode == 0
    assert ("replay: " in watched.stdout) is lock


def test_a_look_that_fails_is_one_error_and_no_run(locked: Path, lorakit: Command) -> None:
    ended = lorakit("replay", locked, env={"STAND_IN_LOCK": "fail"})
    assert ended.returncode == 1
    assert "could not be found out (exit code 4)" in ended.stderr
    assert not runs_root().exists()


def test_a_base_that_is_not_here_is_fetched_at_the_commit_of_the_lock(
    locked: Path, lorakit: Command, the_run: Callable[[], Run]
) -> None:
    locked.write_text(locked.read_text().replace('model = "base"', 'model = "owner/name"'))
    base = LockedBase(digest="ef" * 32, revision="4" * 40)
    write_lock(locked, LOCK.model_copy(update={"base": base}))
    away = json.dumps({"base": {"digest": "", "revision": ""}})
    ended = lorakit(
        "replay", locked, "--strict", env={"STAND_IN_LOCK": away, "HF_HUB_OFFLINE": "0"}
    )
    assert ended.returncode == 0, ended.stderr
    assert "base  not here yet" in ended.stderr
    assert read(the_run().bundle).base.revision == "4" * 40
    assert read(the_run().original).base.revision == ""


def test_a_card_without_bf16_is_named_before_anything_starts(
    locked: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lorakit import survey
    from lorakit.cli.replay import replay
    from lorakit.hardware.files import load

    t4 = Path(__file__).parents[1] / "data" / "hardware" / "t4.toml"
    monkeypatch.setattr(survey, "detect", lambda: load(t4))
    locked.write_text(locked.read_text().replace('"fp32"', '"bf16"'))
    assert replay(str(locked), False, None) == 2
    said = capsys.readouterr().err
    assert "The bundle wants bf16, and " in said
    assert "compute capability 7.5" in said
    assert "--set train.precision=fp16" in said
    assert not runs_root().exists()


def test_training_a_locked_bundle_is_a_new_training(
    locked: Path, lorakit: Command, the_run: Callable[[], Run]
) -> None:
    assert lorakit("train", locked, env={"STAND_IN": "train 1"}).returncode == 0
    text = the_run().bundle.read_text()
    assert "[lock" not in text
    # What the file leaves to a default stands in the run's own copy.
    assert "rank = 16\nalpha = 16.0\n" in text
    assert not the_run().original.exists()


def test_on_a_terminal_it_is_the_panel_of_train(locked: Path, terminal: Callable[..., Any]) -> None:
    seen = terminal("replay", locked, STAND_IN="train 30")
    assert seen.end() == 0
    assert b"Ctrl-C stop and save" in seen.sent
    assert "replay: the same LoRA" in seen.text


def test_a_lock_of_a_stranger_steers_no_terminal(locked: Path, lorakit: Command) -> None:
    evil = "\x1b[31m"
    result = Result(digest=evil, step=30)
    hardware = LockedHardware(device=evil, cpu=evil)
    dataset = LockedDataset(digest="x", pictures=(f"{evil} a b",))
    update = {"result": result, "why": evil, "versions": {evil: evil}, "dataset": dataset}
    write_lock(locked, LOCK.model_copy(update={**update, "hardware": hardware}))
    here = {"versions": {evil: "1"}, "dataset": {"digest": "y"}}
    ended = lorakit("replay", locked, env={"STAND_IN_LOCK": json.dumps(here)})
    assert "\x1b" not in ended.stdout + ended.stderr
    assert "picture \\x1b[31m" in ended.stderr
    assert "another LoRA: digest \\x1b[31m then" in ended.stdout
    other = locked.with_name("other.toml")
    other.write_text(locked.read_text())
    write_lock(other, LOCK)
    assert "\x1b" not in lorakit("diff", locked, other).stdout


def test_what_is_neither_bundle_nor_run_is_named(lorakit: Command, tmp_path: Path) -> None:
    assert "There is no run nothing" in lorakit("replay", "nothing").stderr
    missing = lorakit("replay", tmp_path / "none.toml")
    assert missing.returncode == 2
    assert "none.toml does not exist" in missing.stderr


def test_diff_is_by_meaning(bundle: Path, lorakit: Command) -> None:
    other = bundle.parent / "else where" / "other.toml"
    other.parent.mkdir()
    whole = dump(absolute(read(bundle), bundle.parent))
    other.write_text("# every value, and paths that hold anywhere\n" + whole)
    same = lorakit("diff", bundle, other)
    assert same.returncode == 0, same.stdout
    assert same.stdout == ""
    other.write_text(other.read_text().replace("steps = 30", "steps = 31", 1))
    ended = lorakit("diff", bundle, other)
    assert (ended.returncode, ended.stdout) == (1, "train.steps  30 -> 31\n")
    told = lorakit("diff", bundle, other, "--json")
    assert told.returncode == 1
    assert json.loads(told.stdout) == {
        "same": False,
        "settings": [{"what": "train.steps", "then": 30, "now": 31}],
        "lock": [],
        "result": None,
    }
    assert lorakit("diff", bundle, "nothing").returncode == 2


def test_diff_compares_locks_and_results(locked: Path, lorakit: Command) -> None:
    other = locked.with_name("other.toml")
    other.write_text(locked.read_text())
    assert lorakit("diff", locked, other).stdout == f"the same LoRA: digest {'ab' * 32}\n"
    result = Result(digest="cd" * 32, step=30)
    write_lock(other, LOCK.model_copy(update={"threads": 3, "result": result}))
    ended = lorakit("diff", locked, other)
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[0] == "lock: threads  2 -> 3"
    assert "another LoRA" in ended.stdout
    assert lorakit("replay", locked).returncode == 0
    run = every(runs_root())[0]
    assert lorakit("diff", locked, run.name).returncode == 0
