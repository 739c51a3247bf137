"""The directory of a run: where runs live, how one is made and how one is found by a short name."""

from __future__ import annotations

import difflib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lorakit.errors import LorakitError
from lorakit.runs import events
from lorakit.runs.state import RunState, replay
from lorakit.runs.status import Status, is_running, lives, status_of
from lorakit.runs.words import clean

if TYPE_CHECKING:
    from lorakit.bundle.models import Bundle

BUNDLE = "bundle.toml"
ORIGINAL = "replay-of.toml"

_STAMPED = re.compile(r"(?P<name>.+)-(?P<date>\d{8})-(?P<time>\d{6})(?:-(?P<number>\d+))?")


def runs_root(override: Path | None = None) -> Path:
    """Where runs live: as told, else `$LORAKIT_RUNS`, else `~/lorakit/runs`. Absolute."""
    chosen = override or Path(os.environ.get("LORAKIT_RUNS") or "~/lorakit/runs")
    return Path(os.path.abspath(chosen.expanduser()))


@dataclass(frozen=True, slots=True)
class Run:
    """A directory with all that there is of one training. `path` is absolute."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the directory."""
        return self.path.name

    @property
    def title(self) -> str:
        """The name without date and time."""
        stamped = _STAMPED.fullmatch(self.name)
        return stamped["name"] if stamped else self.name

    @property
    def bundle(self) -> Path:
        """The bundle that is trained, with absolute paths in it."""
        return self.path / BUNDLE

    @property
    def original(self) -> Path:
        """Of a replay: the bundle that it repeats, with the lock of then."""
        return self.path / ORIGINAL

    @property
    def events(self) -> Path:
        """What the trainer says."""
        return self.path / events.FILE

    @property
    def log(self) -> Path:
        """What the trainer and its libraries print."""
        return self.path / "train.log"

    @property
    def control(self) -> Path:
        """Where requests to the trainer are laid."""
        return self.path / "control"

    @property
    def process(self) -> dict[str, Any]:
        """`run.json`: the process and its versions, or nothing before it is started."""
        try:
            found = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def state(self) -> RunState:
        """The fold of all events so far."""
        return replay(events.Tail(self.events).read())

    def lives(self, state: RunState) -> bool:
        """Whether its trainer runs."""
        return lives(self.process, state, time.time())

    @property
    def asked_to_stop(self) -> bool:
        """Whether a request to stop lies there. Its trainer takes it away when it has stopped."""
        return (self.control / "stop").exists()

    def status(self, state: RunState | None = None) -> Status:
        """What the run is doing now; `state` saves reading the events again."""
        seen = self.state() if state is None else state
        found = status_of(seen, self.lives(seen), self.asked_to_stop)
        if found == "lost" and state is None:  # it may have ended well since its events were read
            found = status_of(self.state(), False)
        return found

    @property
    def _order(self) -> tuple[str, int]:
        """Sorts by the time a run was made: from its name, else from its directory."""
        stamped = _STAMPED.fullmatch(self.name)
        if stamped:
            return stamped["date"] + stamped["time"], int(stamped["number"] or 1)
        changed = time.localtime(self.path.stat().st_mtime)
        return time.strftime("%Y%m%d%H%M%S", changed), 1


def create(
    bundle: Bundle,
    root: Path,
    folder: Path,
    reasons: Mapping[str, str] = MappingProxyType({}),
    original: Bundle | None = None,
) -> Run:
    """A new run directory below `root`, with the bundle in it and the `reasons` for its values.

    `folder` is what the bundle's relative paths count from. A lock in it is that of another run and
    is dropped, unless this one replays it: then `original` is the bundle to compare with at the
    end. Raises LorakitError where `root` cannot be written.
    """
    from lorakit.bundle.paths import absolute
    from lorakit.bundle.write import write

    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        root.mkdir(parents=True, exist_ok=True)
        run = Run(_fresh(root, f"{bundle.name}-{stamp}"))
        for part in ("control", "samples", "checkpoints"):
            (run.path / part).mkdir()
        if original is not None:
            write(run.original, absolute(original, folder))
        kept = bundle.lock if original is not None else None
        write(run.bundle, absolute(bundle.model_copy(update={"lock": kept}), folder), reasons)
    except OSError as error:
        raise LorakitError(
            f"No run can be made in {root}: {error.strerror or error}.",
            "Choose another place with --runs DIR or the variable LORAKIT_RUNS.",
        ) from error
    return run


def _fresh(root: Path, name: str) -> Path:
    """A directory made now, with `-2`, `-3` behind its name where that is taken."""
    number = 1
    while True:
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def every(root: Path) -> list[Run]:
    """All runs below `root`, newest first."""
    try:
        folders = [p for p in root.iterdir() if _is_run(p)]
    except OSError:
        return []
    return sorted((Run(p) for p in folders), key=lambda run: run._order, reverse=True)


def _is_run(path: Path) -> bool:
    # Not Path.is_file, which raises for a folder of somebody else's that may not be entered.
    return os.path.isfile(path / BUNDLE) or os.path.isfile(path / events.FILE)


def find(name: str | None, root: Path) -> Run:
    """The run meant by a directory, a name, a name without date (the newest) or a unique start.

    None means the newest that is running, else the newest. Raises LorakitError with the names that
    there are.
    """
    runs = every(root)
    if name is None:
        return _newest(runs, root)
    for matches in (
        [run for run in runs if run.name == name],
        [run for run in runs if run.title == name][:1],
    ):
        if matches:
            return matches[0]
    path = Path(os.path.abspath(Path(name).expanduser()))
    if _is_run(path):
        return Run(path)
    starting = [run for run in runs if name and run.name.startswith(name)]
    if len(starting) == 1:
        return starting[0]
    if starting:
        raise LorakitError(
            f"{clean(name)} is the start of {len(starting)} runs.", f"Which one? {_names(starting)}"
        )
    raise LorakitError(f"There is no run {clean(name)} in {root}.", _meant(name, runs))


def _newest(runs: list[Run], root: Path) -> Run:
    if not runs:
        raise LorakitError(
            f"There is no run in {root}.", "Start one: lorakit train BUNDLE, or lorakit demo."
        )
    return next((run for run in runs if is_running(run.status())), runs[0])


def _meant(name: str, runs: list[Run]) -> str:
    if not runs:
        return "There are no runs there yet. --runs DIR or LORAKIT_RUNS names another place."
    known = list(dict.fromkeys([run.title for run in runs] + [run.name for run in runs]))
    near = difflib.get_close_matches(name, known, n=1)
    return (f"Did you mean {near[0]}? " if near else "") + f"There are {_names(runs)}"


def _names(runs: Iterable[Run], limit: int = 10) -> str:
    names = [clean(run.name) for run in runs]
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more + "."
