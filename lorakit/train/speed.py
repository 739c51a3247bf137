"""How fast a device is, measured in about a second: `python -m lorakit.train.speed` prints JSON.

The best of several tries each, which is what the device does when nothing else disturbs it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lorakit.train.device import threads
from lorakit.train.step import DTYPES
from lorakit.train.work import count

EACH_SECONDS = 0.2
"""For each of the five figures."""

SIDES = {"cuda": 4096, "cpu": 384}
"""Of the square matrices that are multiplied."""

COPIED_BYTES = {"cuda": 2**29, "cpu": 2**22}
"""On a CPU what stays in the caches near a core, as most of a small UNet does: larger copies differ
from moment to moment with what else runs."""


def measure(device: torch.device) -> dict[str, Any]:
    """`tflops` by precision, `bandwidth_gb_s` and `launch_us`, as `hardware.facts.Speed` has them.

    A precision that the device cannot multiply in is left out.
    """
    tflops = {}
    for name, dtype in DTYPES.items():
        try:
            tflops[name] = _matmul_tflops(device, dtype)
        except (RuntimeError, NotImplementedError):
            continue
    return {
        "tflops": {name: float(f"{rate:.4g}") for name, rate in tflops.items()},
        "bandwidth_gb_s": float(f"{_copy_gb_s(device):.4g}"),
        "launch_us": float(f"{_launch_us(device):.4g}"),
    }


def _matmul_tflops(device: torch.device, dtype: torch.dtype) -> float:
    side = SIDES.get(device.type, 2048)
    one = torch.ones(side, side, dtype=dtype, device=device) / side
    return 2 * side**3 / _least_seconds(lambda: one @ one, device) / 1e12


def _copy_gb_s(device: torch.device) -> float:
    source = torch.ones(COPIED_BYTES.get(device.type, 2**28) // 4, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _least_seconds(lambda: target.copy_(source), device) / 1e9


class _Block(nn.Module):
    """What a UNet with an adapter is made of, small: norm, a layer with its adapter, activation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.base = nn.Linear(8, 8)
        self.down, self.up = nn.Linear(8, 4, bias=False), nn.Linear(4, 8, bias=False)
        self.norm.requires_grad_(False)
        self.base.requires_grad_(False)

    def forward(self, given: Tensor) -> Tensor:
        normed = self.norm(given)
        return given + F.silu(self.base(normed) + self.up(self.down(normed)) * 0.5)


def _launch_us(device: torch.device) -> float:
    """A small operation with what Python and autograd do around it, forward and backward."""
    blocks = nn.Sequential(*(_Block() for _ in range(4))).to(device)
    given = torch.ones(1, 4, 8, device=device)

    def once() -> None:
        blocks(given).sum().backward()
        blocks.zero_grad(set_to_none=True)

    once()
    return 1e6 * _least_seconds(once, device) / count(once).launches


def _least_seconds(work: Callable[[], Any], device: torch.device) -> float:
    """The least time of a call, over as many as there is time for; three at least."""
    work()
    _wait(device)
    now = clock(device)
    tries: list[float] = []
    until = time.perf_counter() + EACH_SECONDS
    while len(tries) < 3 or time.perf_counter() < until:
        start = now()
        work()
        _wait(device)
        tries.append(now() - start)
    return min(tries)


def clock(device: torch.device) -> Callable[[], float]:
    """Seconds: for one thread of a CPU its own, which stand still while other programs run."""
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.process_time if alone else time.perf_counter


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.get_device_module(device).synchronize(device)


def main() -> None:
    """Measure a device and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    parser.add_argument("--device", default=str(best), help="such as cpu or cuda:0")
    given = parser.parse_args()
    torch.set_num_threads(threads())
    print(json.dumps(measure(torch.device(given.device))))


if __name__ == "__main__":
    main()
