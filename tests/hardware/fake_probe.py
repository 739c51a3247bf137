"""Stands in for a probe whose drivers misbehave: `fake_probe.py SCENE [--skip=N ...]`."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time

CARD = {"kind": "rocm", "memory_total_gib": 8.0, "memory_free_gib": 7.9}
UNIT = {
    **CARD,
    "name": "AMD Radeon Graphics",
    "pci": "0000:0f:00.0",
    "architecture": "gfx1036",
    "integrated": True,
}
RX_6600 = {
    **CARD,
    "name": "AMD Radeon RX 6600",
    "uuid": "GPU-c1f7a9d20e3b5a64",
    "pci": "0000:03:00.0",
    "architecture": "gfx1032",
}


def say(**told: object) -> None:
    print(json.dumps(told), flush=True)


def device(number: int, facts: dict[str, object], skip: bool) -> None:
    say(device=number, **facts)
    if skip:
        return
    say(device=number, trying="fp32")
    if number == 0 and scene == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 0 and scene == "hang":
        time.sleep(60)
    if number == 0 and scene == "raise":
        raise RuntimeError("HIP error: the operation cannot be performed in the present state")
    say(device=number, precision="fp32", said="")
    say(device=number, trying="bf16")
    if number == 1 and scene == "late":
        os.abort()
    say(device=number, precision="bf16", said="")
    say(device=number, attention="math")
    say(device=number, trying="xformers")
    if number == 1 and scene == "module":
        os.kill(os.getpid(), signal.SIGSEGV)
    say(device=number, module="xformers", said="no kernel image")


resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
scene, *words = sys.argv[1:]
if scene == "garbage":
    sys.stdout.buffer.write(b'\xff\x00[1, 2]\n{}\n{"device": "x"}\n{"device": 7, "said": 1}\n')
    sys.exit(0)
if scene == "import":
    sys.exit("ImportError: libcudart.so.12: cannot open shared object file")
print("a library's banner")
say(torch="2.11.0+rocm7.0", architectures=["gfx1030", "gfx1100"])
for index, one in enumerate((UNIT, RX_6600)):
    device(index, one, f"--skip={index}" in words)
say(end=True)
