"""`lorakit runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorakit.cli import streams
from lorakit.runs import words
from lorakit.runs.directory import Run, every, runs_root


def list_runs(root: Path | None, as_json: bool) -> int:
    """Print all runs, newest first."""
    where = runs_root(root)
    found = [_facts(run) for run in every(where)]
    if as_json:
        streams.out_json(found)
    elif not found:
        streams.err(
            f"There is no run in {where}. Start one: lorakit train BUNDLE, or lorakit demo."
        )
    else:
        streams.out(*_table(found))
    return 0


def _facts(run: Run) -> dict[str, Any]:
    state = run.state()
    return {
        "name": run.name,
        "path": str(run.path),
        "status": run.status(state),
        "step": state.step,
        "steps": state.steps,
        "percent": state.percent,
        "loss": state.course.loss,
        "eta_seconds": state.eta_seconds,
    }


def _table(found: list[dict[str, Any]]) -> list[str]:
    """Columns as wide as what stands in them; the name comes last, for its length is free."""
    rows = [("STATUS", "STEP", "%", "LOSS", "ETA", "RUN")]
    for run in found:
        steps = words.UNKNOWN if run["steps"] is None else run["steps"]
        rows.append(
            (
                run["status"],
                f"{run['step']}/{steps}",
                words.number(run["percent"], ".0f"),
                words.number(run["loss"], ".4f"),
                words.duration(run["eta_seconds"]),
                words.clean(run["name"]),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row[:5], widths, strict=True)), row[5]])
        for row in rows
    ]
