"""`full_disk.py BUNDLE FOLDER once|forever|closed`: a run whose disk refuses in its middle.

Once: a disk of a few MiB is mounted, filled after the first checkpoint and freed after the first
failure; forever: it stays full; closed: the folder of checkpoints may not be written meanwhile.
Started in namespaces of its own, so that it may mount, nobody else sees it, and the permissions
hold for root too. Prints what happened as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from trainings import trained, watched

from lorakit import durable
from lorakit.bundle.read import read
from lorakit.errors import LorakitError
from lorakit.runs import checkpoints
from lorakit.runs.events import Event, Saved, SaveFailed

SIZE_MIB = 6


def main(bundle: Path, place: Path, how: str) -> dict[str, object]:
    if how != "closed":
        size = f"size={SIZE_MIB}m"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", str(place)], check=True)
    run, ballast = place / "run", place / "ballast"
    log = watched(run)
    after_failure: list[list[int]] = []

    def react(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 2:
            if how == "closed":
                (run / "checkpoints").chmod(0o555)
            else:
                fill(ballast)
        if isinstance(event, SaveFailed):
            after_failure.append(checkpoints.complete(run))
            if how == "closed":
                (run / "checkpoints").chmod(0o755)
            elif how == "once":
                ballast.unlink()

    log.reactions.append(react)
    told: dict[str, object] = {}
    try:
        finished = trained(read(bundle), run, log)
        told = {"outcome": finished.outcome, "exit_code": finished.exit_code}
    except LorakitError as error:
        told = {"error": error.message, "exit_code": error.code}
    ballast.unlink(missing_ok=True)
    return {
        **told,
        "failed": [e.step for e in log.of(SaveFailed)],
        "reasons": sorted({e.reason for e in log.of(SaveFailed)}),
        "complete_after_failure": after_failure,
        "complete": checkpoints.complete(run),
        "leftovers": [str(p) for p in durable.leftovers(run / checkpoints.FOLDER)],
        "adapters": sorted(p.name for p in run.glob("*.safetensors")),
    }


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
