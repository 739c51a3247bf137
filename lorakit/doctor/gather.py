"""Looks around this machine: what the doctor judges, apart from the hardware."""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from lorakit.bundle.paths import cache_folder
from lorakit.doctor import logout
from lorakit.doctor.surroundings import Folder, Hub, Surroundings, Terminal
from lorakit.hardware import machine
from lorakit.survey import free_bytes

ASK_SECONDS = 4.0
"""How long the Hub may take to answer."""

_NEEDED = ("torch", "diffusers", "transformers", "peft", "accelerate", "safetensors")
"""Looked for where lorakit runs from a checkout and has no list of its own."""


def gather(runs: Path, environ: Mapping[str, str]) -> Surroundings:
    """Everything, with one short request to the Hub unless that is forbidden."""
    needs, python = _requirements()
    bases, hub = _hubs(environ)
    names = ["lorakit", "nvidia-ml-py", "pynvml", *(needs or _NEEDED)]
    return Surroundings(
        python=sys.version_info[:3],
        python_wanted=python,
        versions=_versions(names),
        needs=needs,
        runs=folder(runs),
        cache=folder(cache_folder()),
        bases=bases,
        hub=hub,
        terminal=_terminal(environ),
        login=_login(environ),
        threads_set=environ.get("OMP_NUM_THREADS", ""),
    )


def folder(path: Path) -> Folder:
    """A folder, or the nearest one above it that is there."""
    there = next((p for p in (path, *path.parents) if p.exists()), None)
    writable = bool(there and there.is_dir() and os.access(there, os.W_OK | os.X_OK))
    return Folder(path=str(path), writable=writable, free_bytes=free_bytes(path))


def reach(address: str, seconds: float = ASK_SECONDS) -> tuple[bool, str]:
    """Whether anything answers there, and what went wrong where nothing does."""
    try:
        request = urllib.request.Request(address, method="HEAD")
        with urllib.request.urlopen(request, timeout=seconds):
            return True, ""
    except urllib.error.HTTPError:
        return True, ""  # an answer all the same
    except urllib.error.URLError as error:
        return False, getattr(error.reason, "strerror", None) or str(error.reason)
    except (OSError, ValueError) as error:
        return False, str(error)


def _requirements() -> tuple[tuple[str, ...], str]:
    """What lorakit needs, and which Python, by its own package."""
    try:
        own = importlib.metadata.distribution("lorakit")
    except importlib.metadata.PackageNotFoundError:
        return (), ""
    needs = [need for need in own.requires or () if "extra ==" not in need]
    return tuple(needs), str(own.metadata.json.get("requires_python", ""))


def _versions(needs: list[str]) -> dict[str, str]:
    found = {}
    for need in needs:
        name = need.partition(";")[0].split(">")[0].split("<")[0].split("=")[0].strip()
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _hubs(environ: Mapping[str, str]) -> tuple[Folder | None, Hub | None]:
    """The Hub's cache and the Hub; nothing where its client is not even installed."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return None, None
    hub = _hub(environ, constants.ENDPOINT, Path(constants.HF_TOKEN_PATH))
    return folder(Path(constants.HF_HUB_CACHE)), hub


def _hub(environ: Mapping[str, str], address: str, token: Path) -> Hub:
    named = any(environ.get(name) for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"))
    try:
        stored = token.stat().st_size > 0
    except OSError:
        stored = False
    offline = environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    reachable, failure = (None, "") if offline else reach(address)
    return Hub(
        address=address,
        offline=offline,
        token=named or stored,
        reachable=reachable,
        failure=failure,
    )


def _terminal(environ: Mapping[str, str]) -> Terminal:
    columns, lines = shutil.get_terminal_size()
    return Terminal(
        attached=sys.stdin.isatty() and sys.stderr.isatty(),
        kind=environ.get("TERM", ""),
        columns=columns,
        lines=lines,
        encoding=sys.stderr.encoding,
        no_color=bool(environ.get("NO_COLOR")),
        ssh=bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY")),
        multiplexer="tmux" if environ.get("TMUX") else "screen" if environ.get("STY") else "",
    )


def _login(environ: Mapping[str, str]) -> logout.Login:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    systemd = Path("/run/systemd/system").is_dir()
    return logout.Login(
        user=user,
        unit=logout.unit(_text(Path("/proc/self/cgroup"))),
        logind=(logout.ask() or logout.configured()) if systemd else None,
        lingers=Path("/var/lib/systemd/linger", user).exists() if systemd and user else None,
        slurm_job=environ.get("SLURM_JOB_ID", ""),
        first_process=_text(Path("/proc/1/comm")).strip(),
        container=machine.is_container(),
        wsl=machine.is_wsl(),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
