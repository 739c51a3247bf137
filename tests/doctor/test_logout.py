"""What becomes of a detached training when its person logs out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorakit.doctor.logout import Login, Logind, answered, check, configured, parse, unit

LOGIND = Path(__file__).parents[1] / "data" / "logind"


@pytest.mark.parametrize(
    ("machine", "user", "ends"),
    [
        ("ubuntu", "ada", False),  # its systemd is built with no
        ("upstream", "ada", True),  # built with yes
        ("upstream", "root", False),
        ("dropped", "ada", True),  # the drop-in of the site comes after the vendor's
        ("masked", "ada", False),  # an empty file of the same name stands for the vendor's
        ("named", "ada", False),
        ("named", "guest", True),
        ("named", "bob", False),
        ("named", "root", False),  # not excluded any more, and not named either
    ],
)
def test_logind_s_files_say_whom_it_ends(machine: str, user: str, ends: bool) -> None:
    found = configured(LOGIND / machine)
    assert found is not None
    assert found.ends(user) is ends


def test_a_machine_without_logind(tmp_path: Path) -> None:
    assert configured(tmp_path) is None


@given(st.lists(st.text(max_size=80), max_size=3))
def test_any_text_is_read(texts: list[str]) -> None:
    assert parse(texts).kills in (None, True, False)


def test_logind_s_own_answer() -> None:
    assert answered('b true\nas 0\nas 2 "root" "ada"\n') == Logind(
        kills=True, exclude=("root", "ada")
    )
    assert answered('b false\nas 1 "guest"\nas 1 "root"\n') == Logind(kills=False, only=("guest",))
    assert answered("Failed to get property: Access denied\n") is None
    assert answered("") is None


@pytest.mark.parametrize(
    ("cgroup", "wanted"),
    [
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "session"),
        ("1:name=systemd:/user.slice/user-1000.slice/session-c2.scope\n0::/x\n", "session"),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-Terminal.scope\n",
            "user manager",
        ),
        ("0::/system.slice/slurmstepd.scope/job_7/step_0\n", "other"),
        ("0::/\n", "other"),
        ("", "other"),
    ],
)
def test_what_systemd_counts_a_process_to(cgroup: str, wanted: str) -> None:
    assert unit(cgroup) == wanted


SSH = Login(user="ada", unit="session", logind=Logind(kills=False), lingers=False)
KILLS = Logind(kills=True)


@pytest.mark.parametrize(
    ("login", "verdict", "words"),
    [
        (SSH, "good", "goes on after you log out"),
        (replace(SSH, logind=KILLS), "doubtful", "KillUserProcesses=yes"),
        (replace(SSH, logind=KILLS, user="root"), "good", "goes on"),
        (replace(SSH, logind=Logind()), "doubtful", "could not be found out"),
        (replace(SSH, unit="user manager"), "doubtful", "ends with your last login"),
        (replace(SSH, unit="user manager", lingers=True), "good", "goes on"),
        (replace(SSH, slurm_job="4711"), "doubtful", "job 4711"),
        (replace(SSH, container=True, first_process="bash"), "doubtful", "first process, bash"),
        (replace(SSH, container=True, first_process="sshd"), "good", "(sshd)"),
        (replace(SSH, wsl=True), "doubtful", "Windows ends WSL"),
        (Login(), "good", "goes on"),
    ],
)
def test_what_a_login_leaves_behind(login: Login, verdict: str, words: str) -> None:
    found = check(login)
    assert found.verdict == verdict
    assert words in found.what
    assert bool(found.cure) == (verdict == "doubtful")


def test_the_cure_is_what_is_missing() -> None:
    start = "systemd-run --user --scope lorakit train BUNDLE --detach"
    once = check(replace(SSH, logind=KILLS))
    assert once.cure == f"loginctl enable-linger ada, then start it with {start}"
    assert check(replace(SSH, logind=KILLS, lingers=True)).cure == start
