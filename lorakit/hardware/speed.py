"""How fast the device that trains is, remembered from when a probe measured it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorakit import durable
from lorakit.bundle.paths import cache_folder
from lorakit.hardware.facts import Hardware, Speed


def recalled(hardware: Hardware) -> Hardware:
    """The machine with the speed that was measured here before, if it was."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return dataclasses.replace(hardware, speed=parse(json.loads(_file(hardware).read_text())))
    return hardware


def remember(hardware: Hardware, speed: Speed) -> None:
    """Keep the speed of the device that training uses for the next time."""
    place = _file(hardware)
    with contextlib.suppress(OSError):  # it stays unknown, then
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
