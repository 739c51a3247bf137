"""Samples on the way: fixed seeds, one picture a prompt, contact sheets over time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lorakit import durable
from lorakit.bundle.models import Sample
from lorakit.runs.events import Doing, Log, Noted, Sampled
from lorakit.train.sheets import sheet

FOLDER = "samples"
SHEET = f"{FOLDER}/sheet.png"
BEFORE_AFTER = f"{FOLDER}/before-after.png"
_NAME = re.compile(r"^(\d{6,})-(\d+)\.png$")


MAX_COLUMNS = 24
"""Steps on a contact sheet; of more, this many are chosen evenly, both ends among them."""


def spread(steps: list[int], limit: int) -> list[int]:
    """At most `limit` of the steps, evenly chosen, with both ends."""
    if len(steps) <= limit:
        return steps
    return [steps[round(i * (len(steps) - 1) / (limit - 1))] for i in range(limit)]


class Samples:
    """Draws every prompt of a bundle with the live model and keeps the sheets up to date."""

    def __init__(self, run: Path, wanted: Sample, painter: Any, log: Log) -> None:
        self._run, self._wanted, self._painter, self._log = run, wanted, painter, log
        self._folder = run / FOLDER
        self._folder.mkdir(exist_ok=True)

    def due(self, step: int) -> bool:
        """Whether this step is one to draw at."""
        every = self._wanted.every
        return bool(self._wanted.prompts) and every > 0 and step % every == 0

    def draw(self, step: int) -> None:
        """Draw, write, refresh the sheets. A failure is a line in the log: training goes on."""
        if not self._wanted.prompts:
            return
        self._log.append(Doing(phase="sampling", done=0, total=len(self._wanted.prompts)))
        try:
            prompts = [(p, self._wanted.seed + i) for i, p in enumerate(self._wanted.prompts)]
            pictures = self._painter.draw_all(prompts, self._wanted.negative)
            paths = []
            for number, picture in enumerate(pictures, 1):
                path = self._folder / f"{step:06d}-{number}.png"
                with durable.replacing(path) as file:
                    picture.save(file, format="PNG")
                paths.append(str(path.relative_to(self._run)))
        except Exception as error:  # a picture is not worth a training, whatever went wrong
            self._painter.recover()
            text = f"no sample at step {step}: {type(error).__name__}: {error}"
            self._log.append(Noted(text=text, level="warning"))
            return
        self._log.append(Sampled(step=step, paths=paths))
        try:
            self._sheets()
        except Exception as error:  # such as a picture that somebody has damaged
            text = f"no contact sheet at step {step}: {type(error).__name__}: {error}"
            self._log.append(Noted(text=text, level="warning"))

    @property
    def drawing(self) -> list[object]:
        """What the pictures follow from, beside the weights; JSON gives it back as it is."""
        wanted = self._wanted
        return [
            list(wanted.prompts), wanted.negative, wanted.seed, wanted.steps, wanted.guidance
        ]  # fmt: skip

    def forget(self, after: int) -> None:
        """Remove pictures of later steps: a run that goes back draws them again."""
        for step, paths in self.drawn().items():
            if step > after:
                for path in paths:
                    path.unlink(missing_ok=True)

    def drawn(self) -> dict[int, list[Path]]:
        """Every step's pictures, those of complete steps only."""
        found: dict[int, dict[int, Path]] = {}
        for file in self._folder.iterdir():
            named = _NAME.match(file.name)
            if named and file.is_file():
                found.setdefault(int(named[1]), {})[int(named[2])] = file
        count = len(self._wanted.prompts)
        return {
            step: [by_number[n] for n in range(1, count + 1)]
            for step, by_number in sorted(found.items())
            if set(by_number) >= set(range(1, count + 1))
        }

    def _sheets(self) -> None:
        drawn = self.drawn()
        shown = {step: drawn[step] for step in spread(list(drawn), MAX_COLUMNS)}
        sheet(shown, self._wanted.prompts, self._run / SHEET)
        first, last = min(drawn), max(drawn)
        if first != last:
            ends = {step: drawn[step] for step in (first, last)}
            sheet(ends, self._wanted.prompts, self._run / BEFORE_AFTER)

    def sheets(self) -> list[str]:
        """The contact sheets that exist, relative to the run."""
        return [s for s in (BEFORE_AFTER, SHEET) if (self._run / s).exists()]
