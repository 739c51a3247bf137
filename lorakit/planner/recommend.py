"""Recommends settings: those of a preset, moved where the facts ask for it, each with a reason.

Pure: facts in, settings out. A value that nothing asks to move stays the preset's, with the
preset's reason. What is traded for memory comes from a search over all that the table prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lorakit.bundle import keys, read, schema
from lorakit.bundle.models import SCHEMA, Bundle
from lorakit.bundle.problems import Problem
from lorakit.bundle.values import number
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.hardware.facts import Hardware
from lorakit.planner import room, search
from lorakit.planner.backend import half, is_ampere, lacks, without_xformers
from lorakit.planner.budget import budget
from lorakit.planner.estimate import estimate
from lorakit.planner.optimizers import USED
from lorakit.planner.presets import Preset, merge
from lorakit.planner.tradeoffs import Rejected, explain

FEW, MANY = 10, 40
"""Pictures that a preset's number of steps is made for."""

SHORTEST, LONGEST = 1 / 3, 4.0
"""How far the number of pictures may move the number of steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Settings to start from."""

    settings: dict[str, Any]
    """Tables and values by the names of a bundle, without its name and pictures."""
    reasons: dict[str, str]
    """Why a value is what it is, by dotted key."""
    rejected: tuple[Rejected, ...] = ()
    """Faster choices, and why they are not recommended: dotted key, value, sentence."""
    refusal: Problem | None = None
    """Why no settings fit this machine; the settings are then those that take least memory."""


def recommend(
    hardware: Hardware,
    report: DatasetReport | None,
    base: BaseFacts | None,
    preset: Preset,
    own: Mapping[str, Any] = {},
) -> Recommendation:
    """The preset's settings for this machine, these pictures and this base, each with a reason.

    What is None is not known yet, and the settings that depend on it stay the preset's. `own` are
    values that a person chose, by dotted key: they stay, and the others suit them.
    """
    draft = _Draft(preset, own)
    if base is not None:
        _base(draft, base)
        _resolution(draft, base)
    _precision(draft, hardware)
    _attention(draft, hardware)
    if report is not None and report.pictures:
        _batch(draft, report)
        _steps(draft, report)
        _prompts(draft, report)
    _rate(draft, preset)
    refusal = _memory(draft, hardware, report, base)
    return Recommendation(
        settings=draft.settings,
        reasons=draft.reasons,
        rejected=tuple(draft.rejected),
        refusal=refusal,
    )


class _Draft:
    def __init__(self, preset: Preset, own: Mapping[str, Any]) -> None:
        self.settings: dict[str, Any] = merge(preset.settings, {})
        self.reasons = dict(preset.reasons)
        self.rejected: list[Rejected] = []
        self.held: frozenset[str] = frozenset()
        for key, value in own.items():
            before, why = self.settings, self.reasons.get(key, "")
            self.put(key, value)
            if why and self.settings == before:  # a person's own, and the preset's all the same
                self.reasons[key] = why
        self.held = frozenset(own)

    def has(self, key: str) -> bool:
        table, name = key.split(".")
        return name in self.settings.get(table, {})

    def get(self, key: str) -> Any:
        """The value so far, or the bundle's default."""
        if self.has(key):
            table, name = key.split(".")
            return self.settings[table][name]
        doc = schema.find(key)
        assert doc is not None  # the rules below name existing keys
        return doc.default

    def put(self, key: str, value: Any, reason: str = "") -> None:
        """Set a value, unless it is a person's own."""
        if key in self.held:
            return
        nested: Any = value
        for name in reversed(keys.split(key)):
            nested = {str(name): nested}
        self.settings = merge(self.settings, nested)
        self.reasons.pop(key, None)
        if reason:
            self.reasons[key] = reason

    def drop(self, key: str) -> None:
        """Leave a value to its default."""
        *above, last = (str(part) for part in keys.split(key))
        self.settings = merge(self.settings, {})
        table: Any = self.settings
        for name in above:
            table = table.get(name, {})
        table.pop(last, None)
        self.reasons.pop(key, None)

    def bundle(self) -> Bundle | None:
        """What the settings come to; None where they do not go together."""
        head = {"schema": SCHEMA, "name": "x", "dataset": {"sources": [{"path": "."}]}}
        return read.check(merge(self.settings, head))[0]


def _base(draft: _Draft, base: BaseFacts) -> None:
    """The base that was chosen; a preset's revision is of the preset's base."""
    draft.put("base.family", base.family)
    if base.model != draft.get("base.model"):
        draft.put("base.model", base.model)
        draft.put("base.revision", "")


def _resolution(draft: _Draft, base: BaseFacts) -> None:
    """The preset's size, unless it is more than twice or less than half of the base's."""
    given = draft.get("dataset.resolution") if draft.has("dataset.resolution") else 0
    made_for = f"{base.model} was trained on pictures of {base.resolution} x {base.resolution}"
    if not base.resolution / 2 <= given <= base.resolution * 2:
        draft.put("dataset.resolution", base.resolution, made_for)
    elif given % base.size_step:
        whole = max(given // base.size_step, 1) * base.size_step
        why = f"{base.model} takes multiples of {base.size_step} pixels, and {given} is none"
        draft.put("dataset.resolution", whole, why)


def _precision(draft: _Draft, hardware: Hardware) -> None:
    """bf16 from compute capability 8.0 on, fp16 on older NVIDIA cards, fp32 on a CPU.

    A preset that asks for another precision which the card has keeps it.
    """
    card, key = hardware.accelerator, search.PRECISION
    given = draft.get(key) if draft.has(key) else "bf16"
    if card is None:
        if given != "fp32":
            draft.put(key, "fp32", "there is no card to use, and a CPU is exact in fp32")
        return
    lack = lacks(hardware, given)
    if given != "bf16" and not lack:
        return
    fit = half(hardware)
    if lack and given == "bf16":
        draft.rejected.append((key, given, f"{lack}."))
    if card.capability is None and card.kind == "cuda":
        why = f"every card has fp16, and nobody could tell whether {card.name} has bf16"
    elif card.kind == "cuda" and card.capability:
        words = f"{card.name} has compute capability {card.capability[0]}.{card.capability[1]}"
        why = f"{words}, which has bf16" if fit == "bf16" else f"{words}, and bf16 needs 8.0"
    else:
        why = lack or draft.reasons.get(key, "half the memory of fp32, and its range")
    draft.put(key, fit, why)


def _attention(draft: _Draft, hardware: Hardware) -> None:
    """PyTorch's own; xformers where it was tried on an Ampere card, as the published benchmark
    found it slightly ahead there."""
    card, key = hardware.accelerator, "memory.attention"
    given = draft.get(key)
    lack = without_xformers(hardware, installed=False)
    if not lack and is_ampere(card):
        why = "slightly ahead of sdpa on Ampere cards, as published, and it works here"
        draft.put(key, "xformers", why)
    elif card and card.kind == "rocm":
        draft.put(key, "sdpa", "the one that works on AMD cards")
    elif given == "xformers" and lack:
        draft.put(key, "sdpa", f"comes with PyTorch; {lack}")
    if lack and is_ampere(card):
        said = f"{lack}; it is slightly faster on Ampere cards, as published."
        draft.rejected.append((key, "xformers", said))


def _rate(draft: _Draft, preset: Preset) -> None:
    """The preset's learning rate is for the preset's rank, and for as many pictures a step."""
    key, made_for = "train.learning_rate", _Draft(preset, {})
    factor, whys = 1.0, []
    rank, before = draft.get("adapter.rank"), made_for.get("adapter.rank")
    if rank != before:
        factor *= (before / rank) ** 0.25
        whys.append(f"the fourth root of {before} / {rank}, for the rank")
    pictures, then = (d.get(search.BATCH) * d.get(search.ACCUMULATION) for d in (draft, made_for))
    if pictures != then:
        factor *= (pictures / then) ** 0.5
        whys.append(f"the square root of {pictures} / {then}, for the pictures in a step")
    if whys:
        given = draft.get(key)
        why = f"{number(given)} times {' and '.join(whys)}"
        draft.put(key, float(f"{given * factor:.2g}"), why)


def _batch(draft: _Draft, report: DatasetReport) -> None:
    """No step sees more pictures than an epoch has: pictures, each as often as it is repeated.

    And no batch more than one size has, for the pictures of a batch are of one size.
    """
    batch, accumulation = draft.get(search.BATCH), draft.get(search.ACCUMULATION)
    seen = f"an epoch has {report.epoch} {_plural('picture', report.epoch)}, repeats counted"
    if batch > report.epoch:
        draft.put(search.BATCH, report.epoch, seen)
    batch = draft.get(search.BATCH)
    if accumulation > 1 and batch * accumulation > report.epoch:
        draft.put(search.ACCUMULATION, max(report.epoch // batch, 1), seen)
    accumulation = draft.get(search.ACCUMULATION)
    if batch > report.fullest and not draft.held & {search.BATCH, search.ACCUMULATION}:
        effective = batch * accumulation
        most = max(n for n in range(1, report.fullest + 1) if effective % n == 0)
        why = f"the fullest size has {report.fullest} {_plural('picture', report.fullest)}"
        draft.put(search.BATCH, most, why)
        draft.put(
            search.ACCUMULATION, effective // most, f"{effective} pictures a step all the same"
        )


def _steps(draft: _Draft, report: DatasetReport) -> None:
    """As many as the preset says for 10 to 40 pictures; fewer or more in proportion outside.

    Fewer pictures are learned by heart sooner, but never in less than a third of the steps; more
    of them get as many looks each, up to four times the steps. To the nearest 50.
    """
    given, count = draft.get("train.steps"), len(report.pictures)
    share = 1.0
    if count < FEW:
        share = max(count / FEW, SHORTEST)
    elif count > MANY:
        share = min(count / MANY, LONGEST)
    steps = given if share == 1 else max(round(given * share / 50), 1) * 50
    looks = steps * draft.get(search.BATCH) * draft.get(search.ACCUMULATION) / count
    why = f"{count} {_plural('picture', count)}, each seen about {looks:.0f} times"
    draft.put("train.steps", steps, why)
    warmup = draft.get("train.warmup_steps")
    if warmup > steps // 10:
        draft.put("train.warmup_steps", steps // 10, "a tenth of the steps at most")


def _prompts(draft: _Draft, report: DatasetReport) -> None:
    """Two captions, where the preset has no prompts: without any there is nothing to look at."""
    captions = list(dict.fromkeys(p.caption for p in report.pictures if p.caption.strip()))
    if captions and not draft.get("sample.prompts"):
        chosen = list(dict.fromkeys([captions[0], captions[len(captions) // 2]]))
        why = "captions of your pictures, so that a sample can be held against one"
        draft.put("sample.prompts", chosen, why)


def _memory(
    draft: _Draft, hardware: Hardware, report: DatasetReport | None, base: BaseFacts | None
) -> Problem | None:
    """The fastest settings that fit; a refusal where none do."""
    allowed, bundle = budget(hardware), draft.bundle()
    if allowed.gib is None or bundle is None:
        return None
    ways = room.options(bundle, hardware, report, draft.held)
    found = search.candidates(bundle, base, hardware, allowed, ways)
    chosen, reasons = search.best(found), {}
    if chosen is None and room.PROMPTS not in draft.held:
        quiet = room.undrawn(bundle, base, hardware, allowed, ways)
        chosen, drawn = search.best(quiet), search.smallest(found)
        if chosen and drawn:
            why = f"none: drawing takes {drawn.gib:.1f} GiB, and {allowed.gib:.1f} may be used"
            found, reasons = quiet, {room.PROMPTS: why}
    chosen = chosen or search.smallest(found)
    if chosen is None:
        return None
    for key, value in chosen.changes.items():
        draft.put(key, value)
    told, rejected = explain(chosen, found, allowed)
    for key, reason in (reasons | told).items():
        if key not in draft.held:
            draft.put(key, draft.get(key), reason)
    draft.rejected += [r for r in rejected if r[0] not in draft.held]
    if search.OPTIMIZER in chosen.changes:
        _options(draft, chosen.bundle.train.optimizer)
    if chosen.verdict != "no":
        return None
    least = chosen.bundle
    return room.problem(least, base, report, hardware, estimate(least, base, report, hardware))


def _options(draft: _Draft, optimizer: str) -> None:
    """Options of the optimizer that it is no longer go."""
    for option in draft.settings.get("train", {}).get("optimizer_options", {}).copy():
        if option not in USED[optimizer]:
            draft.drop(f"train.optimizer_options.{option}")


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
