"""Whether a training fits into memory, and what to change where it does not."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from lorakit.bundle.models import Bundle
from lorakit.bundle.problems import Problem
from lorakit.dataset.report import DatasetReport
from lorakit.errors import ExitCode
from lorakit.families.base_model import BaseFacts
from lorakit.families.families import FAMILIES
from lorakit.hardware.facts import Hardware
from lorakit.planner import search
from lorakit.planner.backend import half
from lorakit.planner.budget import Budget, budget
from lorakit.planner.estimate import Estimate, Part, Phase
from lorakit.planner.memory import phases

PROMPTS = "sample.prompts"

RANKS = (64, 32, 16, 8, 4)

SMALLER = (0.75, 0.5)
"""Resolutions to fall back to, as shares of the base's own."""


def options(
    bundle: Bundle, hardware: Hardware, report: DatasetReport | None, held: frozenset[str]
) -> search.Options:
    """What may be chosen among for a bundle here; `held` keys stay as they are."""
    own = bundle.train.precision
    return search.Options(
        precisions=tuple(dict.fromkeys((own, half(hardware)))),
        fullest=report.fullest if report and report.pictures else None,
        held=held,
    )


def undrawn(
    bundle: Bundle,
    base: BaseFacts | None,
    hardware: Hardware,
    allowed: Budget,
    ways: search.Options,
) -> list[search.Candidate]:
    """All ways to train a bundle that draws no pictures, since decoding one may take more memory
    than a step of training. Empty where it draws none as it is."""
    if not bundle.sample.prompts:
        return []
    found = search.candidates(_drawing(bundle, ()), base, hardware, allowed, ways)
    return [replace(c, changes={PROMPTS: [], **c.changes}) for c in found]


def can_draw(bundle: Bundle, base: BaseFacts | None, hardware: Hardware) -> bool:
    """Whether drawing a picture fits, as far as anybody knows."""
    found = phases(_drawing(bundle, ("a picture",)), base, hardware) or ()
    drawing = next((phase.gib for phase in found if phase.name == "sampling"), None)
    return budget(hardware).verdict(drawing) != "no"


def _drawing(bundle: Bundle, prompts: tuple[str, ...]) -> Bundle:
    sample = bundle.sample.model_copy(update={"prompts": prompts})
    return bundle.model_copy(update={"sample": sample})


def problem(
    bundle: Bundle,
    base: BaseFacts | None,
    report: DatasetReport | None,
    hardware: Hardware,
    predicted: Estimate,
) -> Problem | None:
    """An error where a bundle takes more than it may, with what to change; a warning where it is
    close; None where it fits, or where nobody could tell."""
    allowed, peak = budget(hardware), predicted.peak
    verdict = allowed.verdict(predicted.peak_gib)
    if peak is None or verdict in (None, "fits"):
        return None
    ways = options(bundle, hardware, report, frozenset())
    found = search.candidates(bundle, base, hardware, allowed, ways)
    others = [c for c in found if c.changes]
    way = search.nearest(others)
    if verdict == "tight":
        easier = way if way and way.verdict == "fits" else None
        return Problem(
            where=_where(easier),
            what=f"It will be tight: {_takes(peak)}. {allowed.words}",
            fix=_settings(easier) if easier else "End other programs before you train.",
            severity="warning",
        )
    what = f"This does not fit: {_takes(peak)}. {allowed.words}"
    if way is None:
        quiet = undrawn(bundle, base, hardware, allowed, ways)
        way, found = search.nearest(quiet), quiet or found
    fix = _settings(way) if way else _beyond(found, bundle, base, hardware, allowed, predicted)
    return Problem(where=_where(way), what=what, fix=fix, code=ExitCode.OUT_OF_MEMORY)


def _takes(peak: Phase) -> str:
    own = [part for part in peak.parts if not _is_surcharge(part)]
    most = max(own, key=lambda part: part.gib)
    return (
        f"{peak.name} is predicted to take {peak.gib:.1f} GiB{surcharge(peak)}, "
        f"{most.gib:.1f} of them {most.name}"
    )


def surcharge(peak: Phase) -> str:
    """What ROCm takes more than CUDA, in words that follow an amount of memory."""
    more = sum(part.gib for part in peak.parts if _is_surcharge(part))
    return f", {more:.1f} of them ROCm's surcharge" if more else ""


def _is_surcharge(part: Part) -> bool:
    return "rocm" in part.name.lower()


def _where(way: search.Candidate | None) -> str:
    return next(iter(way.changes), search.CHECKPOINTING) if way else search.CHECKPOINTING


def _settings(way: search.Candidate) -> str:
    """The flags that lead from a bundle to one that fits."""
    words = f"{_flags(way).lstrip()} takes {way.gib:.1f} GiB"
    return f"{words}. {_LATER}" if PROMPTS in way.changes else f"{words}."


_LATER = "No pictures are drawn then: lorakit sample draws some afterwards, where there is room."


def _flags(way: search.Candidate) -> str:
    return "".join(f" {_flag(key, value)}" for key, value in way.changes.items())


def _flag(key: str, value: object) -> str:
    """To be pasted into a shell, of which some take [] for a pattern of files."""
    return f"--set {shlex.quote(f'{key}={value}')}"


def _beyond(
    found: list[search.Candidate],
    bundle: Bundle,
    base: BaseFacts | None,
    hardware: Hardware,
    allowed: Budget,
    predicted: Estimate,
) -> str:
    """What would help where no setting that leaves the result alone does."""
    least = search.smallest(found)
    if least is None:  # the table does not hold this base
        rest = max((p.gib for p in predicted.phases if p.name != "sampling"), default=None)
        if rest is not None and allowed.verdict(rest) in ("fits", "tight"):
            return f"{_flag(PROMPTS, [])} takes {rest:.1f} GiB. {_LATER}"
        return "Turn checkpointing on, lower train.batch_size, or lower dataset.resolution."
    flags = _flags(least)
    lead = f"The least that it can take is {least.gib:.1f} GiB{f':{flags}' if flags else ''}."
    return " ".join([lead, *_helps(least, base, hardware, allowed)])


def _helps(
    least: search.Candidate, base: BaseFacts | None, hardware: Hardware, allowed: Budget
) -> Iterator[str]:
    bundle, name = least.bundle, "dataset.resolution"
    family = FAMILIES[bundle.base.family]
    native, step = (
        (base.resolution, base.size_step) if base else (family.resolution, family.size_step)
    )
    sides = [int(native * share) // step * step for share in SMALLER]
    smaller = [
        (name, side, bundle.model_copy(update={"dataset": _at(bundle, side)}))
        for side in sides
        if step <= side < bundle.dataset.resolution
    ]
    ranks = [
        ("adapter.rank", rank, bundle.model_copy(update={"adapter": _of(bundle, rank)}))
        for rank in RANKS
        if rank < bundle.adapter.rank
    ]
    helped = False
    for ways in (smaller, ranks):
        for key, value, way in ways:
            gib = max((p.gib for p in phases(way, base, hardware) or ()), default=None)
            if gib is not None and allowed.verdict(gib) != "no":
                yield f"With {value} for {key} as well, it takes {gib:.1f} GiB."
                helped = True
                break
    card = hardware.accelerator
    held = [p for p in card.processes if p.memory_gib] if card else []
    if held and allowed.gib is not None:
        names = ", ".join(f"{p.name or f'process {p.pid}'} ({p.memory_gib:.1f} GiB)" for p in held)
        ending = allowed.gib + sum(p.memory_gib or 0.0 for p in held) >= least.gib
        yield f"Other processes hold memory of the card: {names}." + (
            " Without them there is room enough." if ending else ""
        )
        helped |= ending
    if not helped:
        yield (
            "Use a smaller base, such as one of Stable Diffusion 1.x, or a larger card."
            if bundle.base.family != "sd1"
            else "Use a card with more memory; pico, the base that lorakit ships, fits anywhere."
        )


def _at(bundle: Bundle, side: int) -> object:
    return bundle.dataset.model_copy(update={"resolution": side})


def _of(bundle: Bundle, rank: int) -> object:
    return bundle.adapter.model_copy(update={"rank": rank})
