"""Recommends settings: those of a preset, moved where the facts ask for it, each with a reason.

Pure: facts in, settings out. A value that a rule has no reason to move stays the preset's, with the
preset's reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lorakit.bundle import keys, schema
from lorakit.bundle.models import PICO
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.families.families import FAMILIES
from lorakit.hardware.facts import Hardware
from lorakit.planner.presets import Preset, merge

FEW, MANY = 10, 40
"""Pictures that a preset's number of steps is made for."""

SHORTEST, LONGEST = 1 / 3, 4.0
"""How far the number of pictures may move the number of steps."""

ROUGH_GIB = {"sd1": (1.6, 0.8, 0.2), "sd2": (1.6, 0.8, 0.2), "sdxl": (4.9, 5.3, 0.5)}
"""Each family in 16 bits: its weights, and what one picture of its own resolution adds, without and
with checkpointing. Counted with rank 16 on attention; for sd1 at batch 1 these are the measured 2.4
and 1.8 GiB, for sdxl 10.2 and 5.4."""

MARGIN_GIB = 0.6
"""Left free for the driver's context and for what the allocator cannot use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Settings to start from."""

    settings: dict[str, Any]
    """Tables and values by the names of a bundle, without its name and pictures."""
    reasons: dict[str, str]
    """Why a value is what it is, by dotted key."""


def recommend(
    hardware: Hardware,
    report: DatasetReport | None,
    base: BaseFacts | None,
    preset: Preset,
) -> Recommendation:
    """The preset's settings for this machine, these pictures and this base, each with a reason.

    What is None is not known yet, and the settings that depend on it stay the preset's.
    """
    draft = _Draft(preset)
    if base is not None:
        _base(draft, base)
        _resolution(draft, base)
    _precision(draft, hardware)
    if report is not None and report.pictures:
        _batch(draft, report)
        _steps(draft, report)
        _prompts(draft, report)
    _checkpointing(draft, hardware)
    return Recommendation(settings=draft.settings, reasons=draft.reasons)


class _Draft:
    def __init__(self, preset: Preset) -> None:
        self.settings: dict[str, Any] = merge(preset.settings, {})
        self.reasons = dict(preset.reasons)

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
        table, name = keys.split(key)
        self.settings = merge(self.settings, {str(table): {str(name): value}})
        self.reasons.pop(key, None)
        if reason:
            self.reasons[key] = reason


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

    A preset that asks for what every card has keeps it.
    """
    card, key = hardware.accelerator, "train.precision"
    given = draft.get(key) if draft.has(key) else "bf16"
    if card is None:
        if given != "fp32":
            draft.put(key, "fp32", "there is no card to use, and a CPU is exact in fp32")
    elif given != "bf16":
        return
    elif card.kind == "rocm":
        draft.put(key, "bf16", draft.reasons.get(key, "half the memory of fp32, and its range"))
    elif card.capability is None:
        why = f"every card has fp16, and nobody could tell whether {card.name} has bf16"
        draft.put(key, "fp16", why)
    else:
        words = f"{card.name} has compute capability {card.capability[0]}.{card.capability[1]}"
        if card.native_bf16:
            draft.put(key, "bf16", f"{words}, which has bf16")
        else:
            draft.put(key, "fp16", f"{words}, and bf16 needs 8.0")


def _batch(draft: _Draft, report: DatasetReport) -> None:
    """No step sees more pictures than an epoch has: pictures, each as often as it is repeated."""
    batch, accumulation = draft.get("train.batch_size"), draft.get("train.accumulation")
    seen = f"an epoch has {report.epoch} {_plural('picture', report.epoch)}, repeats counted"
    if batch > report.epoch:
        batch = report.epoch
        draft.put("train.batch_size", batch, seen)
    if accumulation > 1 and batch * accumulation > report.epoch:
        draft.put("train.accumulation", max(report.epoch // batch, 1), seen)


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
    looks = steps * draft.get("train.batch_size") * draft.get("train.accumulation") / count
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


def _checkpointing(draft: _Draft, hardware: Hardware) -> None:
    """Off where the card has room for it. pico fits anywhere.

    A rule of thumb from a few measurements, for the first answer of the wizard.
    """
    card, key = hardware.accelerator, "memory.checkpointing"
    if card is None or card.memory_free_gib is None or draft.get("base.model") == PICO:
        return
    if draft.has(key) and draft.get(key) == "full":
        return
    family = FAMILIES[draft.get("base.family")]
    weights, picture, checkpointed = ROUGH_GIB[family.name]
    area = (draft.get("dataset.resolution") / family.resolution) ** 2
    pictures = area * draft.get("train.batch_size")
    bytes_ = 2 if draft.get("train.precision") == "fp32" else 1
    without = bytes_ * (weights + picture * pictures)
    full = bytes_ * (weights + checkpointed * pictures)
    free = card.memory_free_gib
    if free >= without + MARGIN_GIB:
        draft.put(key, "none", f"fastest; takes about {without:.1f} of {free:.1f} GiB free")
    else:
        why = f"takes about {full:.1f} GiB, without it {without:.1f}; {free:.1f} GiB are free"
        draft.put(key, "full", why)


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
