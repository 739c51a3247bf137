"""How a replay ended: the same LoRA or not, and whether that was promised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lorakit.bundle import diff
from lorakit.bundle.diff import Difference
from lorakit.bundle.lock import Lock
from lorakit.bundle.read import read
from lorakit.runs.compare import Comparison, Result, result_in, result_of, results
from lorakit.runs.directory import Run
from lorakit.runs.words import clean


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be said at the end of a replay."""

    differences: tuple[Difference, ...]
    """Between the lock of then and the lock of this run."""
    promised: bool
    """Whether the same bytes were promised."""
    why: str
    comparison: Comparison

    @property
    def broken(self) -> bool:
        """The same bytes were promised and did not come."""
        return self.promised and self.comparison.same is False

    @property
    def lines(self) -> list[str]:
        """In words, the answer first."""
        first, *rest = self.comparison.lines()
        named = (f"    {line}" for line in diff.lines(self.differences))
        said = [f"replay: {first}", *rest, f"  {self.why}", *named]
        if self.broken:
            said.append("  This should not be. Please report it, with bundle.toml of both runs.")
        return [clean(line) for line in said]  # a lock may be a stranger's


def verdict(run: Run) -> Verdict:
    """Judge a replay by the bundle that it repeats, which lies beside its own.

    Raises LorakitError where one of the files is damaged.
    """
    then, now = read(run.original).lock, read(run.bundle).lock
    if then is None or now is None:
        found, promised, why = [], False, "same bytes promised: no, a lock was not written"
    else:
        found = diff.of_locks(then, now)
        promised, why = diff.promise(then, now, found)
    return Verdict(
        differences=tuple(found),
        promised=promised,
        why=why,
        comparison=results(_then(then), result_of(run)),
    )


def _then(lock: Lock | None) -> Result:
    """From the run of then, where it is here and still has that result: its folder stands in the
    lock."""
    told = result_in(lock)
    home = Path(lock.run) if lock and lock.run else None
    if home and home.is_absolute() and Run(home).events.is_file():
        found = result_of(Run(home))
        return found if found.digest == told.digest else told
    return told
