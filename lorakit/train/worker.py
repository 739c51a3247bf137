"""`python -m lorakit.train.worker RUN`: train the bundle of a run directory.

Appends events; ends with one that says how it ended, and the same exit code.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from lorakit.errors import ExitCode, LorakitError
from lorakit.runs.events import FILE, Doing, Failed, Log, Started
from lorakit.train import out_of_memory


def settle_environment() -> None:
    """What has to be set before torch and the Hub's client are imported."""
    quiet = {
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "DIFFUSERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
    }
    os.environ.update(quiet)
    # What another program's launcher left in the environment has no say here.
    for name in [n for n in os.environ if n.startswith("ACCELERATE_")]:
        del os.environ[name]
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        os.environ.pop(name, None)


def main(argv: list[str]) -> int:
    """Train; returns the exit code."""
    run = Path(argv[0]).resolve()
    log = Log(run / FILE)
    log.append(Doing(phase="starting"))
    settle_environment()
    try:
        return _train(run, log)
    except LorakitError as error:
        log.append(Failed(message=error.message, hint=error.hint, exit_code=int(error.code)))
        print(f"lorakit: error: {error.message}\n  {error.hint}", file=sys.stderr)
        return int(error.code)
    except Exception as error:
        traceback.print_exc()
        return _crashed(error, log)


def crash(error: Exception) -> tuple[str, ExitCode]:
    """An error that nobody foresaw, in one line, with its exit code."""
    text = (str(error).strip().splitlines() or [""])[0][:300]
    code = ExitCode.OUT_OF_MEMORY if out_of_memory.is_one(error) else ExitCode.TRAINING_FAILED
    return f"{type(error).__name__}: {text}", code


_CARD = (
    "no kernel image is available",
    "invalid device function",
    "driver version is insufficient",
    "driver/library version mismatch",
)
"""What PyTorch says where it and the card or its driver do not fit together."""


def _crashed(error: Exception, log: Log) -> int:
    text, code = crash(error)
    message, hint = f"Training ended with {text}", "The whole report is in train.log of the run."
    if any(words in str(error).lower() for words in _CARD):
        code = ExitCode.NO_HARDWARE
        hint = "This PyTorch does not fit the card: lorakit hardware --probe says what to try."
    elif code == ExitCode.OUT_OF_MEMORY:
        message, hint = out_of_memory.explain(str(error)) or (message, out_of_memory.SMALLER)
    log.append(Failed(message=message, hint=hint, exit_code=int(code)))
    return int(code)


def _train(run: Path, log: Log) -> int:
    from lorakit.bundle.paths import pinned
    from lorakit.bundle.read import read
    from lorakit.train import download
    from lorakit.train.control import Control

    control = Control(run, log)
    control.listen()
    bundle = pinned(read(run / "bundle.toml"))
    download.ask(bundle.base, run, log, control.stopping)  # loading torch takes some seconds

    import diffusers
    import torch

    from lorakit.train import device
    from lorakit.train.loop import train
    from lorakit.train.sensors import Heartbeat

    diffusers.utils.logging.disable_progress_bar()
    where = device.settle(bundle.lock)
    log.append(
        Started(
            name=bundle.name,
            family=bundle.base.family,
            adapter=f"LoRA rank {bundle.adapter.rank} on {bundle.adapter.targets}",
            device=device.describe(where),
            steps=bundle.train.steps,
            batch_size=bundle.train.batch_size,
            accumulation=bundle.train.accumulation,
            sample_every=bundle.sample.every,
            save_every=bundle.save.every,
            versions=_versions(torch.__version__),
            spills=device.spills(where),
        )
    )
    heartbeat = Heartbeat(run, where, log)
    heartbeat.start()
    try:
        finished = train(bundle, run, log, control, where)
    finally:
        heartbeat.stop()
    log.append(finished)
    return finished.exit_code


def _versions(torch_version: str) -> dict[str, str]:
    from importlib.metadata import version

    named = ("lorakit", "diffusers", "transformers", "peft", "accelerate", "safetensors")
    return {"torch": torch_version, **{name: version(name) for name in named}}


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # tearing down torch and its threads takes a second, for nothing
