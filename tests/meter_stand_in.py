"""Stands in for `lorakit.train.bench` where a card is needed: says what one said, or dies.

By rank: 64 and up do not fit without checkpointing, 100 dies of it, 101 crashes, 102 says nothing
more, 103 ends with an exit code and last words, 104 presses Ctrl-C for who asks, 105 and 106 are
killed by the system, 105 without checkpointing only. xformers is not installed. The variable
METER_LOG names a file that gets a line for each start and each case.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

GIB = 1024**3


def note(text: str) -> None:
    if path := os.environ.get("METER_LOG"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def say(told: dict) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if os.environ.get("METER_LOG") == "broken":
    sys.exit("ModuleNotFoundError: No module named 'torch'")
note("start")
say(
    {
        "device": "NVIDIA GeForce RTX 4070 Ti SUPER",
        "kind": "cuda",
        "threads": 8,
        "precision": "bf16",
        "versions": {"torch": "2.11.0+cu128"},
        "speed": {"tflops": {"bf16": 80.0}, "bandwidth_gb_s": 600.0, "launch_us": 6.0},
        "time": "",
        "memory": "PyTorch's allocator on the card: allocated, and reserved",
    }
)
for line in sys.stdin:
    case = json.loads(line)
    bundle = case["bundle"]
    rank, memory = bundle["adapter"]["rank"], bundle["memory"]
    note(f"{rank} {memory['attention']} {memory['checkpointing']} {case['steps']}")
    if memory["attention"] == "xformers":
        say({"failure": "xformers cannot be used here: no module", "hint": "Install it."})
        continue
    if rank == 101:
        os.kill(os.getpid(), signal.SIGSEGV)
    if rank == 102:
        time.sleep(600)
    if rank == 104:
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(600)
    if rank in (105, 106) and (rank == 106 or memory["checkpointing"] == "none"):
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 103:
        sys.exit("CUDA error: an illegal memory access was encountered")
    if rank == 100 or (rank >= 64 and memory["checkpointing"] == "none"):
        text = "OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB."
        say({"failure": text, "out_of_memory": True})
        sys.exit(4)
    say(
        {
            "step_seconds": round(0.5 + rank / 1000, 3),
            "spread_percent": 1.0,
            "steps": 30,
            "level": True,
            "peak_gib": 11.2,
            "reserved_gib": 12.4,
        }
    )
