"""All that checking and recommending know about the world around a bundle."""

from __future__ import annotations

from dataclasses import dataclass

from lorakit.bundle.problems import Problem
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.hardware.facts import Hardware
from lorakit.planner.disk import NOTHING, Written
from lorakit.planner.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a survey found. What it could not find out is None, and why is among `problems`."""

    hardware: Hardware
    report: DatasetReport | None = None
    base: BaseFacts | None = None
    disk_free_bytes: int | None = None
    """Where runs are written."""
    runs_folder: str = ""
    """Where runs are written, in words."""
    written: Written = NOTHING
    """Of a run that goes on: what it has written."""
    modules: frozenset[str] = frozenset()
    """Optional Python modules that are installed, such as xformers."""
    offline: bool = False
    """Whether the environment forbids the Hub."""
    missing: tuple[str, ...] = ()
    """Files of a base from the Hub that are not here yet."""
    prompt_tokens: tuple[int | None, ...] = ()
    """Tokens of each sample prompt, of a short one at most so many; None where the base's tokenizer
    is not here."""
    estimate: Estimate | None = None
    """What training is predicted to take."""
    problems: tuple[Problem, ...] = ()
    """What went wrong while looking."""

    @property
    def on_cpu(self) -> bool:
        """Whether training would run on the CPU."""
        return self.hardware.accelerator is None
