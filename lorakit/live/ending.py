"""What the end of a run says: what came out and where, how it went, and what to do with it."""

from __future__ import annotations

import os
import shlex
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path

from lorakit.bundle.models import PICO
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.shipped import ASSETS
from lorakit.live.follow import Seen
from lorakit.runs import words
from lorakit.runs.control import myself
from lorakit.runs.directory import Run
from lorakit.runs.events import Failed, Finished
from lorakit.runs.launch import death, failure
from lorakit.runs.state import RunState

INTERRUPTED = {2: ExitCode.INTERRUPTED, 15: ExitCode.TERMINATED}
"""Exit code of a run that was stopped by a signal to its viewer."""


def conclude(run: Run, seen: Seen) -> tuple[list[str], int]:
    """The lines to print and the exit code, after a run was followed.

    Raises LorakitError for a run that failed or whose trainer is gone.
    """
    if seen.left != "ended":
        return [], ExitCode.OK
    if seen.status == "lost" and seen.signal is None:
        raise death(run, seen.returncode)
    if seen.status == "lost":
        saved = seen.state.course.saved
        kept = str(run.path / saved.path) if saved else "nothing was saved"
        said = [words.clean(f"aborted at step {seen.state.step}; last checkpoint: {kept}")]
        said += [_again(run)] if saved else []
        return said, int(INTERRUPTED.get(int(seen.signal or 2), ExitCode.INTERRUPTED))
    ended = seen.state.ended
    if isinstance(ended, Failed):
        raise failure(run, ended)
    code = ended.exit_code if isinstance(ended, Finished) else ExitCode.OK
    if seen.signal is not None and seen.status == "stopped":
        code = INTERRUPTED[seen.signal]
    said = list(ending(run, seen.state))
    if run.original.is_file():
        lines, broken = _judged(run)
        said += ["", *lines]
        if broken and code == ExitCode.OK:
            code = ExitCode.TRAINING_FAILED
    return said, int(code)


def _judged(run: Run) -> tuple[list[str], bool]:
    """The verdict on a replay, and whether it broke a promise."""
    from lorakit.runs.verdict import verdict

    try:
        judged = verdict(run)
    except LorakitError as error:  # a damaged file must not hide how the run itself ended
        return [f"replay: not judged: {words.clean(error.message)}"], False
    return judged.lines, judged.broken


def ending(run: Run, state: RunState) -> Iterator[str]:
    """The lines for a run that ended as asked."""
    ended = state.ended
    if not isinstance(ended, Finished):
        return
    yield f"{words.clean(run.name)}: {ended.outcome} at {_steps(state)} in {_time(state)}"
    files = [run.path / name for name in ended.files]
    for number, file in enumerate(files):
        yield f"  {'files' if number == 0 else '':<8}{words.clean(str(file))}{_size(file)}"
    yield f"  {'loss':<8}{_loss(state)}"
    yield from _beside(state)
    unsaved = state.course.unsaved_count
    if unsaved:
        yield f"  {'saves':<8}{words.plural(unsaved, 'checkpoint')} could not be written"
    if ended.digest:
        yield f"  {'digest':<8}{words.clean(ended.digest)}"
    if ended.outcome == "stopped":
        yield _again(run)
    adapters = [file for file in files if file.suffix == ".safetensors"]
    if not adapters:
        return
    yield ""
    yield from _next_steps(run, adapters)


def _again(run: Run) -> str:
    return f"  {'go on':<8}lorakit train --resume {shlex.quote(words.clean(str(run.path)))}"


def _beside(state: RunState) -> Iterator[str]:
    """Measured beside predicted, for what was predicted."""
    told = state.predicted
    if told is None:
        return
    if words.known(told.step_seconds_high):
        span = words.span(told.step_seconds_low, told.step_seconds_high, words.decimal)
        yield f"  {'speed':<8}{words.decimal(state.step_seconds)} s a step (predicted {span})"
    if words.known(told.peak_gib):
        peak = words.number(state.memory_peak_gib, ".1f", "GiB")
        yield f"  {'memory':<8}peak {peak} (predicted {words.number(told.peak_gib)})"


def _next_steps(run: Run, adapters: list[Path]) -> Iterator[str]:
    yield "Copy it from here:"
    yield f"  scp {shlex.quote(f'{_address()}:{adapters[0]}')} ."
    yield "Use it:"
    yield "  ComfyUI: put it in models/loras      A1111, Forge: put it in models/Lora"
    diffusers = next((a for a in adapters if a.name.endswith(".diffusers.safetensors")), None)
    if diffusers is not None:
        yield "  diffusers:"
        yield f"    pipe = {_loading(run)}"
        yield f"    pipe.load_lora_weights({str(diffusers)!r})"
    yield f'  lorakit sample {shlex.quote(run.name)} "a prompt"'


def _steps(state: RunState) -> str:
    ended = state.ended
    step = ended.step if isinstance(ended, Finished) else state.step
    return f"step {step} of {words.UNKNOWN if state.steps is None else state.steps}"


def _time(state: RunState) -> str:
    told, taken = state.predicted, words.duration(state.elapsed_seconds)
    if told is None or not words.known(told.total_seconds_high) or state.earlier_seconds:
        return taken  # of a run that was begun or gone on with again the whole was not predicted
    span = words.span(told.total_seconds_low, told.total_seconds_high, words.duration)
    return f"{taken} (predicted {span})"


def _size(file: Path) -> str:
    try:
        return f"  ({words.size(file.stat().st_size)})"
    except OSError:
        return "  (missing)"


def _loss(state: RunState) -> str:
    if state.loss_first is None:
        return words.UNKNOWN
    counted = len(state.course.last)
    first, last = (words.number(v, ".4f") for v in (state.loss_first, state.loss_recent))
    if state.course.counted > counted:
        text = f"{first} -> {last}  (means of the first and the last {counted} steps)"
    else:
        text = f"{last}  (mean of {words.plural(counted, 'step')})"
    skipped = state.course.skipped
    if skipped:
        text += f"; {words.plural(skipped, 'step')} skipped, their loss was not finite"
    return text


def _address() -> str:
    """user@host as the other end of the SSH line knows this machine, else by its own name."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    host = connection[2] if len(connection) == 4 else socket.gethostname()
    return f"{myself().partition('@')[0]}@{f'[{host}]' if ':' in host else host}"


def _loading(run: Run) -> str:
    """How diffusers loads the base."""
    try:
        base = tomllib.loads(run.bundle.read_text(encoding="utf-8"))["base"]
        model, family = str(base["model"]), base.get("family")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        model, family = "BASE", ""
    if os.path.isfile(model):
        kind = "StableDiffusionXLPipeline" if family == "sdxl" else "StableDiffusionPipeline"
        return f"{kind}.from_single_file({model!r})"
    model = str(ASSETS / "pico") if model == PICO else model
    return f"DiffusionPipeline.from_pretrained({model!r})"
