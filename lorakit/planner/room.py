"""Whether a training fits into memory, and what to change where it does not."""

from __future__ import annotations

from collections.abc import Iterator

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
    found = search.candidates(
        bundle, base, hardware, allowed, options(bundle, hardware, report, frozenset())
    )
    others = [c for c in found if c.changes]
    way = search.nearest(others)
    if verdict == "tight":
        easier = way if way and way.verdict == "fits" else None
        return Problem(
            where=_where(easier),
            what=f"It will be tight: {_takes(peak)}. {allowed.words}",
            fix=_settings(easier, bundle) if easier else "End other programs before you train.",
            severity="warning",
        )
    return Problem(
        where=_where(way),
        what=f"This does not fit: {_takes(peak)}. {allowed.words}",
        fix=_settings(way, bundle) if way else _beyond(found, bundle, base, hardware, allowed),
        code=ExitCode.OUT_OF_MEMORY,
    )


def _takes(peak: Phase) -> str:
    own = [part for part in peak.parts if not _is_surcharge(part)]
    most = max(own, key=lambda part: part.gib)
    return (
        f"{peak.name} is predicted to take {peak.gib:.1f} GiB{surcharge(peak)}, most of it "
        f"{most.name} ({most.gib:.1f})"
    )


def surcharge(peak: Phase) -> str:
    """What ROCm takes more than CUDA, in words that follow an amount of memory."""
    more = sum(part.gib for part in peak.parts if _is_surcharge(part))
    return f", {more:.1f} of them ROCm's surcharge" if more else ""


def _is_surcharge(part: Part) -> bool:
    return "rocm" in part.name.lower()


def _where(way: search.Candidate | None) -> str:
    return next(iter(way.changes), search.CHECKPOINTING) if way else search.CHECKPOINTING


def _settings(way: search.Candidate, bundle: Bundle) -> str:
    """The flags that lead from a bundle to one that fits."""
    flags = " ".join(f"--set {key}={value}" for key, value in way.changes.items())
    return f"{flags} takes {way.gib:.1f} GiB."


def _beyond(
    found: list[search.Candidate],
    bundle: Bundle,
    base: BaseFacts | None,
    hardware: Hardware,
    allowed: Budget,
) -> str:
    """What would help where no setting that leaves the result alone does."""
    least = search.smallest(found)
    if least is None:  # the table does not hold this base
        return "Turn checkpointing on, lower train.batch_size, or lower dataset.resolution."
    flags = "".join(f" --set {key}={value}" for key, value in least.changes.items())
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
