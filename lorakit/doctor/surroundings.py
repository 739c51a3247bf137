"""What is around a training besides the hardware: facts, and how they are judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lorakit.doctor import logout
from lorakit.doctor.checks import Check, bad, doubtful, good
from lorakit.doctor.logout import Login
from lorakit.runs.words import number, size

GIB = 1024**3

WIDTH, HEIGHT = 80, 24
"""What every screen of lorakit fits into."""

LEAST_BYTES = GIB
"""No run or cache gets by with less."""

BASE_BYTES = 10 * GIB
"""A base of SDXL takes 7 GiB, one of SD 1.5 less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Where something is written, now or once it is made."""

    path: str
    writable: bool
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """The way to base models by Hub id."""

    address: str = ""
    offline: bool = False
    """Whether HF_HUB_OFFLINE forbids it."""
    token: bool = False
    """Whether there is one. What it is stays where it is."""
    reachable: bool | None = None
    """None: nobody asked."""
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """What is looked through."""

    attached: bool = False
    kind: str = ""
    """TERM."""
    columns: int = WIDTH
    lines: int = HEIGHT
    encoding: str = ""
    no_color: bool = False
    ssh: bool = False
    multiplexer: str = ""
    """tmux or screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """All of it."""

    python: tuple[int, int, int]
    python_wanted: str = ""
    """As lorakit's own package says, `>=3.11`."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the packages that are installed: lorakit, what it needs, and what may be in its way."""
    needs: tuple[str, ...] = ()
    """What lorakit needs: `torch>=2.11`."""
    runs: Folder
    cache: Folder
    """Of lorakit: latents and texts."""
    bases: Folder | None
    """Of the Hub: base models. None, as for the Hub, where its client is not installed."""
    hub: Hub | None
    terminal: Terminal
    login: Login
    threads_set: str = ""
    """OMP_NUM_THREADS."""


def before(found: Surroundings) -> list[Check]:
    """Python and its packages: what comes before the machine."""
    return [_python(found), *_packages(found), *_pynvml(found)]


def after(found: Surroundings) -> list[Check]:
    """Disk, network, terminal and login."""
    return [
        _folder("runs", found.runs, "set LORAKIT_RUNS or --runs", LEAST_BYTES),
        _folder("cache", found.cache, "set LORAKIT_CACHE", LEAST_BYTES),
        *_of_hub(found.bases, found.hub),
        _terminal(found.terminal),
        _session(found.terminal),
        logout.check(found.login),
    ]


def _python(found: Surroundings) -> Check:
    has = ".".join(map(str, found.python))
    least = _least(f"python{found.python_wanted}")
    if least and found.python < least[1]:
        return bad(
            "python",
            f"Python {has} is older than {found.python_wanted.lstrip('>=')}.",
            "Install lorakit into a newer Python: python3.12 -m venv lorakit-env",
        )
    return good("python", has)


def _packages(found: Surroundings) -> list[Check]:
    checks = []
    for need in found.needs:
        least = _least(need)
        if least is None or least[0] == "torch":
            continue  # PyTorch has a line of its own
        name, wanted = least
        has = found.versions.get(name)
        if has is None:
            cure = f'pip install "{need}"'
            checks.append(bad("packages", f"{name} is not installed; lorakit needs {need}.", cure))
        elif _numbers(has) < wanted:
            cure = f'pip install --upgrade "{need}"'
            checks.append(doubtful("packages", f"{name} {has} is older than {need}.", cure))
    if checks:
        return checks
    told = ("lorakit", "diffusers", "transformers", "peft", "accelerate")
    return [good("packages", ", ".join(f"{n} {found.versions.get(n, '--')}" for n in told))]


def _pynvml(found: Surroundings) -> list[Check]:
    old = found.versions.get("pynvml")
    if old is None:
        return []
    return [
        doubtful(
            "pynvml",
            f"pynvml {old} is installed beside nvidia-ml-py, under the same module name: which of "
            "them answers is chance, and PyTorch warns about it.",
            "pip uninstall -y pynvml && pip install --force-reinstall nvidia-ml-py",
        )
    ]


def _folder(name: str, folder: Folder, elsewhere: str, least: int) -> Check:
    free = size(folder.free_bytes)
    if not folder.writable:
        return bad(name, f"{folder.path} cannot be written.", f"Change its rights, or {elsewhere}.")
    if folder.free_bytes is not None and folder.free_bytes < least:
        return bad(
            name, f"{free} are free in {folder.path}.", f"Make room on its disk, or {elsewhere}."
        )
    return good(name, f"{folder.path}, {free} free")


def _of_hub(bases: Folder | None, hub: Hub | None) -> list[Check]:
    if bases is None or hub is None:
        what = "huggingface-hub is not installed: no base model can be read or downloaded."
        return [bad("hub", what, "pip install huggingface-hub")]
    return [_bases(bases), _hub(hub), _token(hub)]


def _bases(folder: Folder) -> Check:
    free = size(folder.free_bytes)
    if not folder.writable:
        return doubtful(
            "bases",
            f"{folder.path} cannot be written: no base model can be downloaded.",
            "Change its rights, or set HF_HOME.",
        )
    if folder.free_bytes is not None and folder.free_bytes < BASE_BYTES:
        return doubtful(
            "bases",
            f"{free} are free in {folder.path}, and a base model takes up to "
            f"{BASE_BYTES / GIB:.0f} GiB.",
            "Make room on its disk, or set HF_HOME.",
        )
    return good("bases", f"{folder.path}, {free} free")


def _hub(hub: Hub) -> Check:
    if hub.offline:
        return good("hub", "HF_HUB_OFFLINE is set: only bases that are here")
    if hub.reachable is None:
        return good("hub", "not asked")
    if hub.reachable:
        return good("hub", f"{hub.address} answers")
    return doubtful(
        "hub",
        f"{hub.address} does not answer ({hub.failure}).",
        "Look at network and proxy (HTTPS_PROXY). Bases that are here can be used without it.",
    )


def _token(hub: Hub) -> Check:
    what = "there is one" if hub.token else "none; only bases that ask for a login need one"
    return good("token", what)


def _terminal(terminal: Terminal) -> Check:
    if not terminal.attached:
        return good("terminal", "none: commands write plain lines")
    shape = f"{terminal.columns} x {terminal.lines}"
    if terminal.kind in ("", "dumb", "unknown"):
        return doubtful(
            "terminal",
            f"TERM={terminal.kind or '(empty)'} cannot draw: the wizard asks line by line.",
            "lorakit new --plain, or export TERM=xterm-256color where the terminal can.",
        )
    if terminal.columns < WIDTH or terminal.lines < HEIGHT:
        return doubtful(
            "terminal",
            f"It is {shape}, and screens need {WIDTH} x {HEIGHT}.",
            "Make the window larger or its letters smaller, or use lorakit new --plain.",
        )
    if "utf" not in terminal.encoding.lower():
        return doubtful(
            "terminal",
            f"Its encoding is {terminal.encoding or 'unknown'}: bars are drawn in ASCII.",
            "export LC_ALL=C.UTF-8",
        )
    colours = "without colours (NO_COLOR)" if terminal.no_color else "colours"
    return good("terminal", f"{shape}, {terminal.kind}, {terminal.encoding}, {colours}")


def _session(terminal: Terminal) -> Check:
    place = "over SSH" if terminal.ssh else "on this machine"
    inside = f", inside {terminal.multiplexer}" if terminal.multiplexer else ""
    return good("session", f"{place}{inside}; a training needs neither to stay")


def threads(found: Surroundings, available: int) -> Check:
    """Threads that the CPU's part of a training gets."""
    given = found.threads_set
    if given.isdigit() and 0 < int(given) < available / 2:
        return doubtful(
            "threads",
            f"OMP_NUM_THREADS={given} leaves {available - int(given)} of {available} threads "
            "without work.",
            "unset OMP_NUM_THREADS",
        )
    said = f", OMP_NUM_THREADS={given}" if given else ""
    return good("threads", f"{number(available, '.0f')}{said}")


def _least(need: str) -> tuple[str, tuple[int, ...]] | None:
    """The name and the lowest version of a requirement such as `textual<9,>=8.2.8`."""
    name = re.match(r"[A-Za-z0-9._-]+", need)
    least = re.search(r">=\s*([0-9.]+)", need)
    return (name[0], _numbers(least[1])) if name and least else None


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()
