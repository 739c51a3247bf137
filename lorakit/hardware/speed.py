"""How fast the device that trains is: measured once in a process of its own, and remembered.

Measuring takes about a second, after PyTorch has been loaded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorakit.hardware.facts import Hardware, Speed

COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "lorakit.train.speed")

LIMIT_SECONDS = 60.0
"""A driver that hangs must not hold up a person for longer."""


def recalled(hardware: Hardware) -> Hardware:
    """The machine with the speed that was measured here before, if it was."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return dataclasses.replace(hardware, speed=_speed(json.loads(_file(hardware).read_text())))
    return hardware


def measured(hardware: Hardware, limit_seconds: float = LIMIT_SECONDS) -> Hardware:
    """The machine with its speed, measured now unless it is remembered.

    As it was where it could not be measured: no PyTorch, a crash, or no answer in time.
    """
    hardware = recalled(hardware)
    if hardware.speed or hardware.torch is None:
        return hardware
    card = hardware.accelerator
    command = [*COMMAND, *(() if card else ("--device", "cpu"))]
    environ = dict(os.environ)
    if card and card.uuid and card.kind == "cuda":
        environ["CUDA_VISIBLE_DEVICES"] = card.uuid
    try:
        told = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=limit_seconds, check=True,
        ).stdout  # fmt: skip
        answer = json.loads(told)
        speed = _speed(answer)
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        return hardware
    place = _file(hardware)
    part = place.with_name(f".{place.name}.{os.getpid()}")
    with contextlib.suppress(OSError):  # it is measured again, then
        place.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(answer), encoding="utf-8")
        part.replace(place)
    return dataclasses.replace(hardware, speed=speed)


def _speed(told: Mapping[str, Any]) -> Speed:
    """Raises ValueError, KeyError or TypeError for what is none."""
    rates = {str(name): float(rate) for name, rate in dict(told["tflops"]).items()}
    bandwidth, launch = float(told["bandwidth_gb_s"]), float(told["launch_us"])
    if not rates or min(*rates.values(), bandwidth, launch) <= 0:
        raise ValueError("a speed that is not above 0")
    return Speed(tflops=rates, bandwidth_gb_s=bandwidth, launch_us=launch)


def _file(hardware: Hardware) -> Path:
    """Where the speed of this device, with this PyTorch and these threads, is remembered."""
    card, torch = hardware.accelerator, hardware.torch
    threads = os.environ.get("OMP_NUM_THREADS", "")
    of = (
        card.uuid or card.name if card else f"{hardware.cpu_name}/{hardware.cpu_threads}",
        torch.version if torch else "",
        str(card.power_limit_w) if card else threads,
    )
    name = hashlib.sha256("\0".join(of).encode()).hexdigest()[:32]
    return cache_folder() / "speed" / f"{name}.json"


def cache_folder() -> Path:
    """`$LORAKIT_CACHE`, or the system's place for caches."""
    if given := os.environ.get("LORAKIT_CACHE"):
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("lorakit"))
