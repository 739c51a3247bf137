"""Everything that needs a card, into one folder that can be sent to somebody.

    python examples/benchmarks/gpu_checks.py             # about ten minutes of one card
    python examples/benchmarks/gpu_checks.py --cpu       # the same on a CPU, with small sizes

What the machine is, predicted against measured memory, pico trained for 20 steps in bf16 and in
fp16, and a quick benchmark of SDXL with random weights. Nothing is downloaded. Each check is a
process of its own with a time limit, and one that fails does not stop the rest. Exit code 1: some
failed; 3: there is no card.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
MEMORY = ROOT / "examples/benchmarks/memory.py"
ROBOTS = ROOT / "examples/robots.toml"


class Check(NamedTuple):
    name: str
    command: list[str]
    """Behind the interpreter; files are named relative to the folder."""
    limit_seconds: float


def training(precision: str, steps: int) -> Check:
    """pico with the robots, its run kept in the folder."""
    settings = {
        "name": f"robots-{precision}", "train.steps": steps, "train.warmup_steps": 0,
        "train.precision": precision, "sample.every": 0, "sample.steps": 4, "save.every": 0,
    }  # fmt: skip
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return Check(
        f"train-{precision}", ["-m", "lorakit", "train", str(ROBOTS), *words, "--runs", "runs"], 120
    )


def checks(cpu: bool) -> Iterator[Check]:
    """All checks, the quick ones first."""
    probe = [] if cpu else ["--probe"]
    yield Check("hardware", ["-m", "lorakit", "hardware", *probe, "--save", "machine.toml"], 120)
    yield Check("doctor", ["-m", "lorakit", "doctor", *(["--no-probe"] if cpu else [])], 120)
    for precision in ("fp32", "bf16") if cpu else ("bf16", "fp16"):
        yield training(precision, 2 if cpu else 20)
    small = ["--base", "pico", "--ranks", "1,16"] if cpu else ["--base", "sdxl", "--synthetic"]
    yield Check("bench", ["-m", "lorakit", "bench", *small, "--out", "bench.toml"], 240)
    yield Check("memory", [str(MEMORY), "--out", "memory.json", *(["--cpu"] if cpu else [])], 280)


def run(check: Check, folder: Path) -> dict[str, object]:
    """Run one check; what it prints goes to a file of its name."""
    begun = time.monotonic()
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with (folder / f"{check.name}.txt").open("w", encoding="utf-8") as output:
        output.write(f"$ python {' '.join(check.command)}\n")
        output.flush()
        try:
            code: int | None = subprocess.run(
                [sys.executable, *check.command], cwd=folder, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, timeout=check.limit_seconds, check=False,
                env={**os.environ, "PYTHONPATH": path, "TERM": "dumb"},
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = None
            output.write(f"\nended after {check.limit_seconds:.0f} seconds\n")
    return {"name": check.name, "exit_code": code, "seconds": round(time.monotonic() - begun, 1)}


def main() -> int:
    names = [check.name for check in checks(cpu=False)]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cpu", action="store_true", help="small sizes, without a card")
    parser.add_argument("--only", metavar="NAME", action="append", help=f"of {', '.join(names)}")
    parser.add_argument("--out", type=Path, default=Path("gpu-checks"), help="the folder")
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("Not installed here: torch.", file=sys.stderr)
        return 2
    if not args.cpu and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} finds no card here.", file=sys.stderr)
        return 3
    args.out.mkdir(parents=True, exist_ok=True)
    told = []
    for check in checks(args.cpu):
        if args.only and check.name not in args.only:
            continue
        print(f"{check.name:<12}", end="", flush=True)
        told.append(run(check, args.out.resolve()))
        code = told[-1]["exit_code"]
        how = "ok" if code == 0 else "no end" if code is None else f"exit code {code}"
        print(f"{how:<14} {told[-1]['seconds']} s", flush=True)
        (args.out / "checks.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(f"all that was said is in {args.out}")
    return 0 if told and all(one["exit_code"] == 0 for one in told) else 1


if __name__ == "__main__":
    sys.exit(main())
