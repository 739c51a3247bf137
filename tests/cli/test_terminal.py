"""`train` and `watch` in a real terminal, with a stand-in for the trainer."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorakit.runs.directory import Run

Start = Callable[..., Any]

slow = pytest.mark.slow


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def test_the_panel_and_after_it_what_came_out(
    bundle: Path, terminal: Start, the_run: Callable[[], Run]
) -> None:
    seen = terminal("train", bundle, STAND_IN="wait 100")
    rows = seen.until("/100").split("\n")
    assert "ohwx [dog]" in rows[0]
    assert "LoRA rank 8 on linear" in rows[1]
    assert rows[2].startswith(" step ")
    assert "Ctrl-C stop and save" in rows[23]
    assert seen.end() == 0
    assert b"\x1b[?1049l" in seen.sent
    assert seen.sent.rindex(b"\x1b[?25h") > seen.sent.rindex(b"\x1b[?25l")
    after = seen.sent.rpartition(b"\x1b[?1049l")[2].decode()
    run = the_run()
    assert str(run.path / "dog.safetensors") in after
    assert "done at step 100 of 100" in after
    assert "scp " in after
    assert f'lorakit sample {run.name} "a prompt"' in after


def test_ctrl_c_stops_after_the_step_and_saves(
    bundle: Path, terminal: Start, the_run: Callable[[], Run]
) -> None:
    seen = terminal("train", bundle, STAND_IN="wait")
    seen.until("training")
    seen.child.sendintr()
    assert seen.end() == 130
    assert the_run().status() == "stopped"
    assert b"stopping after this step" in seen.sent


@slow
def test_sigterm_stops_the_same_way(
    bundle: Path, terminal: Start, the_run: Callable[[], Run]
) -> None:
    seen = terminal("train", bundle, STAND_IN="wait")
    seen.until("training")
    seen.child.kill(signal.SIGTERM)
    assert seen.end() == 143
    assert the_run().status() == "stopped"


@slow
def test_a_second_ctrl_c_aborts(bundle: Path, terminal: Start, the_run: Callable[[], Run]) -> None:
    seen = terminal("train", bundle, STAND_IN="stubborn")
    seen.until("training")
    seen.child.sendintr()
    seen.until("Ctrl-C again aborts")
    seen.child.sendintr()
    assert seen.end() == 130
    assert the_run().status() == "lost"
    assert b"aborted at step" in seen.sent


@slow
def test_d_detaches_and_the_run_goes_on(
    bundle: Path, terminal: Start, the_run: Callable[[], Run]
) -> None:
    seen = terminal("train", bundle, STAND_IN="wait")
    seen.until("training")
    seen.child.send("d")
    assert seen.end() == 0
    assert b"goes on" in seen.sent
    assert the_run().status() == "training"


@slow
def test_x_stops_only_when_it_is_pressed_twice(
    bundle: Path, terminal: Start, the_run: Callable[[], Run]
) -> None:
    seen = terminal("train", bundle, STAND_IN="wait")
    seen.until("training")
    seen.child.send("x")
    seen.until("x again stops")
    assert not (the_run().control / "stop").exists()
    seen.child.send("x")
    assert seen.end() == 0
    assert the_run().status() == "stopped"


def test_the_terminal_goes_away_and_the_run_goes_on(
    bundle: Path, terminal: Start, the_run: Callable[[], Run]
) -> None:
    seen = terminal("train", bundle, STAND_IN="wait")
    seen.until("training")
    before = the_run().state().step
    closed = time.monotonic()
    seen.hang_up()
    assert time.monotonic() - closed < 2
    until(lambda: the_run().state().step > before + 5)
    assert the_run().status() == "training"


@slow
def test_watch_comes_and_goes_and_its_terminal_may_go_too(
    bundle: Path, terminal: Start, lorakit: Start, the_run: Callable[[], Run]
) -> None:
    started = lorakit("train", bundle, "--detach", env={"STAND_IN": "wait"})
    run = the_run()
    assert (started.returncode, started.stdout) == (0, f"{run.path}\n")

    first = terminal("watch")
    first.until("training")
    assert "leave, it goes on" in first.text
    first.child.sendintr()
    assert first.end() == 0
    assert run.status() == "training"

    second = terminal("watch", run.name)
    second.until("training")
    second.hang_up()
    assert run.status() == "training"

    third = terminal("watch", "dog")
    third.until("training")
    assert lorakit("stop").returncode == 0
    assert third.end() == 0
    assert b"stopped at step" in third.sent


@slow
def test_detach_leaves_the_trainer_running_when_its_terminal_goes(
    bundle: Path, terminal: Start, the_run: Callable[[], Run]
) -> None:
    seen = terminal("train", bundle, "--detach", STAND_IN="wait")
    assert seen.end() == 0
    before = the_run().state().step
    until(lambda: the_run().state().step > before + 5)


@slow
def test_ctrl_z_gives_the_terminal_back_and_fg_draws_again(bundle: Path, terminal: Start) -> None:
    seen = terminal("train", bundle, STAND_IN="wait")
    seen.until("training")
    seen.child.kill(signal.SIGTSTP)
    state = Path(f"/proc/{seen.child.pid}/stat")
    until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")
    while not seen.sent.endswith(b"\x1b[?1049l"):
        seen.read()
    seen.child.kill(signal.SIGCONT)
    while seen.sent.rindex(b"\x1b[?1049h") < seen.sent.rindex(b"\x1b[?1049l"):
        seen.read()
    seen.until("training")
    seen.child.sendintr()
    assert seen.end() == 130


@slow
def test_another_size_is_drawn_anew(bundle: Path, terminal: Start) -> None:
    seen = terminal("train", bundle, STAND_IN="wait")
    seen.until("Ctrl-C stop")
    seen.child.setwinsize(10, 50)
    seen.screen.resize(10, 50)
    seen.screen.reset()
    seen.until("Ctrl-C stop")
    assert "Ctrl-C stop" in seen.screen.display[9]
    seen.child.setwinsize(24, 80)
    seen.screen.resize(24, 80)
    seen.screen.reset()
    seen.until("Ctrl-C stop")
    assert "Ctrl-C stop" in seen.screen.display[23]


@slow
def test_a_locale_without_blocks_gets_ascii(bundle: Path, terminal: Start) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    seen = terminal("train", bundle, STAND_IN="wait 100", NO_COLOR="1", **plain)
    seen.until("/100")
    assert seen.end() == 0
    seen.sent.decode("ascii")
    assert not re.search(rb"\x1b\[[0-9;]*3[0-9][;m]", seen.sent)
    assert b"...." in seen.sent


@slow
def test_a_second_of_the_panel_is_less_than_a_kibibyte(bundle: Path, terminal: Start) -> None:
    seen = terminal("train", bundle, STAND_IN="noisy")
    seen.until("ram")
    begun, already = time.monotonic(), len(seen.sent)
    while time.monotonic() - begun < 4:
        seen.read()
    assert (len(seen.sent) - already) / (time.monotonic() - begun) < 1024
