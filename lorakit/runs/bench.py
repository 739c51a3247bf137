"""Measures training steps over ranks and attention kernels, a case at a time, in another process.

One process measures all cases, for starting one takes seconds; where it dies, the case that killed
it is written down and another one goes on.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lorakit import __version__
from lorakit.bundle.models import PICO, Base, Bundle
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.base_model import BaseFacts, inspect, recognised
from lorakit.families.families import FAMILIES
from lorakit.hardware.facts import Hardware, Speed
from lorakit.planner.estimate import estimate
from lorakit.planner.overheads import NO_TENSORS
from lorakit.runs.bench_file import Bench, Case, Machine, Settings, differences, read, write
from lorakit.runs.launch import environment
from lorakit.runs.meter import Died, Killed, Meter, Silent

RANKS = (1, 8, 16, 32, 64, 128, 256)
"""Those of the published benchmark."""

FULL_STEPS = 520
"""Of each case, as there: 13 pictures, 40 times each."""

QUICK_SECONDS = 160.0
"""For all cases together, from the start of the process that measures."""

MOST_SECONDS = 15.0
"""More time than this makes no quick case better."""

LEAST_SECONDS = 0.5
PATIENCE_SECONDS = 60.0
"""A quick case may take an equal part of the time that is left, and so much more."""

FULL_PATIENCE_SECONDS = 24 * 3600.0

PUBLISHED = {
    "sd1": "stable-diffusion-v1-5/stable-diffusion-v1-5",
    "sd2": "stabilityai/stable-diffusion-2-1-base",
    "sdxl": "stabilityai/stable-diffusion-xl-base-1.0",
}
"""The models that families were made known by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to measure. None is left to what the machine is."""

    base: str | None = None
    """pico, a family, a folder or a Hub id."""
    synthetic: bool = False
    """Random weights of the base's sizes."""
    ranks: tuple[int, ...] = RANKS
    attention: tuple[str, ...] | None = None
    full: bool = False
    seconds: float = QUICK_SECONDS
    """For all cases together, unless `full`."""


Say = Callable[[Case, int, int], None]
"""Called with a case that is done, how many are done and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of it."""

    bench: Bench
    """All that the file holds."""
    file: Path
    missing: int = 0
    """Cases that were not come to."""
    interrupted: bool = False
    """By Ctrl-C; else there was no time for those that are missing."""


def measure(
    request: Request, hardware: Hardware, path: Path | None, resume: bool, say: Say
) -> Measured:
    """Measure all cases and write each to the file as it comes; Ctrl-C ends it with what is done.

    `path` None: a name that says what was measured, in this folder. Raises LorakitError where
    nothing can be measured, or the file is not one to go on with, KeyboardInterrupt before that
    is known.
    """
    begun = time.monotonic()
    with Meter(environment(hardware)) as meter:
        try:
            facts = meter.start()
        except Died as error:
            raise LorakitError(
                f"The process that measures {error}.",
                "Look at this installation with: lorakit hardware",
                ExitCode.TRAINING_FAILED,
            ) from None
        work = Work.of(request, facts, hardware)
        file = path or Path(f"bench-{re.sub('[^A-Za-z0-9.]+', '-', work.settings.base)}.toml")
        bench = _begin(work, file, resume)
        keys = [(rank, kernel) for rank in work.ranks for kernel in work.attention]
        todo = [key for key in keys if not _finished(bench.case(key))]
        total, until = len(keys), begun + request.seconds
        spent = 0.0  # by a case beyond its share
        narrow: set[str] = set()  # attention kernels that have to checkpoint from here on
        for number, key in enumerate(todo):
            left = until - time.monotonic()
            if not request.full and number and left < LEAST_SECONDS + spent:
                return Measured(bench=bench, file=file, missing=len(todo) - number)
            part = max(0.0, left / (len(todo) - number))
            share = min(MOST_SECONDS, max(LEAST_SECONDS, part - spent))
            asked = time.monotonic()
            try:
                case = work.measured(meter, key, share, part + PATIENCE_SECONDS, narrow)
            except KeyboardInterrupt:
                left_out = len(todo) - number
                return Measured(bench=bench, file=file, missing=left_out, interrupted=True)
            if case.level is False:
                spent = max(0.0, time.monotonic() - asked - share)
            bench = bench.with_case(case)
            write(bench, file)
            say(case, total - len(todo) + number + 1, total)
    return Measured(bench=bench, file=file)


def _finished(case: Case | None) -> bool:
    """Whether it need not be measured again; one that failed may do better another time."""
    return case is not None and not case.failure


def _begin(work: Work, file: Path, resume: bool) -> Bench:
    """An empty file, or the one to go on with."""
    fresh = Bench(
        date=datetime.date.today().isoformat(),
        time=work.time,
        memory=work.memory,
        machine=work.machine,
        settings=work.settings,
    )
    if not file.exists():
        write(fresh, file)
        return fresh
    if not resume:
        raise LorakitError(
            f"{file} is there already.",
            "Go on with it: --resume. Or write to another file: --out FILE.",
        )
    old = read(file)
    other = [
        f"{d.name} {d.one or 'none'}, now {d.other or 'none'}" for d in differences(old, fresh)
    ]
    if other:
        raise LorakitError(
            f"{file} was measured otherwise: {'; '.join(other[:3])}.",
            "Write to another file: --out FILE. lorakit bench compare tells two apart.",
        )
    return old


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A request on this very machine."""

    base: Base
    facts: BaseFacts
    hardware: Hardware
    machine: Machine
    settings: Settings
    time: str
    """Which time a step is measured in."""
    memory: str
    """How the peak is counted."""
    ranks: tuple[int, ...]
    attention: tuple[str, ...]

    @classmethod
    def of(cls, request: Request, told: dict[str, Any], hardware: Hardware) -> Work:
        """Fill in what the request leaves open. `told` is what the process said of the machine."""
        on_card = told["kind"] != "cpu"
        name = request.base or ("sdxl" if on_card else PICO)
        synthetic = request.synthetic or (request.base is None and on_card)
        root, given = Path.cwd(), os.path.expanduser(name)
        if name in FAMILIES:
            base = Base.model_validate({"family": name, "model": PUBLISHED[name]})
        else:
            base = recognised(Base(model=name), root)
        facts = inspect(base, root)
        if facts.folder is None and not synthetic:
            raise LorakitError(
                f"The base model {base.model} is not on this machine.",
                f"Fetch it: lorakit models get {base.model}\n"
                "Random weights of the same sizes take the same time and memory: --synthetic.",
            )
        xformers = on_card and importlib.util.find_spec("xformers") is not None
        settings = Settings(
            base=Path(given).resolve().name if os.path.isdir(given) else name,
            family=base.family,
            weights="random" if synthetic else "real",
            resolution=facts.resolution,
            batch_size=1,
            precision=told["precision"],
            targets="linear",
            optimizer="adafactor",
            length="full" if request.full else "quick",
        )
        return cls(
            base=base,
            facts=facts,
            hardware=replace(hardware, speed=Speed(**told["speed"])),
            machine=_machine(told, hardware),
            settings=settings,
            time=told["time"],
            memory=told["memory"],
            ranks=request.ranks,
            attention=request.attention or (("sdpa", "xformers") if xformers else ("sdpa",)),
        )

    def bundle(self, key: tuple[int, str], checkpointing: str) -> Bundle:
        """The training whose step is measured."""
        rank, attention = key
        wanted = self.settings
        return Bundle.model_validate(
            {
                "schema": 1,
                "name": "bench",
                "base": self.base.model_dump(),
                "dataset": {"sources": [{"path": "."}], "resolution": wanted.resolution},
                "adapter": {"rank": rank, "alpha": float(rank), "targets": wanted.targets},
                "train": {
                    "steps": FULL_STEPS,
                    "batch_size": wanted.batch_size,
                    "optimizer": wanted.optimizer,
                    "precision": wanted.precision,
                },
                "memory": {"checkpointing": checkpointing, "attention": attention},
            }
        )

    def measured(
        self,
        meter: Meter,
        key: tuple[int, str],
        share_seconds: float,
        patience_seconds: float,
        narrow: set[str],
    ) -> Case:
        """One case; with checkpointing where it does not fit without, and then the larger ones
        of the same attention kernel, too."""
        rank, attention = key
        full = self.settings.length == "full"
        for checkpointing in ("full",) if attention in narrow else ("none", "full"):
            bundle = self.bundle(key, checkpointing)
            asked = {
                "bundle": bundle.model_dump(mode="json", by_alias=True, exclude_none=True),
                "synthetic": self.settings.weights == "random",
                "seconds": share_seconds,
                "steps": FULL_STEPS if full else None,
            }
            patience = FULL_PATIENCE_SECONDS if full else patience_seconds
            try:
                answer = meter.ask(asked, patience)
            except Silent as error:
                answer = {"failure": f"The process that measures {error}; --full waits longer"}
            except Died as error:
                full_memory = isinstance(error, Killed)
                said = f"The process that measures {error}"
                answer = {"failure": said, "out_of_memory": full_memory}
            if not answer.get("out_of_memory"):
                break
            narrow.add(attention)
        failure = answer.pop("failure", "")
        if answer.get("out_of_memory"):
            failure = f"It does not fit, with checkpointing either: {failure}"
        return Case.model_validate(
            {
                "rank": rank,
                "attention": attention,
                "checkpointing": checkpointing,
                **(self.predicted(bundle)),
                **({"failure": failure} if failure else answer),
            }
        )

    def predicted(self, bundle: Bundle) -> dict[str, Any]:
        """What the planner says of a case, as far as it says anything."""
        told = estimate(bundle, self.facts, None, self.hardware)
        training = next((p for p in told.phases if p.name == "training"), None)
        found: dict[str, Any] = {}
        if training is not None:
            tensors = (p.gib for p in training.parts if p.name not in NO_TENSORS)
            found["predicted_peak_gib"] = sum(tensors)
        if told.step_seconds is not None:
            found["predicted_step_seconds"] = (told.step_seconds.low, told.step_seconds.high)
        return found


def _machine(told: dict[str, Any], hardware: Hardware) -> Machine:
    card = hardware.accelerator if told["kind"] != "cpu" else None
    return Machine(
        device=told["device"],
        kind=told["kind"],
        architecture=card.architecture if card else "",
        memory_gib=card.memory_total_gib if card else None,
        power_limit_w=card.power_limit_w if card else None,
        driver=(hardware.driver or "") if card else "",
        system=hardware.system,
        cpu=hardware.cpu_name,
        threads=told["threads"],
        ram_gib=hardware.ram_total_gib,
        versions={"lorakit": __version__, **told["versions"]},
    )
