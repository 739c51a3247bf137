"""`lorakit replay`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pydantic import ValidationError

from lorakit.bundle import diff, read
from lorakit.bundle.lock import Lock
from lorakit.bundle.models import Bundle
from lorakit.bundle.paths import absolute, pinned
from lorakit.bundle.write import write
from lorakit.cli import streams
from lorakit.cli.examined import judge
from lorakit.cli.given import Given, given
from lorakit.cli.machine import believed, say_judged
from lorakit.cli.train import start, start_detached
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs.compare import result_of
from lorakit.runs.directory import Run, create, every, runs_root
from lorakit.runs.launch import environment
from lorakit.runs.words import clean

LOCK: tuple[str, ...] = (sys.executable, "-P", "-m", "lorakit.train.lock")
"""The command that says what a training would use here, before the bundle."""


def replay(
    name: str,
    strict: bool,
    runs: Path | None,
    detach: bool = False,
    machine: Path | None = None,
) -> int:
    """Train a bundle or a run again: say what differs from its lock first, and how it ended.

    Detached, the one who watches its end is told how it ended.
    """
    begin = start_detached if detach else start
    root, hardware = runs_root(runs), believed(machine)
    source = given(name, root)
    then, bundle = source.bundle.lock, pinned(source.bundle)
    if then is None:
        what = f"{source.path} has no lock: what its training used is not known."
        if strict:
            raise LorakitError(what, "Without --strict it is trained as it stands.")
        streams.err(clean(f"{what} It is trained as it stands."))
    judged = judge(bundle, source.path, runs=runs, hardware=hardware)
    problems = [*source.notes, *judged.problems]
    streams.problems(problems, str(source.path))
    if errors := [p for p in problems if p.severity == "error"]:
        return errors[0].code
    say_judged(hardware, machine)
    if then is None:
        return begin(create(bundle, root, source.folder), judged.estimate)

    streams.err("looking at what is here: versions, pictures, base ...")
    now = present(absolute(bundle, source.folder), anew=strict)
    home = original(source, then, root)
    found = diff.of_locks(then, now)
    # The bundle has what was changed as it was in the end, and a replay has it so from the start.
    refused = [*found, *diff.of_changes(then, now)] if strict else []
    lines = diff.lines(refused, None) if strict else diff.lines(found)
    if home and any(d.what == "settings" for d in found):
        settings = diff.of_bundles(read.read(home.bundle), absolute(source.bundle, source.folder))
        lines += map(str, settings)
    if then.base.digest and not now.base.digest:
        lines.append("base  not here yet: it is downloaded, and compared at the end")
    streams.err(*(clean(f"  {line}") for line in lines))
    if refused:
        raise LorakitError(
            f"Differences from the lock: {len(refused)}, and --strict allows none.",
            "Undo them, or replay without --strict.",
        )
    streams.err(clean(diff.promise(then, now, found)[1]))
    # The trainer takes its threads from the lock, and then puts its own in that place.
    waiting = bundle.model_copy(update={"lock": then.model_copy(update={"result": None})})
    kept = then.model_copy(update={"run": str(home.path) if home else ""})
    repeated = source.bundle.model_copy(update={"lock": kept})
    return begin(create(waiting, root, source.folder, original=repeated), judged.estimate)


def original(source: Given, then: Lock, root: Path) -> Run | None:
    """The run that a lock is from: the one that was given, else the one of its name and digest."""
    if source.run is not None:
        return source.run
    named = next((run for run in every(root) if run.name == then.run), None)
    wanted = then.result.digest if then.result else ""
    return named if named and wanted and result_of(named).digest == wanted else None


def present(bundle: Bundle, anew: bool) -> Lock:
    """What a training of this bundle would use here; a process of its own finds it out.

    Its paths are absolute; `anew`: no digest of the base is taken from the cache. Raises
    LorakitError where that process fails.
    """
    with tempfile.TemporaryDirectory(prefix="lorakit-") as folder:
        file = Path(folder) / "bundle.toml"
        write(file, bundle)
        command = [*LOCK, str(file), *(["--anew"] if anew else [])]
        told = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=environment(),
            check=False,
        )
    try:
        return Lock.model_validate_json(told.stdout)
    except ValidationError:
        raise LorakitError(
            f"What is here could not be found out (exit code {told.returncode}).",
            "The reason is in the lines above.",
            ExitCode.TRAINING_FAILED,
        ) from None
