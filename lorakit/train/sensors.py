"""What the trainer holds and what the card says, every two seconds; also the sign of life."""

from __future__ import annotations

import contextlib
import resource
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import torch

from lorakit.runs.events import Log, Sensed

GIB = 2**30
PERIOD_SECONDS = 2.0


def sense(run: Path, device: torch.device) -> Sensed:
    """One reading. Sensors that do not answer are None."""
    ram = psutil.virtual_memory()
    common = {
        "ram_gib": (ram.total - ram.available) / GIB,
        "ram_total_gib": ram.total / GIB,
        "disk_free_gib": shutil.disk_usage(run).free / GIB,
    }
    if device.type != "cuda":
        return Sensed(
            memory_of="RAM",
            memory_gib=psutil.Process().memory_info().rss / GIB,
            memory_peak_gib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB,
            memory_total_gib=ram.total / GIB,
            utilisation_percent=psutil.cpu_percent(),
            **common,
        )
    power = _asked(lambda: torch.cuda.power_draw(device) / 1000)
    free, total = torch.cuda.mem_get_info(device)
    return Sensed(
        memory_of="VRAM",
        memory_gib=torch.cuda.memory_reserved(device) / GIB,
        memory_peak_gib=torch.cuda.max_memory_reserved(device) / GIB,
        memory_total_gib=total / GIB,
        memory_free_gib=free / GIB,
        utilisation_percent=_asked(lambda: torch.cuda.utilization(device)),
        temperature_c=_asked(lambda: torch.cuda.temperature(device)),
        power_w=power,
        **common,
    )


def _asked(question: Callable[[], float]) -> float | None:
    try:
        return float(question())
    except Exception:  # NVML has dozens of ways to say that it does not know
        return None


class Heartbeat(threading.Thread):
    """Appends a reading every two seconds until it is told to stop."""

    def __init__(self, run: Path, device: torch.device, log: Log) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._folder, self._device, self._log = run, device, log
        self._over = threading.Event()

    def run(self) -> None:
        """Read, append, wait."""
        while not self._over.is_set():
            self._beat()
            self._over.wait(PERIOD_SECONDS)

    def stop(self) -> None:
        """Append the last reading and end."""
        self._over.set()
        self.join()
        self._beat()

    def _beat(self) -> None:
        with contextlib.suppress(Exception):  # no reading is worth a training
            self._log.append(sense(self._folder, self._device))
