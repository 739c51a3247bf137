"""`lorakit new --plain`: the wizard's questions as lines, for screen readers and dumb terminals.

The same steps, answers and draft as on the screen; an empty line takes what stands in brackets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lorakit.cli import streams
from lorakit.errors import LorakitError
from lorakit.families.families import FAMILIES
from lorakit.hardware.facts import Hardware
from lorakit.runs import words
from lorakit.wizard import draft, look, settings, summary
from lorakit.wizard.answers import of_bundle
from lorakit.wizard.outcome import Outcome, file_for, save
from lorakit.wizard.paths import tidy
from lorakit.wizard.state import State, begin
from lorakit.wizard.steps import STEPS

T = TypeVar("T")

MODELS = 20
"""How many of the base models on this machine are listed."""

ENDS = ("train", "detach", "save", "leave")


class Left(Exception):
    """The input has ended."""


def ask(source: Path | None, hardware: Hardware | None = None) -> Outcome:
    """Ask everything line by line and return what was chosen."""
    from lorakit.bundle.read import read

    here = Path.cwd()
    given = of_bundle(read(source), source.resolve().parent, here) if source else None
    state = begin(here, given).knowing(hardware=hardware)
    try:
        for number, step in enumerate(STEPS, 1):
            streams.err("", f"{number} of {len(STEPS)}  {step.title}: {step.question}")
            if step.name == "review":
                return _review(state)
            state = _STEPS[step.name](state)
            draft.save(state.answers, step.name, here)
    except (Left, KeyboardInterrupt):
        streams.err("")
        return Outcome(what="kept" if draft.save(state.answers, step.name, here) else "left")
    raise AssertionError("the last step returns")


def _line(question: str, default: str = "") -> str:
    """One answer. Questions go to stderr: stdout is for the result."""
    sys.stderr.write(f"{question} [{default}]: " if default else f"{question}: ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise Left
    return answer.strip() or default


def _until_good(take: Callable[[], T]) -> T:
    """Ask again until an answer is one."""
    while True:
        try:
            return take()
        except LorakitError as error:
            streams.report(error)


def _tell(lines: list[tuple[str, str]]) -> None:
    streams.err(*(f"  {label}: {words}" if label else f"  {words}" for label, words in lines))


def _quiet(done: int, total: int) -> None:
    """Progress is not worth a line."""


def _machine(state: State) -> State:
    hardware = state.known.hardware or look.machine()
    _tell([*summary.of_machine(hardware)])
    streams.problems(hardware.findings)
    return state.knowing(hardware=hardware)


def _base(state: State) -> State:
    for model in look.models()[:MODELS]:
        size = words.size(model.told.size_bytes)
        streams.err(f"  here: {words.clean(model.base)}  ({model.where}, {size})")

    def take() -> State:
        model = _line("pico, a file or diffusers folder, or a Hub id", state.answers.base)
        chosen = state.answering(state.answers.with_base(model))
        facts = look.base(chosen.answers, chosen.folder)
        if facts.guessed:
            family = _line(f"family, one of {', '.join(FAMILIES)}", facts.family)
            chosen = chosen.answering(chosen.answers.with_family(family))
            facts = look.base(chosen.answers, chosen.folder)
        _tell([*summary.of_base(facts)])
        return chosen.knowing(base=facts)

    return _until_good(take)


def _pictures(state: State) -> State:
    answers = state.answers

    def take() -> State:
        path = tidy(_line("folder of pictures", answers.typed), state.folder)
        look.folder(path, state.folder)
        trigger = answers.folders[0].trigger if path == answers.typed else ""
        chosen = look.laid_out(state.answering(answers.with_typed(path, trigger)))
        _tell([*summary.of_folders(chosen.answers.folders)])
        trigger = _line("trigger word, empty for none", chosen.answers.folders[0].trigger)
        chosen = chosen.answering(chosen.answers.with_typed(path, trigger))
        report = look.pictures(chosen, _quiet)
        _tell([*summary.of_pictures(report)])
        streams.problems(report.findings)
        if not report.pictures:
            raise LorakitError("There is nothing to learn from there.", "Give another folder.")
        return chosen.knowing(report=report)

    return _until_good(take)


def _settings(state: State) -> State:
    for row in settings.rows(state):
        streams.err(f"  {row.key} = {row.value}" + (f"   ({row.why})" if row.why else ""))
    while True:
        typed = _line("change one as key = value, empty to go on")
        if not typed:
            return state
        key, _, value = typed.partition("=")
        try:
            state = settings.enter(state, key.strip(), value)
        except LorakitError as error:
            streams.report(error)


def _review(state: State) -> Outcome:
    proposal = state.proposal
    if proposal.bundle is None:
        streams.problems(proposal.problems)
        raise Left
    reviewed = look.review(proposal.bundle, state, _quiet)
    _tell(summary.of_bundle(proposal.bundle, reviewed.facts))
    streams.problems(reviewed.problems)
    ends = ENDS if not reviewed.errors else ("save", "leave")

    def take() -> Outcome:
        chosen = _line(", ".join(ends), ends[0])
        if chosen not in ends:
            raise LorakitError(f"{chosen} is none of these.", ", ".join(ends))
        if chosen == "leave":
            raise Left
        if chosen == "save":
            path = file_for(_line("file", f"{state.answers.run_name}.toml"), state.folder)
            if path.exists():
                raise LorakitError(f"{path} is there already.", "Give another name.")
            assert proposal.bundle is not None
            return save(proposal.bundle, proposal.reasons, path, state.folder)
        return Outcome(
            what="detach" if chosen == "detach" else "train",
            bundle=proposal.bundle,
            reasons=proposal.reasons,
            folder=state.folder,
            estimate=reviewed.facts.estimate,
        )

    return _until_good(take)


_STEPS: dict[str, Callable[[State], State]] = {
    "machine": _machine,
    "base": _base,
    "pictures": _pictures,
    "settings": _settings,
}
