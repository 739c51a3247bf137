"""`python -m lorakit.train.bench`: measures training steps, one JSON line in, one JSON line out.

The first line out says what it runs on. A line in is one case: `bundle`, `synthetic`, `seconds` and
`steps`; a line out is what it took, or `failure`. After a failure that torch might not recover
from, such as a full memory, the process ends: who started it starts another for the next case.
Where nobody is left to read the answer, it ends at once.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from lorakit.errors import ExitCode, LorakitError
from lorakit.train.worker import crash, settle_environment

GIB = 1024**3

WARM_UP_STEPS = 3
"""The first steps choose kernels, make the optimizer's state and fill the allocator's cache."""

WINDOWS = 3
"""The medians of so many windows and of as many before them have to agree."""

WINDOW_SECONDS = 0.4
"""A window is as many steps as take about this long; the host waits for the device after each."""

WINDOW_STEPS = 3
"""A window has so many steps at least, where there is time for as many windows as it takes."""

LEVEL = 0.02
"""They agree where they are within this share of each other."""

STEADY = 0.1
"""And none of the last windows is farther from its median: else two medians agree by chance."""


def main() -> int:
    """Answer until there are no more lines."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints goes with its warnings
    threading.Thread(target=_end_with_reader, args=(answers.fileno(),), daemon=True).start()
    settle_environment()
    import torch

    from lorakit.train import device

    where = device.settle()
    _say(answers, machine(where))
    for line in sys.stdin:
        case = json.loads(line)
        try:
            _say(answers, measured(case, where, torch))
        except LorakitError as error:
            _say(answers, {"failure": error.message, "hint": error.hint})
        except Exception as error:
            text, code = crash(error)
            _say(answers, {"failure": text, "out_of_memory": code == ExitCode.OUT_OF_MEMORY})
            return int(code)
    return 0


def _end_with_reader(pipe: int) -> None:
    """End this process once the other end of a pipe is gone: a case may take hours, and who asked
    for it may have been killed, or its terminal closed."""
    waiting = select.poll()
    waiting.register(pipe, 0)  # errors are always told
    waiting.poll()
    os._exit(int(ExitCode.TRAINING_FAILED))


def _say(answers: TextIO, told: dict[str, Any]) -> None:
    answers.write(json.dumps(told) + "\n")
    answers.flush()


def machine(where: Any) -> dict[str, Any]:
    """The device and the libraries, in plain values."""
    import importlib.metadata

    import torch

    from lorakit.train import speed
    from lorakit.train.device import describe

    versions = {"torch": str(torch.__version__)}
    for name in ("diffusers", "peft", "transformers", "xformers"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "device": describe(where),
        "kind": "rocm" if where.type == "cuda" and torch.version.hip else where.type,
        "threads": torch.get_num_threads(),
        "precision": precision(where),
        "versions": versions,
        "memory": memory_words(where.type),
        "time": time_words(where),
        "speed": speed.measure(where),
    }


def precision(where: Any) -> str:
    """What people train in on a device: bf16 where it computes in it, else fp16; fp32 on a CPU."""
    import torch

    if where.type == "cpu":
        return "fp32"
    # PyTorch says yes for older cards of NVIDIA too, and emulates it there.
    nvidia = where.type == "cuda" and not torch.version.hip
    return "fp16" if nvidia and torch.cuda.get_device_capability(where) < (8, 0) else "bf16"


def time_words(where: Any) -> str:
    """Which clock times a step on a device."""
    from lorakit.train import speed

    if speed.clock(where) is time.process_time:
        return "of the one thread, which stands still while other programs run"
    return ""


def memory_words(kind: str) -> str:
    """How the peak is measured on a kind of device."""
    if kind == "cpu":
        return "tensors, and what PyTorch's CPU allocator handed out in one step"
    if kind in ("cuda", "xpu"):
        return "PyTorch's allocator on the card: allocated, and reserved"
    return ""


def measured(case: dict[str, Any], where: Any, torch: Any) -> dict[str, Any]:
    """Make the model of a case, let it train, and say what a step takes."""
    from lorakit.bundle.models import Bundle
    from lorakit.families.base_model import inspect
    from lorakit.train import speed, synthetic
    from lorakit.train.families.stable_diffusion import release

    release()  # what the case before has left
    bundle = Bundle.model_validate(case["bundle"])
    base = inspect(bundle.base, Path.cwd())
    subject = synthetic.make(bundle, base, where, case["synthetic"])
    release()  # what only loading took
    device = getattr(torch, where.type)
    counted = hasattr(device, "max_memory_allocated")
    if counted:
        device.reset_peak_memory_stats()

    wait = getattr(device, "synchronize", lambda: None)
    found = level(subject.step, wait, case["seconds"], case["steps"], speed.clock(where))
    if counted:
        found["peak_gib"] = device.max_memory_allocated() / GIB
        found["reserved_gib"] = device.max_memory_reserved() / GIB
    elif where.type == "cpu":
        found["peak_gib"] = cpu_peak_bytes(subject) / GIB
    return found


def cpu_peak_bytes(subject: Any) -> int:
    """Bytes of all tensors between two steps, and what the allocator handed out on top in one."""
    from lorakit.train import memory

    before = memory.count(lambda: None, subject.held()).alive
    return before + memory.count_allocator(subject.step).peak


def level(
    work: Callable[[], None],
    wait: Callable[[], None],
    seconds: float,
    steps: int | None = None,
    now: Callable[[], float] = time.perf_counter,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Do `work` until its rate is level, or for `seconds`; with `steps`, exactly so many times.

    `wait` waits for the device, `now` times the work, `clock` says when the time is up. Returns
    `step_seconds`, `steps` (those measured), `level`, and `spread_percent`: how far the windows
    that the first is the median of lie apart.
    """
    until = clock() + seconds
    for _ in range(WARM_UP_STEPS):
        begun = clock()
        work()
        wait()
        last = clock() - begun
        if steps is None and clock() + last > until:
            break
    size = max(1, round(WINDOW_SECONDS / max(last, 1e-6)))
    if 2 * WINDOWS * WINDOW_STEPS * last < seconds:
        size = max(size, WINDOW_STEPS)
    windows: list[float] = []
    done, enough = 0, False
    while not enough:
        count = size if steps is None else min(size, steps - done)
        asked, begun = clock(), now()
        for _ in range(count):
            work()
        wait()
        windows.append((now() - begun) / count)
        done += count
        if steps is None:
            enough = is_level(windows) or 2 * clock() - asked > until
        else:
            enough = done >= steps
    kept = windows if steps else windows[-2 * WINDOWS :]
    middle = median(kept)
    return {
        "step_seconds": middle,
        "spread_percent": 100 * (max(kept) - min(kept)) / middle,
        "steps": done,
        "level": is_level(windows),
    }


def is_level(windows: Sequence[float]) -> bool:
    """Whether the last windows took as long as those before them, and as each other."""
    if len(windows) < 2 * WINDOWS:
        return False
    now, before = median(windows[-WINDOWS:]), median(windows[-2 * WINDOWS : -WINDOWS])
    steady = all(abs(window - now) <= STEADY * now for window in windows[-WINDOWS:])
    return steady and abs(now - before) <= LEVEL * before


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # as the trainer does: tearing torch down takes a second
