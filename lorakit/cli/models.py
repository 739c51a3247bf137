"""`lorakit models`: the base models that are here, and fetching one from the Hub."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lorakit.bundle.models import Base
from lorakit.cli import streams
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.locate import HUB_ID, locate
from lorakit.families.recognise import Recognised, recognise
from lorakit.interop.models import Model, found
from lorakit.runs import words

PREDICTS = {"epsilon": "noise", "v_prediction": "v"}

WAITED_SECONDS = 10
"""Between lines of progress where nobody watches."""


def show(as_json: bool, runs: Path | None) -> int:
    """Print the base models of this machine, and what is wrong with those that cannot be used."""
    models = found(runs=runs)
    if as_json:
        streams.out_json([_facts(model) for model in models])
        return 0
    streams.out(*_table(models))
    if len(models) == 1:
        streams.err(
            "",
            "Get one from the Hub: lorakit models get owner/name   Name other folders:"
            " LORAKIT_MODELS=/a/folder",
        )
    return 0


def _table(models: Sequence[Model]) -> Iterator[str]:
    """Usable models below the folder that each lies in, then the others with what is wrong."""
    usable = [model for model in models if model.usable]
    for number, (place, group) in enumerate(itertools.groupby(usable, key=_place)):
        if number:
            yield ""
        yield place
        for model in group:
            yield from _lines(model)
    wrong = [model for model in models if not model.usable]
    if wrong:
        yield from ("", "Not to be trained on")
    for model in wrong:
        yield f"  {_clean(_tilde(model.base))}"
        for text in filter(None, (model.told.problem, model.told.fix)):
            yield from streams.folded(_clean(text), "      ", "      ", whole=False)


def _place(model: Model) -> str:
    """Whose place a model is in, and the folder that its line leaves out."""
    if model.base != str(model.path):
        return model.where
    return f"{model.where}: {_clean(_tilde(str(model.path.parent)))}"


def _lines(model: Model) -> list[str]:
    told = model.told
    name = model.path.name if model.base == str(model.path) else model.base
    revision = f" at {model.revision[:10]}" if model.revision else ""
    says = PREDICTS.get(told.prediction, words.UNKNOWN) + (", SNR 0" if told.zero_snr else "")
    size = words.size(told.size_bytes)
    head = f"  {told.family:<4}  {size:>9}  predicts {says:<8}  {_clean(name)}{revision}"
    return [head, _cut(f"        by {_clean(told.evidence)}")]


def _cut(line: str) -> str:
    """As much of a line as fits the terminal; what was cut is marked by a tilde."""
    room = shutil.get_terminal_size().columns - 1
    return line if not sys.stdout.isatty() or len(line) <= room else f"{line[: room - 1]}~"


def _clean(text: str) -> str:
    return words.clean(text)


def _tilde(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path


def _facts(model: Model) -> dict[str, Any]:
    told: Recognised = model.told
    return {
        "base": model.base,
        "revision": model.revision,
        "where": model.where,
        "path": str(model.path),
        "usable": model.usable,
        "kind": told.kind,
        "family": told.family or None,
        "title": told.title,
        "prediction": told.prediction or None,
        "zero_snr": told.zero_snr,
        "size_bytes": told.size_bytes,
        "evidence": told.evidence,
        "problem": told.problem or None,
        "fix": told.fix or None,
    }


def get(what: str, revision: str) -> int:
    """Fetch a base from the Hub, or one file of a repository, with a line that says how far it is;
    print where it lies.

    Of a repository what a training would fetch, and nothing else. Raises LorakitError.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    parts = what.split("/", 2)
    model, file = "/".join(parts[:2]), parts[2:]
    if not HUB_ID.match(model):
        raise LorakitError(
            f"{what} is no Hub id.",
            "One has the form owner/name, or owner/name/file.safetensors for one file of it.",
        )
    bar = _Bar()
    try:
        there = _file(model, file[0], revision, bar) if file else _base(model, revision, bar)
    finally:
        bar.end()
    streams.out(str(there))
    return 0


def _base(model: str, revision: str, bar: _Bar) -> Path:
    from lorakit.families import download

    base = Base(model=model, revision=revision)
    there = locate(base, Path("/"))
    if there is not None:
        return there
    begun = download.begin(base, bar.say, _never, settled=False)
    return download.complete(begun, bar.at, bar.say, _never)


def _file(model: str, name: str, revision: str, bar: _Bar) -> Path:
    from lorakit.families import download

    there = download.single(model, name, revision, bar.at, bar.say, _never)
    told = recognise(there)
    if told.problem:
        bar.end()
        raise LorakitError(f"{there} is here. {told.problem}", told.fix, ExitCode.DATA)
    return there


def _never() -> bool:
    """Nobody asks to stop but by a signal."""
    return False


class _Bar:
    """How far a download is, on stderr: one line that changes where somebody watches, else a line
    now and then."""

    def __init__(self) -> None:
        from lorakit.runs.state import RunState

        self._state = RunState()
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._said = -math.inf
        self._shown = ""

    def at(self, done: int, total: int) -> None:
        """So many bytes are there."""
        from lorakit.live.plain import figures
        from lorakit.runs.events import Doing
        from lorakit.runs.state import fold

        event = Doing(phase="downloading", done=done, total=total, unit="bytes")
        self._state = fold(self._state, event)
        wait = 1 if self._live else WAITED_SECONDS
        if done == total or event.time - self._said >= wait:
            self._said = event.time
            self._draw(figures(self._state))

    def say(self, text: str) -> None:
        """Something besides."""
        self.end()
        streams.err(words.clean(text))

    def end(self) -> None:
        """Leave the line as it is."""
        if self._shown:
            streams.err("")
        self._shown = ""

    def _draw(self, line: str) -> None:
        if not self._live:
            streams.err(line)
        elif line != self._shown:
            line = line[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + line.ljust(len(self._shown)))
            sys.stderr.flush()
            self._shown = line
