"""Real trainings in this process, with everything written down that the trainer says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from lorakit.bundle.models import Bundle
from lorakit.runs.events import FILE, Event, Finished, Log
from lorakit.train import prepare
from lorakit.train.batches import Batches
from lorakit.train.control import Control
from lorakit.train.families import family_of
from lorakit.train.loop import train

CPU = torch.device("cpu")


class Watched(Log):
    """An event log that lets a test act when an event is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.events: list[Event] = []
        self.reactions: list[Callable[[Event], None]] = []

    def append(self, event: Event) -> None:
        super().append(event)
        self.events.append(event)
        for react in self.reactions:
            react(event)

    def of(self, kind: type) -> list:
        return [e for e in self.events if isinstance(e, kind)]


def watched(run: Path) -> Watched:
    """The log of a run directory, which is made if it is not there."""
    run.mkdir(parents=True, exist_ok=True)
    return Watched(run / FILE)


def trained(bundle: Bundle, run: Path, log: Log) -> Finished:
    return train(bundle, run, log, Control(run, log), torch.device("cpu"))


def changed(bundle: Bundle, **sections: dict) -> Bundle:
    """A bundle with some values changed, validated anew."""
    whole = bundle.model_dump(by_alias=True, exclude_defaults=False)
    for name, values in sections.items():
        whole[name].update(values)
    return Bundle.model_validate(whole)


def prepared(
    bundle: Bundle, log: Log, stop: Callable[[], bool] = lambda: False
) -> prepare.Prepared | None:
    """What a training has before its first step."""
    base, report = prepare.look(bundle, Path("/"))
    return prepare.encode(bundle, base, report, family_of(bundle), CPU, log, stop)


def batches(bundle: Bundle, log: Log) -> Batches:
    """The batches of a training."""
    ready = prepared(bundle, log)
    assert ready is not None
    told = family_of(bundle).sizes
    return Batches(ready.material, bundle, told, ready.scale, 1000, CPU, torch.float32)
