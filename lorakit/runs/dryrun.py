"""Starts the dry run of a bundle in a process of its own, for what the planner's table lacks."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lorakit.bundle.models import Bundle
from lorakit.bundle.paths import absolute
from lorakit.bundle.write import write
from lorakit.errors import ExitCode, LorakitError
from lorakit.hardware.facts import Hardware
from lorakit.planner.estimate import Part, Phase
from lorakit.planner.memory import kernel
from lorakit.planner.overheads import with_overheads

COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "lorakit.train.dryrun")
"""Before the bundle. -P: files in the current folder are never imported."""

LIMIT_SECONDS = 120.0
"""SDXL takes 8 seconds on a quiet machine; a busy one may need much longer."""


def dry_run(
    bundle: Bundle, root: Path, hardware: Hardware, seconds: float = LIMIT_SECONDS
) -> tuple[Phase, ...]:
    """Memory in parts at the worst moment of each phase, counted by the step itself on no device.

    Relative paths count from `root`. Raises LorakitError where it fails, or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="lorakit-") as folder:
        file = Path(folder) / "bundle.toml"
        write(file, absolute(bundle, root))
        try:
            ran = subprocess.run(
                [*COMMAND, str(file), "--attention", kernel(bundle, hardware)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=True,
            )
            found = tuple(_phase(phase) for phase in json.loads(ran.stdout)["phases"])
        except subprocess.TimeoutExpired:
            raise LorakitError(
                f"The dry run was not done after {seconds:.0f} seconds, and was ended.",
                "Try again when this machine has less to do.",
            ) from None
        except (subprocess.CalledProcessError, ValueError, KeyError, TypeError) as error:
            said = getattr(error, "stderr", b"") or b""
            last = said.decode("utf-8", "replace").strip().splitlines()[-1:] or [str(error)]
            raise LorakitError(
                f"The dry run of {bundle.name} failed: {last[0].strip()}",
                "Training it would probably fail alike.",
                ExitCode.TRAINING_FAILED,
            ) from None
    return with_overheads(found, bundle, hardware)


def _phase(told: dict[str, Any]) -> Phase:
    parts = tuple(Part(name=str(p["name"]), gib=float(p["gib"])) for p in told["parts"])
    return Phase(name=told["name"], parts=parts)
