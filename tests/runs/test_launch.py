from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from lorakit import __version__
from lorakit.bundle.read import parse
from lorakit.errors import ExitCode, LorakitError
from lorakit.hardware.facts import Accelerator, Hardware, TorchBuild
from lorakit.planner.estimate import Estimate, Part, Phase, Span
from lorakit.runs import control, launch
from lorakit.runs.directory import Run, create, find
from lorakit.runs.events import decode
from lorakit.runs.identity import Identity, alive, identify
from lorakit.runs.state import RunState, replay
from lorakit.runs.status import SILENT_SECONDS, is_running, lives, status_of

STAND_IN = Path(__file__).parents[1] / "stand_in.py"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(launch, "WORKER", (sys.executable, str(STAND_IN)))
    bundle = parse('schema = 1\nname = "dog"\n[[dataset.sources]]\npath = "p"\n')
    made = create(bundle, tmp_path / "runs", tmp_path)
    yield made
    if made.lives(RunState()):
        os.kill(made.process["pid"], signal.SIGKILL)


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def test_what_was_predicted_is_told_to_viewers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "wait")
    training = Phase(name="training", parts=(Part(name="base weights", gib=4.0),))
    estimate = Estimate(
        phases=(training,),
        step_seconds=Span(low=0.4, high=0.55),
        total_seconds=Span(low=600, high=840),
    )
    process = launch.launch(run, estimate)
    assert launch.await_started(run, process)
    told = run.state().predicted
    assert told is not None
    assert told.peak_gib == 4.0
    assert (told.step_seconds_low, told.step_seconds_high) == (0.4, 0.55)
    assert (told.total_seconds_low, told.total_seconds_high) == (600, 840)
    assert "predicted: 4.0 GiB at most, 0.40 to 0.55 s a step, 10m 00s to 14m 00s in all" in [
        line.text for line in run.state().log
    ]


def test_a_trainer_is_a_session_of_its_own_and_says_who_it_is(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "wait")
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    process = launch.launch(run)
    assert launch.await_started(run, process, seconds=0) is False
    assert launch.await_started(run, process) is True
    assert os.getsid(process.pid) == process.pid
    facts = json.loads((run.path / "run.json").read_text())
    assert (facts["pid"], facts["lorakit"]) == (process.pid, __version__)
    assert facts["argv"][-1] == str(run.path)
    assert {"process_start", "boot_id", "host", "user", "python"} <= facts.keys()
    assert "hf_planted" not in (run.path / "run.json").read_text()
    assert b"HF_TOKEN=hf_planted" in Path(f"/proc/{process.pid}/environ").read_bytes()
    assert os.readlink(f"/proc/{process.pid}/cwd") == str(run.path)
    assert os.readlink(f"/proc/{process.pid}/fd/0") == os.devnull
    until(lambda: run.status() == "training")
    assert find(None, run.path.parent) == run

    with pytest.raises(LorakitError, match="already being trained"):
        launch.launch(run)

    control.request(run, "stop")
    assert run.status() == "stopping"
    assert process.wait(20) == 0
    assert run.status() == "stopped"


def test_the_card_of_the_plan_is_the_card_that_trains(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Accelerator(kind="cuda", name="NVIDIA GeForce GTX 745", uuid="GPU-9d0a1c5b")
    fast = Accelerator(
        kind="cuda", name="NVIDIA GeForce RTX 4090", uuid="GPU-52a3a85d", memory_free_gib=22.9
    )
    machine = Hardware(
        system="Linux 6.8.0 x86_64",
        torch=TorchBuild(version="2.11.0+cu128", cuda="12.8"),
        accelerators=(slow, fast),
    )
    monkeypatch.setattr(launch, "detect", lambda: machine)
    monkeypatch.setenv("STAND_IN", "wait")
    process = launch.launch(run)
    launch.await_started(run, process)
    environ = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    assert b"CUDA_VISIBLE_DEVICES=GPU-52a3a85d" in environ
    assert b"PYTORCH_ALLOC_CONF=expandable_segments:True" in environ
    facts = json.loads((run.path / "run.json").read_text())
    assert (facts["device"], facts["card"]) == ("NVIDIA GeForce RTX 4090", "GPU-52a3a85d")
    control.request(run, "stop")
    process.wait(20)


def test_a_request_from_before_the_start_does_not_stop_the_next_process(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.request(run, "stop")
    monkeypatch.setenv("STAND_IN", "train 5")
    assert launch.launch(run).wait(20) == 0
    assert run.status() == "done"


@pytest.mark.parametrize("name", ["train.log", "events.jsonl", "run.json", launch.LOCK])
def test_a_directory_that_cannot_be_written_starts_nothing(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "wait")
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).mkdir()
    with pytest.raises(LorakitError, match="cannot be started: Is a directory") as error:
        launch.launch(run)
    assert str(run.path) in error.value.hint
    assert error.value.code == ExitCode.DATA
    assert not [p for p in psutil.process_iter() if str(run.path) in " ".join(_argv(p))]


def _argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_killed_trainer_is_lost(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "wait")
    process = launch.launch(run)
    launch.await_started(run, process)
    process.kill()
    until(lambda: run.status() == "lost")  # even while nobody has waited for it: a zombie is dead
    process.wait()
    assert run.status() == "lost"
    error = launch.death(run, process.returncode)
    assert "was killed by SIGKILL" in error.message


def test_a_trainer_that_dies_at_once_is_an_error_with_what_it_printed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "die")
    process = launch.launch(run)
    with pytest.raises(LorakitError, match="exit code 3") as caught:
        launch.await_started(run, process)
    assert r"\x1b[31mImportError: libcudart.so.12" in caught.value.hint
    assert str(run.log) in caught.value.hint
    assert "\x1b" not in caught.value.hint
    assert caught.value.code == ExitCode.TRAINING_FAILED


def test_a_trainer_that_fails_at_once_is_its_own_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "fail")
    process = launch.launch(run)
    with pytest.raises(LorakitError, match="12 of 48 KiB") as caught:
        launch.await_started(run, process)
    assert caught.value.code == ExitCode.DATA
    process.wait(20)
    assert run.status() == "failed"


def test_a_process_is_told_from_another_with_its_pid() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert alive(me)
    assert alive(Identity(**{**as_dict(me), "process_start": me.process_start - 1})) is False
    assert alive(Identity(**{**as_dict(me), "boot_id": "before"})) is False
    assert alive(Identity(**{**as_dict(me), "host": "elsewhere"})) is None
    assert alive(Identity(**{**as_dict(me), "pid_namespace": "pid:[1]"})) is None
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
        assert identify(child.pid) is None


def as_dict(identity: Identity) -> dict[str, object]:
    return {name: getattr(identity, name) for name in Identity.__dataclass_fields__}


@pytest.mark.parametrize(
    ("age", "living"), [(SILENT_SECONDS - 1, True), (SILENT_SECONDS + 1, False)]
)
def test_a_run_of_another_host_lives_as_long_as_it_speaks(age: float, living: bool) -> None:
    me = identify(os.getpid())
    assert me is not None
    process = {**as_dict(me), "host": "elsewhere"}
    state = RunState(last_time=1000.0)
    assert lives(process, state, 1000.0 + age) is living
    assert status_of(state, living) == ("starting" if living else "lost")


def test_a_run_that_was_just_started_elsewhere_lives_without_a_word() -> None:
    assert lives({"time": 1000.0}, RunState(), 1001.0)
    assert not lives({}, RunState(), 1001.0)


@pytest.mark.parametrize(
    ("phase", "shown"),
    [
        ("validating", "validating"),
        ("a\x1b[2J", "a\\x1b[2J"),
        ("done", "starting"),
        ("", "starting"),
    ],
)
def test_a_phase_of_a_newer_version_is_a_running_one(phase: str, shown: str) -> None:
    line = json.dumps({"kind": "doing", "time": 1.0, "phase": phase})
    state = replay(filter(None, [decode(line)]))
    assert status_of(state, lives=True) == shown
    assert is_running(status_of(state, lives=True))
    assert not is_running(status_of(state, lives=False))


def test_an_outcome_of_a_newer_version_is_an_end() -> None:
    line = '{"kind":"finished","time":1.0,"outcome":"converged","step":3,"files":[]}'
    assert status_of(replay(filter(None, [decode(line)])), lives=True) == "done"
