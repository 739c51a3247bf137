"""Stands in for the trainer: `stand_in.py RUN` appends events and honours requests, without torch.

The variable STAND_IN says what it does: `train N` does N steps, `wait` trains until it is asked to
stop, `noisy` does so with numbers that change, `stubborn` ends by a signal only, `fail` says why
it fails, `die` says nothing. `stand_in.py --draw ... -- RUN PROMPT` stands in for drawing, and
`stand_in.py --lock BUNDLE` for looking at what is here: that of the bundle's lock, but for what the
variable STAND_IN_LOCK says, as JSON; `--anew` is repeated on stderr.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

from lorakit.runs.events import (
    FILE,
    Doing,
    Failed,
    Finished,
    Log,
    Requested,
    Saved,
    Sensed,
    Started,
    Stepped,
)

PAUSE_SECONDS = 0.02


def main(run: Path, what: str, count: int) -> int:
    if what == "die":
        print("Traceback\n\x1b[31mImportError: libcudart.so.12", file=sys.stderr)
        return 3
    log = Log(run / FILE)
    log.append(Doing(phase="starting"))
    log.append(
        Started(
            name="ohwx [dog]",
            family="sd1",
            adapter="LoRA rank 8 on linear",
            device="CPU, 2 threads",
            steps=count,
            batch_size=4,
        )
    )
    if what == "fail":
        log.append(
            Failed(message="IMG_1.jpg ends after 12 of 48 KiB.", hint="Mend it.", exit_code=5)
        )
        return 5
    log.append(Doing(phase="training"))
    stop = run / "control" / "stop"
    for step in range(1, count + 1):
        noise = random.random() if what == "noisy" else 0.5
        log.append(
            Stepped(
                step=step,
                losses=[noise],
                learning_rate=1e-4 * noise,
                seconds=noise,
                wait_seconds=0.1 * noise,
                images=4,
            )
        )
        log.append(
            Sensed(
                memory_of="VRAM",
                memory_gib=8 * noise,
                memory_peak_gib=8 * noise,
                memory_total_gib=8.0,
                utilisation_percent=100 * noise,
                temperature_c=90 * noise,
                power_w=300 * noise,
                power_limit_w=300.0,
                ram_gib=20 * noise,
                ram_total_gib=32.0,
                disk_free_gib=100 * noise,
            )
        )
        if what != "train":
            time.sleep(PAUSE_SECONDS)
        if stop.exists() and what != "stubborn":
            log.append(Requested(what="stop", by="me@here"))
            return _end(run, log, step, "stopped")
    return _end(run, log, count, "done")


def _end(run: Path, log: Log, step: int, outcome: str) -> int:
    (run / "dog.safetensors").write_bytes(b"12345678")
    (run / "dog.diffusers.safetensors").write_bytes(b"12345678")
    log.append(Saved(step=step, path="dog.safetensors", size_bytes=8))
    log.append(
        Finished(
            outcome="done" if outcome == "done" else "stopped",
            step=step,
            files=["dog.safetensors", "dog.diffusers.safetensors", "samples/sheet.png"],
            digest="ab" * 32,
        )
    )
    return 0


def draw(*options: str) -> int:
    if options[-1] == "fail":
        print("lorakit: error: no adapter", file=sys.stderr)
        return 4
    file = Path(options[options.index("--out") + 1])
    file.write_text(" ".join(options))
    print(file)
    return 0


def look(bundle: Path) -> int:
    from lorakit.bundle.read import read

    lock = read(bundle).lock
    if lock is None or os.environ.get("STAND_IN_LOCK") == "fail":
        return 4
    print(json.dumps(lock.model_dump() | json.loads(os.environ.get("STAND_IN_LOCK", "{}"))))
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--lock":
        print(*sys.argv[3:], file=sys.stderr)
        sys.exit(look(Path(sys.argv[2])))
    if sys.argv[1] == "--draw":
        sys.exit(draw(*sys.argv[2:]))
    words = os.environ.get("STAND_IN", "train 30").split()
    sys.exit(main(Path(sys.argv[1]), words[0], int(words[1]) if len(words) > 1 else 100_000))
