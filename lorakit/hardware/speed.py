"""How fast the device that trains is: measured once in a process of its own, and remembered.

Measuring takes about a second, after PyTorch has been loaded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorakit import durable
from lorakit.bundle.paths import cache_folder
from lorakit.hardware.environment import for_training
from lorakit.hardware.facts import Hardware, Speed

COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "lorakit.train.speed")

LIMIT_SECONDS = 60.0
"""A driver that hangs must not hold up a person for longer."""


def recalled(hardware: Hardware) -> Hardware:
    """The machine with the speed that was measured here before, if it was."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return dataclasses.replace(hardware, speed=parse(json.loads(_file(hardware).read_text())))
    return hardware


def measured(hardware: Hardware, limit_seconds: float = LIMIT_SECONDS) -> Hardware:
    """The machine with its speed, measured now unless it is remembered.

    As it was where it could not be measured: no PyTorch, a crash, or no answer in time.
    """
    hardware = recalled(hardware)
    if hardware.speed or hardware.torch is None:
        return hardware
    command = [*COMMAND, *(() if hardware.accelerator else ("--device", "cpu"))]
    environ = {**os.environ, **for_training(hardware, os.environ)}
    try:
        told = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=limit_seconds, check=True,
        ).stdout  # fmt: skip
        speed = parse(json.loads(told))
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError):
        return hardware
    remember(hardware, speed)
    return dataclasses.replace(hardware, speed=speed)


def remember(hardware: Hardware, speed: Speed) -> None:
    """Keep the speed of the device that training uses for the next time."""
    place = _file(hardware)
    with contextlib.suppress(OSError):  # it is measured again, then
        place.parent.mkdir(parents=True, exist_ok=True)
        durable.write(place, json.dumps(dataclasses.asdict(speed)).encode())


def parse(told: Mapping[str, Any]) -> Speed:
    """A speed as `train/speed.py` prints it. Raises ValueError, KeyError or TypeError for what is
    none."""
    rates = {str(name): float(rate) for name, rate in dict(told["tflops"]).items()}
    bandwidth, launch = float(told["bandwidth_gb_s"]), float(told["launch_us"])
    if not rates or not all(0 < n < math.inf for n in (*rates.values(), bandwidth, launch)):
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
