"""Python, packages, folders, network and terminal, as the doctor sees them."""

from __future__ import annotations

import os
import socket
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lorakit.doctor.checks import Check
from lorakit.doctor.gather import folder, gather, reach
from lorakit.doctor.logout import Login
from lorakit.doctor.surroundings import (
    Folder,
    Hub,
    Surroundings,
    Terminal,
    after,
    before,
    threads,
)

GIB = 1024**3
ROOMY = Folder(path="/home/ada/x", writable=True, free_bytes=200 * GIB)
NEEDS = ("torch>=2.11", "diffusers>=0.36", "textual<9,>=8.2.8", "nvidia-ml-py>=12.575.51")
FINE = Surroundings(
    python=(3, 12, 3),
    python_wanted=">=3.11",
    versions={
        "lorakit": "0.1.0",
        "diffusers": "0.42.1",
        "textual": "8.2.8",
        "nvidia-ml-py": "13.580.82",
    },
    needs=NEEDS,
    runs=ROOMY,
    cache=ROOMY,
    bases=ROOMY,
    hub=Hub(address="https://huggingface.co", reachable=True, token=True),
    terminal=Terminal(attached=True, kind="xterm-256color", encoding="utf-8"),
    login=Login(),
)


def said(found: Surroundings) -> dict[str, Check]:
    return {check.name: check for check in (*before(found), *after(found))}


def test_where_all_is_well() -> None:
    assert {c.verdict for c in said(FINE).values()} == {"good"}
    assert "lorakit 0.1.0" in said(FINE)["packages"].what


def versions(**changed: str | None) -> dict[str, str]:
    given = {**FINE.versions, **{k.replace("_", "-"): v for k, v in changed.items()}}
    return {name: version for name, version in given.items() if version is not None}


FULL = replace(ROOMY, free_bytes=GIB // 2)
LOCKED = replace(ROOMY, writable=False)
SHORT = replace(FINE.terminal, lines=20)


@pytest.mark.parametrize(
    ("changed", "name", "verdict", "what", "cure"),
    [
        ({"python": (3, 10, 12)}, "python", "bad", "3.10.12 is older than 3.11", "venv"),
        (
            {"versions": versions(diffusers=None)},
            "packages",
            "bad",
            "diffusers is not installed",
            'pip install "diffusers>=0.36"',
        ),
        (
            {"versions": versions(textual="8.2.7")},
            "packages",
            "doubtful",
            "textual 8.2.7 is older",
            "pip install --upgrade",
        ),
        (
            {"versions": versions(pynvml="12.0.0")},
            "pynvml",
            "doubtful",
            "pynvml 12.0.0 is installed beside nvidia-ml-py",
            "pip uninstall -y pynvml",
        ),
        ({"runs": LOCKED}, "runs", "bad", "cannot be written", "LORAKIT_RUNS"),
        ({"cache": FULL}, "cache", "bad", "512.0 MiB are free", "LORAKIT_CACHE"),
        ({"bases": FULL}, "bases", "doubtful", "takes up to 10 GiB", "HF_HOME"),
        (
            {"hub": replace(FINE.hub, reachable=False, failure="timed out")},
            "hub",
            "doubtful",
            "does not answer (timed out)",
            "HTTPS_PROXY",
        ),
        ({"hub": replace(FINE.hub, offline=True)}, "hub", "good", "HF_HUB_OFFLINE", ""),
        ({"hub": replace(FINE.hub, token=False)}, "token", "good", "none", ""),
        ({"terminal": SHORT}, "terminal", "doubtful", "80 x 20", "--plain"),
        (
            {"terminal": replace(FINE.terminal, kind="dumb")},
            "terminal",
            "doubtful",
            "TERM=dumb",
            "--plain",
        ),
        (
            {"terminal": replace(FINE.terminal, encoding="ANSI_X3.4-1968")},
            "terminal",
            "doubtful",
            "drawn in ASCII",
            "LC_ALL=C.UTF-8",
        ),
        ({"terminal": Terminal()}, "terminal", "good", "plain lines", ""),
        (
            {"terminal": replace(FINE.terminal, ssh=True, multiplexer="tmux")},
            "session",
            "good",
            "over SSH, inside tmux",
            "",
        ),
    ],
)
def test_what_is_not(
    changed: dict[str, object], name: str, verdict: str, what: str, cure: str
) -> None:
    found = said(replace(FINE, **changed))[name]  # type: ignore[arg-type]
    assert found.verdict == verdict
    assert what in found.what
    assert cure in found.cure


def test_threads_left_without_work() -> None:
    assert threads(FINE, 16).verdict == "good"
    left = threads(replace(FINE, threads_set="1"), 16)
    assert left.verdict == "doubtful"
    assert "15 of 16" in left.what
    assert threads(replace(FINE, threads_set="16"), 16).verdict == "good"
    assert threads(replace(FINE, threads_set="many"), 16).verdict == "good"


class Answer(BaseHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012

    def do_HEAD(self) -> None:
        self.asked.append(self.path)
        self.send_response(404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """No line."""


def test_any_answer_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = HTTPServer(("127.0.0.1", 0), Answer)
    serving = threading.Thread(target=server.handle_request)
    serving.start()
    assert reach(f"http://127.0.0.1:{server.server_port}") == (True, "")
    serving.join()
    server.server_close()
    there, why = reach(f"http://127.0.0.1:{server.server_port}", seconds=2)
    assert not there
    assert why == "Connection refused"
    assert reach("no address")[0] is False


def test_a_server_that_is_silent_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        there, why = reach(f"http://127.0.0.1:{port}", seconds=0.2)
    assert not there
    assert "timed out" in why


def test_a_folder_that_is_not_there_yet_is_judged_by_what_it_will_be_in(tmp_path: Path) -> None:
    found = folder(tmp_path / "runs" / "deep")
    assert found.writable
    assert (found.free_bytes or 0) > 0
    (tmp_path / "file").write_text("")
    assert not folder(tmp_path / "file" / "runs").writable


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_another_s(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert not folder(tmp_path / "runs").writable


def test_without_the_hub_s_client_the_doctor_still_speaks(
    tmp_path: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    (line,) = [c for c in after(gather(tmp_path, {})) if c.name == "hub"]
    assert (line.verdict, line.cure) == ("bad", "pip install huggingface-hub")


def test_this_machine_is_looked_at(tmp_path: Path, clean_home: Path) -> None:
    found = gather(tmp_path, {"HF_HUB_OFFLINE": "1", "HF_TOKEN": "hf_secret", "TMUX": "x"})
    assert found.hub.offline
    assert found.hub.reachable is None
    assert found.hub.token
    assert "hf_secret" not in repr(found)
    assert found.terminal.multiplexer == "tmux"
    assert found.versions["torch"]
    assert found.runs.path == str(tmp_path)
