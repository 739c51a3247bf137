"""What becomes of a training that goes on by itself when its person logs out."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lorakit.doctor.checks import Check, doubtful, good

Unit = Literal["session", "user manager", "other"]
"""What systemd counts a process to: a login, the user's own services, or neither."""

_TRUE = {"1", "yes", "y", "true", "t", "on"}
_FALSE = {"0", "no", "n", "false", "f", "off"}

_FOLDERS = ("etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd")
"""Where logind's files are, the first of which wins."""

_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ash", "ksh"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Logind:
    """How logind ends what a login leaves behind. None: it does not say."""

    kills: bool | None = None
    only: tuple[str, ...] = ()
    """Users that it does this to; all where there is none."""
    exclude: tuple[str, ...] = ("root",)

    def ends(self, user: str) -> bool | None:
        """Whether it ends what this user leaves behind."""
        if user in self.exclude or (self.only and user not in self.only):
            return False
        return self.kills


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What decides whether a process outlives its login."""

    user: str = ""
    unit: Unit = "other"
    logind: Logind | None = None
    """None: this machine has none."""
    lingers: bool | None = None
    """Whether the user's own services go on without a login."""
    slurm_job: str = ""
    first_process: str = ""
    """Name of process 1."""
    container: bool = False
    wsl: bool = False


def check(login: Login) -> Check:
    """What becomes of a detached training, and how to keep it."""
    name, start = "logout", "systemd-run --user --scope lorakit train BUNDLE --detach"
    linger = f"loginctl enable-linger {login.user}".rstrip()
    if login.slurm_job:
        return doubtful(
            name,
            f"Slurm ends every process of job {login.slurm_job} together with the job.",
            "Give the job time enough, and go on in another with lorakit train RUN --resume.",
        )
    if login.container:
        if login.first_process in _SHELLS:
            return doubtful(
                name,
                f"This container ends with its first process, {login.first_process}; a detached "
                "training ends with it.",
                "Leave it with Ctrl-P Ctrl-Q, or keep it up: docker run -d ... sleep infinity, "
                "and docker exec to get in.",
            )
        return good(
            name, f"goes on as long as the container does ({login.first_process or 'process 1'})"
        )
    if login.wsl:
        return doubtful(
            name,
            "Windows ends WSL some time after its last window closes, and a training with it.",
            "Leave one window of WSL open.",
        )
    if login.unit == "user manager" and login.lingers is False:
        return doubtful(
            name,
            "This terminal belongs to your desktop session: what it leaves running ends with your "
            "last login.",
            f"{linger}, once and for all.",
        )
    if login.unit == "session" and login.logind is not None:
        ends = login.logind.ends(login.user)
        if ends:
            before = "" if login.lingers else f"{linger}, then start it with "
            return doubtful(
                name,
                "logind ends what you leave running when you log out (KillUserProcesses=yes).",
                f"{before}{start}",
            )
        if ends is None:
            return doubtful(
                name,
                "Whether logind ends what you leave running at logout could not be found out.",
                f"To be sure: {start}",
            )
    return good(name, "a detached training goes on after you log out")


def configured(root: Path = Path("/")) -> Logind | None:
    """What logind's files say; None where there is none of them.

    The first main file counts. Drop-ins are read after it in the order of their names, and of those
    with one name the first counts.
    """
    folders = [root / folder for folder in _FOLDERS]
    main = next((f / "logind.conf" for f in folders if (f / "logind.conf").is_file()), None)
    dropped: dict[str, Path] = {}
    for folder in folders:
        for file in (folder / "logind.conf.d").glob("*.conf"):
            dropped.setdefault(file.name, file)
    files = [main] if main else []
    texts = [_text(f) for f in (*files, *(dropped[name] for name in sorted(dropped)))]
    return parse(texts) if texts else None


def parse(texts: Iterable[str]) -> Logind:
    """The settings in logind's files, the later ones winning.

    A main file shows what was chosen when systemd was built as a comment.
    """
    kills: bool | None = None
    lists: dict[str, list[str]] = {"KillOnlyUsers": [], "KillExcludeUsers": ["root"]}
    for number, text in enumerate(texts):
        built = re.search(r"^\s*#\s*KillUserProcesses\s*=\s*(\w+)", text, re.MULTILINE)
        if number == 0 and built:
            kills = _boolean(built[1])
        section = ""
        for line in text.splitlines():
            line = line.strip()
            if line.startswith("["):
                section = line
            key, equals, value = (part.strip() for part in line.partition("="))
            if section != "[Login]" or not equals or key.startswith(("#", ";")):
                continue
            if key == "KillUserProcesses":
                said = _boolean(value)
                kills = kills if said is None else said
            elif key in lists:
                lists[key] = [*lists[key], *value.split()] if value else []
    return Logind(
        kills=kills,
        only=tuple(lists["KillOnlyUsers"]),
        exclude=tuple(lists["KillExcludeUsers"]),
    )


def answered(text: str) -> Logind | None:
    """What logind itself answers to `busctl get-property`: a boolean and two lists of names."""
    lines = text.splitlines()
    if len(lines) != 3 or not lines[0].startswith("b "):
        return None
    only, exclude = (tuple(re.findall(r'"([^"]*)"', line)) for line in lines[1:])
    return Logind(kills=_boolean(lines[0][2:]), only=only, exclude=exclude)


def ask() -> Logind | None:
    """What logind says of itself; None where it cannot be asked."""
    bus = "org.freedesktop.login1"
    words = ("KillUserProcesses", "KillOnlyUsers", "KillExcludeUsers")
    try:
        told = subprocess.run(
            ["busctl", "get-property", bus, "/org/freedesktop/login1", f"{bus}.Manager", *words],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=3,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answered(told.stdout)


def unit(cgroup: str) -> Unit:
    """What systemd counts a process to, by its /proc/PID/cgroup."""
    if re.search(r"/session-[^/]+\.scope", cgroup):
        return "session"
    return "user manager" if re.search(r"/user@\d+\.service", cgroup) else "other"


def _boolean(word: str) -> bool | None:
    word = word.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
