"""Tries PyTorch in a process of its own, which may crash or hang, and reads what it said."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lorakit.hardware.facts import Probe, Speed, Tried
from lorakit.hardware.speed import parse

COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "lorakit.train.probe")
"""-P: files in the current directory are never imported."""

MODULES = ("xformers", "bitsandbytes", "compile")
"""What may be missing or broken without harm to the rest."""

SECONDS = 60.0
COMPILE_SECONDS = 300.0
"""How long a process may take; torch.compile alone may need minutes on a busy machine."""

KILL_SECONDS = 5.0
"""How long it may take to die."""


def probe(seconds: float | None = None, compile_too: bool = False, speed: bool = False) -> Probe:
    """What PyTorch says here, within `seconds` for each process. Never raises.

    A device that crashes or hangs its process is passed over by the next one, so that it cannot
    hide the others.
    """
    limit = seconds or (COMPILE_SECONDS if compile_too else SECONDS)
    words = [w for w, on in (("--compile", compile_too), ("--speed", speed)) if on]
    heard = Heard()
    passed = 0
    while True:
        output, how = _run([*words, *(f"--skip={n}" for n in range(passed))], limit)
        heard.read(output)
        if heard.complete:
            return heard.probe()
        at = heard.ended(how)
        if at is None or at < passed:
            return heard.probe()
        passed = at + 1


def _run(words: Sequence[str], seconds: float) -> tuple[str, str]:
    """(what it printed, how it ended where that was not well)."""
    try:
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return "", f"it could not be started ({error.strerror})"
    try:
        output, errors = process.communicate(timeout=seconds)
        how = _how(process.returncode, errors)
    except subprocess.TimeoutExpired as late:
        output, how = _killed(process, late), f"it did not end within {seconds:.0f} s"
    return output.decode("utf-8", "replace"), how


def _killed(process: subprocess.Popen[bytes], late: subprocess.TimeoutExpired) -> bytes:
    """What a process had printed that is killed now, with what it has started.

    One that waits inside a driver does not even die of that, and is left behind.
    """
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=KILL_SECONDS)[0]
    except subprocess.TimeoutExpired as stuck:
        return stuck.output or late.output or b""


def _how(returncode: int, errors: bytes) -> str:
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = f"signal {-returncode}"
        return f"it was killed by {name}"
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    said = f" ({last[:200].rstrip('.')})" if last else ""
    if returncode:
        return f"it ended with exit code {returncode}{said}"
    return f"it ended without its last word{said}"


@dataclass(slots=True)
class Heard:
    """What a probe has said so far, line by line."""

    devices: dict[int, dict[str, Any]] = field(default_factory=dict)
    architectures: tuple[str, ...] = ()
    failure: str = ""
    complete: bool = False
    device: int | None = None
    """The one that was spoken of last."""
    trying: str = ""
    """What was begun there and not ended."""

    def read(self, output: str) -> None:
        """Take in the lines of one process. What is no line of a probe is passed over."""
        self.complete = False
        for line in output.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict):
                self._take(said)

    def ended(self, how: str) -> int | None:
        """The process is gone: put down how, where it belongs; the device it was trying, if any."""
        device = self.devices.get(self.device) if self.device is not None else None
        if device is None or not self.trying:
            self.failure = self.failure or how
            return None
        what = f"{how} while trying {self.trying}"
        if not device["precisions"]:
            device["failure"] = what
        elif self.trying in MODULES:
            device["modules"][self.trying] = how
        else:
            self.failure = self.failure or f"with {device['name']} {what}"
        self.trying = ""
        return self.device

    def probe(self) -> Probe:
        """All of it as facts."""
        return Probe(
            devices=tuple(_tried(device) for _, device in sorted(self.devices.items())),
            architectures=self.architectures,
            failure=self.failure,
        )

    def _take(self, said: dict[str, Any]) -> None:
        if said.get("end"):
            self.complete = True
        listed = said.get("architectures")
        if isinstance(listed, list):
            self.architectures = tuple(map(str, listed))
        number = said.get("device")
        if not isinstance(number, int):
            return
        self.device = number
        if "name" in said:
            fresh = {**said, "precisions": [], "kernels": [], "modules": {}, "failure": ""}
            self.devices.setdefault(number, fresh)
            return
        device = self.devices.get(number)
        if device is None:
            return
        if "trying" in said:
            self.trying = str(said["trying"])
            return
        self.trying = ""
        told = str(said.get("said", ""))
        if said.get("precision") == "fp32" and told:
            device["failure"] = told
        elif "precision" in said and not told:
            device["precisions"].append(str(said["precision"]))
        elif "kernel" in said and not told:
            device["kernels"].append(str(said["kernel"]))
        elif "module" in said:
            device["modules"][str(said["module"])] = told
        elif "attention" in said:
            device["attention"] = str(said["attention"])
        elif "speed" in said:
            device["speed"] = said["speed"]


def _tried(said: Mapping[str, Any]) -> Tried:
    """One device from its lines."""
    return Tried(
        kind=str(said.get("kind", "")),
        name=str(said["name"]),
        uuid=str(said.get("uuid", "")),
        pci=str(said.get("pci", "")),
        architecture=str(said.get("architecture", "")),
        memory_total_gib=_number(said.get("memory_total_gib")),
        memory_free_gib=_number(said.get("memory_free_gib")),
        integrated=bool(said.get("integrated")),
        failure=said["failure"],
        precisions=tuple(said["precisions"]),
        attention=said.get("attention", ""),
        kernels=tuple(said["kernels"]),
        modules=dict(said["modules"]),
        speed=_speed(said.get("speed")),
    )


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and 0 <= value < math.inf
    return float(value) if known else None


def _speed(said: Any) -> Speed | None:
    try:
        return parse(said)
    except (KeyError, TypeError, ValueError):
        return None
