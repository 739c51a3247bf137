"""From answers and what is known to a bundle: preset, then recommendation, then own values."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lorakit.bundle import keys, read
from lorakit.bundle.models import PICO, SCHEMA, Bundle
from lorakit.bundle.problems import Problem
from lorakit.bundle.write import tables
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.hardware.facts import Hardware
from lorakit.planner.budget import budget
from lorakit.planner.presets import Preset, merge
from lorakit.planner.recommend import Recommendation, recommend
from lorakit.planner.tradeoffs import Rejected
from lorakit.wizard.answers import Answers, Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What has been found out so far. None: not looked at yet, or it could not be."""

    hardware: Hardware | None = None
    base: BaseFacts | None = None
    report: DatasetReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the answers come to."""

    preset: Preset
    recommended: Mapping[str, Any]
    """Every setting as it would be without changes: tables and values by the bundle's names."""
    values: Mapping[str, Any]
    """Every setting as it is."""
    reasons: Mapping[str, str]
    """Why a recommended value is what it is, by dotted key; none for a changed one."""
    rejected: tuple[Rejected, ...]
    """Faster choices that are not recommended: dotted key, value, and why in a sentence."""
    bundle: Bundle | None
    """None where there are problems."""
    problems: tuple[Problem, ...]

    def value(self, key: str) -> Any:
        """The value of a dotted key."""
        return look_up(self.values, key)

    def recommends(self, key: str) -> Any:
        """The value of a dotted key without changes."""
        return look_up(self.recommended, key)

    def is_changed(self, key: str) -> bool:
        """Whether a value differs from the recommended one."""
        return bool(self.value(key) != self.recommends(key))


def propose(answers: Answers, known: Known, presets: Sequence[Preset]) -> Proposal:
    """The bundle that follows from the answers. Pure: the same in, the same out."""
    preset = choose_preset(answers, known, presets)
    recommendation, recommended = _recommended(answers, known, preset)
    changed = copy.deepcopy(recommended)
    for key, value in answers.changes.items():
        _put(changed, key, value)
    changed.setdefault("dataset", {})["sources"] = _sources(answers)
    bundle, problems = read.check(changed)
    values = tables(bundle) if bundle else merge(recommended, changed)
    return Proposal(
        preset=preset,
        recommended=recommended,
        values=values,
        reasons={
            key: reason
            for key, reason in recommendation.reasons.items()
            if look_up(values, key) == look_up(recommended, key)
        },
        rejected=recommendation.rejected,
        bundle=bundle,
        problems=tuple(problems),
    )


def _recommended(
    answers: Answers, known: Known, preset: Preset
) -> tuple[Recommendation, dict[str, Any]]:
    """What is recommended, and every setting of it.

    The person's own values are held where they make a bundle, so that the others suit them; what
    is recommended in their place is what would be without them.
    """
    hardware = known.hardware or Hardware()
    plain = recommend(hardware, known.report, known.base, preset)
    without = _complete(_settings(answers, known, plain))
    changed = copy.deepcopy(without)
    for key, value in answers.changes.items():
        _put(changed, key, value)
    if not answers.changes or not _is_whole(changed):
        return plain, without
    found = recommend(hardware, known.report, known.base, preset, answers.changes)
    around = _complete(_settings(answers, known, found))
    for key in answers.changes:
        _put(around, key, look_up(without, key))
    return found, around


def _settings(answers: Answers, known: Known, found: Recommendation) -> dict[str, Any]:
    settings = copy.deepcopy(found.settings)
    settings |= {"schema": SCHEMA, "name": answers.run_name}
    settings["base"] = _base(answers, known, settings.get("base", {}))
    return settings


def choose_preset(answers: Answers, known: Known, presets: Sequence[Preset]) -> Preset:
    """The preset of that name, else the one nearest to base and machine; never one of another
    family than the base. A goal is laid over its family's standard."""
    chosen = suitable(answers, known, presets)
    for preset in chosen:
        if preset.name == answers.preset:
            return _whole(preset, chosen, _family(answers, known))
    usual = [p for p in chosen if p.purpose == "usual"]
    return min(usual, key=lambda p: _distance(p, answers.base, known), default=_PLAIN)


def _whole(preset: Preset, presets: Sequence[Preset], family: str) -> Preset:
    standard = [p for p in presets if p.name == f"{family or 'sd1'}-standard"]
    return preset.over(standard[0]) if preset.purpose == "goal" and standard else preset


def suitable(answers: Answers, known: Known, presets: Sequence[Preset]) -> list[Preset]:
    """The presets of the base's family; all of them as long as that is not known. pico learns in
    its own way, so that the goals are not for it."""
    family = _family(answers, known)
    found = [p for p in presets if not family or p.family in (family, "any")]
    small = answers.base == PICO
    return [p for p in found if not (small and p.family == "any" and p.purpose == "goal")]


_PLAIN = Preset(name="defaults", title="What lorakit does without a preset")


def _distance(preset: Preset, model: str, known: Known) -> tuple[bool, bool, bool, float, float]:
    """Other base, more than twice or less than half the base's resolution, other machine, how far
    its resolution is; then the one made for the most memory, or for the least where nobody could
    tell how much is free."""
    settings = preset.settings
    far = 0.0
    wanted = settings.get("dataset", {}).get("resolution")
    if known.base and wanted:
        far = abs(math.log2(wanted / known.base.resolution))
    unfit = bool(known.hardware and preset.unfit(known.hardware))
    told = known.hardware is not None and budget(known.hardware).free_gib is not None
    size = preset.min_memory_gib * (-1 if told and not unfit else 1)
    return settings.get("base", {}).get("model") != model, far > 1, unfit, far, size


def _base(answers: Answers, known: Known, preset: Mapping[str, Any]) -> dict[str, Any]:
    """The base that was chosen; a preset's revision is one of the preset's base."""
    revision = preset.get("revision", "") if preset.get("model") == answers.base else ""
    made = {**preset, "model": answers.base, "revision": answers.revision or revision}
    family = _family(answers, known)
    found: dict[str, Any] = {"family": family} if family else {}
    if known.base and known.base.folder:
        found["prediction"] = known.base.says or "epsilon"
        found["zero_snr"] = known.base.says_zero_snr
    return {**made, **found}


def _family(answers: Answers, known: Known) -> str:
    """What the base is, or is taken for; empty where neither is known."""
    return known.base.family if known.base else answers.family


def _sources(answers: Answers) -> list[dict[str, Any]]:
    return [source(folder) for folder in answers.folders if folder.path]


def source(folder: Folder) -> dict[str, Any]:
    """A folder as a bundle names it."""
    return {key: value for key, value in asdict(folder).items() if key != "typed"}


_HEAD = {"name": "x", "dataset": {"sources": [{"path": "."}]}}
"""What a bundle needs beside its settings."""


def _is_whole(settings: Mapping[str, Any]) -> bool:
    return read.check(merge(settings, _HEAD))[0] is not None


def _complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """With the default of every key that is not set. Folders and names are no settings."""
    whole = merge(settings, _HEAD)
    bundle, _ = read.check(whole)
    if bundle is None:  # a preset and the rules over it are valid, so this is not reached
        return dict(whole)
    return {**tables(bundle), "name": settings["name"]}


def look_up(data: Any, key: str) -> Any:
    """The value at a dotted key, None where there is none."""
    for part in keys.split(key):
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _put(data: dict[str, Any], key: str, value: Any) -> None:
    *above, last = key.split(".")
    for part in above:
        data = data.setdefault(part, {})
    data[last] = value
