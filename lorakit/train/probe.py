"""`python -m lorakit.train.probe`: what PyTorch can do here, each thing tried by doing it once.

Prints one JSON object a line, as soon as it is known: a driver that crashes or hangs takes along
only what has not been said. Before each trial a line says what is tried. `--skip N` passes over
a device, `--compile` tries torch.compile too, `--speed` measures.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import json
import os
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TextIO

import torch

from lorakit.train import trials
from lorakit.train.device import driver_uuid

GIB = 1024**3

Say = Callable[..., None]


def main(argv: list[str], out: TextIO) -> int:
    """Try everything; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lorakit.train.probe")
    parser.add_argument("--skip", type=int, action="append", default=[], metavar="N")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--speed", action="store_true")
    asked = parser.parse_args(argv)

    def say(**told: Any) -> None:
        print(json.dumps(told), file=out, flush=True)

    say(
        torch=torch.__version__,
        cuda=torch.version.cuda,
        hip=torch.version.hip,
        architectures=architectures(),
    )
    for number, (device, facts) in enumerate(devices()):
        say(device=number, **facts)
        if number not in asked.skip:
            _Trials(number, device, say).all(asked.compile, asked.speed)
    say(end=True)
    return 0


def architectures() -> list[str]:
    """What this PyTorch has kernels for; torch.cuda tells it only where it sees a card."""
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    return (flags() or "").split() if flags else []


def devices() -> Iterator[tuple[torch.device, dict[str, Any]]]:
    """Every device of this PyTorch with its facts, the CPU last."""
    kind = "rocm" if torch.version.hip else "cuda"
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        device = torch.device("cuda", number)
        yield device, {"kind": kind, **_cuda_facts(number)}
    for number in range(torch.xpu.device_count() if torch.xpu.is_available() else 0):
        device = torch.device("xpu", number)
        yield device, {"kind": "xpu", **_xpu_facts(number)}
    if torch.backends.mps.is_available():
        total = torch.mps.recommended_max_memory()
        free = total - torch.mps.driver_allocated_memory()
        yield torch.device("mps"), {"kind": "mps", "name": _chip(), **_memory(free, total)}
    yield torch.device("cpu"), {"kind": "cpu", "name": "CPU"}


def _cuda_facts(number: int) -> dict[str, Any]:
    said = torch.cuda.get_device_properties(number)
    place = [getattr(said, f"pci_{what}_id", -1) for what in ("domain", "bus", "device")]
    return {
        "name": said.name,
        "uuid": driver_uuid(str(getattr(said, "uuid", ""))),
        "pci": "{:04x}:{:02x}:{:02x}.0".format(*place) if min(place) >= 0 else "",
        "architecture": (
            said.gcnArchName.partition(":")[0]
            if torch.version.hip
            else f"sm_{said.major}{said.minor}"
        ),
        "integrated": bool(said.is_integrated),
        **_memory(*_asked(lambda: torch.cuda.mem_get_info(number), (None, said.total_memory))),
    }


def _xpu_facts(number: int) -> dict[str, Any]:
    said = torch.xpu.get_device_properties(number)
    return {
        "name": said.name,
        "integrated": bool(getattr(said, "is_integrated_gpu", False)),
        **_memory(*_asked(lambda: torch.xpu.mem_get_info(number), (None, said.total_memory))),
    }


def _memory(free: int | None, total: int | None) -> dict[str, float | None]:
    return {
        "memory_free_gib": None if free is None else free / GIB,
        "memory_total_gib": None if total is None else total / GIB,
    }


def _asked(question: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return question()
    except RuntimeError:
        return otherwise


def _chip() -> str:
    """Apple's chip, such as `Apple M3 Max`."""
    import platform
    import subprocess

    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        said = ""
    return said or platform.processor() or "Apple chip"


class _Trials:
    """Tries one device, and says before each trial what it is and after it how it went."""

    def __init__(self, number: int, device: torch.device, say: Say) -> None:
        self._number, self._device, self._say = number, device, say

    def all(self, compile_too: bool, speed: bool) -> None:
        """One trial after another; where the first fails, there is no point in more."""
        device = self._device
        if not self._precision("fp32"):
            return
        worked = [name for name in ("bf16", "fp16") if self._precision(name)]
        dtype = trials.PRECISIONS[worked[0] if worked else "fp32"]
        told, failure = self._attempt("attention", partial(trials.served, device, dtype))
        self._tell(attention="" if failure else told)
        # Other devices take these wishes without a word and do not heed them.
        choice = trials.KERNELS if device.type in ("cuda", "xpu", "cpu") else {}
        for name, backend in choice.items():
            trial = partial(trials.attend, device, dtype, backend)
            self._tell(kernel=name, said=self._attempt(f"{name} attention", trial)[1])
        for name, use in trials.modules(device, dtype, compile_too).items():
            self._tell(module=name, said=self._attempt(name, use)[1])
        fp8 = partial(trials.multiply_fp8, device)
        self._tell(precision="fp8", said=self._attempt("fp8", fp8)[1])
        if speed and importlib.util.find_spec("lorakit.train.speed"):
            told, failure = self._attempt("speed", partial(_speed, device))
            if not failure:
                self._tell(speed=told)

    def _precision(self, name: str) -> bool:
        trial = partial(trials.multiply, self._device, trials.PRECISIONS[name])
        failure = self._attempt(name, trial)[1]
        self._tell(precision=name, said=failure)
        return not failure

    def _attempt(self, what: str, trial: Callable[[], Any]) -> tuple[Any, str]:
        """(what it gave, what went wrong)."""
        self._tell(trying=what)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return trial(), ""
        except Exception as error:
            return None, _line(error)

    def _tell(self, **told: Any) -> None:
        self._say(device=self._number, **told)


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:300]


def _speed(device: torch.device) -> Any:
    measured = importlib.import_module("lorakit.train.speed").measure(device)
    return measured if isinstance(measured, dict) else dataclasses.asdict(measured)


def _own_output() -> TextIO:
    """stdout for ourselves: what libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected, its memory is not
    code = main(sys.argv[1:], _own_output())
    os._exit(code)  # tearing down a driver that misbehaves may crash or hang
