"""`lorakit diff`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from lorakit.bundle import diff as meaning
from lorakit.bundle.paths import absolute
from lorakit.cli import streams
from lorakit.cli.given import Given, given
from lorakit.errors import ExitCode
from lorakit.runs.compare import Comparison, result_in, result_of, results
from lorakit.runs.directory import runs_root
from lorakit.runs.words import clean


def diff(then: str, now: str, runs: Path | None, as_json: bool) -> int:
    """Print what differs between two bundles or runs; like diff(1), 1 where anything does."""
    root = runs_root(runs)
    a, b = given(then, root), given(now, root)
    settings = meaning.of_bundles(absolute(a.bundle, a.folder), absolute(b.bundle, b.folder))
    locks: list[meaning.Difference] = []
    if a.bundle.lock is not None and b.bundle.lock is not None:
        two = a.bundle.lock, b.bundle.lock
        locks = [*meaning.of_locks(*two), *meaning.of_changes(*two)]
    compared = _results(a, b)
    same = not settings and not locks and (compared is None or compared.same is not False)
    if as_json:
        result = {"same": compared.same, **dataclasses.asdict(compared)} if compared else None
        told = {"same": same, "settings": _plain(settings), "lock": _plain(locks), "result": result}
        streams.out_json(told)
    else:
        lines = [*map(str, settings), *(f"lock: {line}" for line in meaning.lines(locks))]
        lines += compared.lines() if compared else []
        streams.out(*map(clean, lines))
        if same:
            streams.err("nothing differs")
    return ExitCode.OK if same else 1


def _results(a: Given, b: Given) -> Comparison | None:
    """None where one of the two is a bundle that nobody has trained."""
    if not all(x.run or (x.bundle.lock and x.bundle.lock.result) for x in (a, b)):
        return None
    one, other = (result_of(x.run) if x.run else result_in(x.bundle.lock) for x in (a, b))
    return results(one, other)


def _plain(found: list[meaning.Difference]) -> list[dict[str, Any]]:
    return [{"what": d.what, "then": d.then, "now": d.now} for d in found]
