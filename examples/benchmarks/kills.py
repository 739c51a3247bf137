"""Kill a training again and again, go on each time, and compare what comes out.

    python examples/benchmarks/kills.py [--kills 200] [--runs 20] [--seed 0] [--jobs 2]
                                        [--phase caching]

Each run is killed (SIGKILL) at random moments while it caches, trains, saves, samples or starts, or
in one of these alone, and is gone on with until it is done. Its adapter must be the unbroken run's
to the last byte, and no step that was saved may be lost. Prints a table; exit code 1 where anything
differs.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lorakit.bundle.models import Bundle
from lorakit.bundle.read import read
from lorakit.runs.directory import Run, create
from lorakit.runs.events import Doing, Event, Finished, Resumed, Saved, Tail
from lorakit.runs.launch import launch

PHASES = ("starting", "caching", "training", "saving", "sampling")
ENVIRONMENT = threading.Lock()
HERE = Path(__file__).resolve().parent
SHORT = (
    "train.steps=24", "train.batch_size=2", "train.warmup_steps=4", "sample.every=6",
    "sample.steps=4", "save.every=4", "save.keep=2",
)  # fmt: skip


@dataclass
class Outcome:
    """What became of one run."""

    digest: str = ""
    killed: collections.Counter[str] = field(default_factory=collections.Counter)
    lost: list[str] = field(default_factory=list)
    """Saved steps that were not gone on from."""
    processes: int = 0


def unbroken(bundle: Bundle, root: Path, folder: Path) -> str:
    """The digest of a run that nobody disturbs."""
    run = create(bundle, root, folder)
    if _started(run, root / "cache").wait():
        raise SystemExit(f"the unbroken run failed, see {run.log}")
    return _digest(run)


def broken(
    bundle: Bundle,
    root: Path,
    folder: Path,
    kills: int,
    seed: int,
    phases: Sequence[str] = PHASES,
) -> Outcome:
    """One run with `kills` kills, gone on with until it is done."""
    draw = random.Random(seed)
    run, made, seen = create(bundle, root, folder), Outcome(), _Seen()
    while not seen.done:
        process = _started(run, run.path / "cache")
        made.processes += 1
        if made.killed.total() < kills:
            phase = draw.choice(phases)
            if _reaches(run, process, seen, phase):
                time.sleep(draw.uniform(0, 0.4) if phase != "saving" else draw.uniform(0, 0.03))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        seen.look(run)
        if process.returncode == -signal.SIGKILL:
            made.killed[seen.phase] += 1
        elif process.returncode:
            raise SystemExit(f"a run failed, see {run.log}")
    made.lost = seen.lost
    made.digest = _digest(run)
    return made


class _Seen:
    """What a run has said so far."""

    def __init__(self) -> None:
        self.phase = "starting"
        self.done = False
        self.lost: list[str] = []
        self._tail: Tail | None = None
        self._saved = 0

    def look(self, run: Run, wanted: Callable[[Event], bool] = lambda _: False) -> bool:
        """Take in what is new, and say whether something wanted was among it."""
        self._tail = self._tail or Tail(run.events)
        found = False
        for event in self._tail.read():
            found = found or wanted(event)
            match event:
                case Doing():
                    self.phase = event.phase
                case Saved():
                    self._saved = max(self._saved, event.step)
                case Resumed() if event.step < self._saved:
                    self.lost.append(f"{run.name}: saved {self._saved}, resumed {event.step}")
                case Finished():
                    self.done = event.outcome == "done"
        return found


def _reaches(run: Run, process: subprocess.Popen[bytes], seen: _Seen, phase: str) -> bool:
    """Wait until the run is in a phase; False where it ends before."""
    while process.poll() is None:
        if seen.look(run, lambda e: isinstance(e, Doing) and e.phase == phase):
            return True
        time.sleep(0.002)
    return False


def _started(run: Run, cache: Path) -> subprocess.Popen[bytes]:
    # Each run has a cache of its own, so that there is something to encode in each.
    with ENVIRONMENT:
        os.environ["LORAKIT_CACHE"] = str(cache)
        return launch(run)


def _digest(run: Run) -> str:
    ended = run.state().ended
    return ended.digest if isinstance(ended, Finished) else ""


def table(outcomes: list[Outcome], expected: str) -> list[str]:
    """What happened, a line each."""
    killed = sum((o.killed for o in outcomes), collections.Counter[str]())
    same = sum(o.digest == expected for o in outcomes)
    lost = [line for o in outcomes for line in o.lost]
    return [
        f"{'killed while':<14} {'times':>5}",
        *(f"{phase:<14} {killed[phase]:>5}" for phase in PHASES),
        f"{'in all':<14} {killed.total():>5}",
        f"runs completed {len(outcomes)}, processes {sum(o.processes for o in outcomes)}",
        f"the same digest as the unbroken run ({expected[:12]}): {same} of {len(outcomes)}",
        f"saved steps lost: {len(lost)}",
        *lost,
    ]


def kill(
    bundle: Bundle,
    folder: Path,
    root: Path,
    kills: int,
    runs: int,
    seed: int,
    jobs: int,
    phases: Sequence[str] = PHASES,
) -> tuple[list[Outcome], str]:
    """`kills` kills over at least `runs` runs; returns what became of each, and the digest of an
    unbroken run. A run that ends before a kill finds it leaves that kill to another one."""
    expected = unbroken(bundle, root, folder)
    outcomes: list[Outcome] = []
    while left := max(0, kills - sum(o.killed.total() for o in outcomes)):
        count = max(1, runs - len(outcomes))
        share = [left // count + (number < left % count) for number in range(count)]
        with ThreadPoolExecutor(jobs) as pool:
            started = [
                pool.submit(
                    broken, bundle, root, folder, each, seed * 1000 + len(outcomes) + n, phases
                )
                for n, each in enumerate(share)
            ]
            outcomes += [s.result() for s in started]
    return outcomes, expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--phase", choices=PHASES, help="kill in this one alone")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    examples = HERE.parent
    bundle = read(examples / "robots.toml", SHORT)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        outcomes, expected = kill(
            bundle,
            examples,
            Path(scratch),
            args.kills,
            args.runs,
            args.seed,
            args.jobs,
            (args.phase,) if args.phase else PHASES,
        )
    print("\n".join(table(outcomes, expected)))
    print(f"{time.monotonic() - started:.0f} s")
    return any(o.digest != expected or o.lost for o in outcomes)


if __name__ == "__main__":
    raise SystemExit(main())
