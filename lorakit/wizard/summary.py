"""What was found and what was chosen, in words: the same for every front end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lorakit.bundle.models import Bundle
from lorakit.bundle.problems import Problem
from lorakit.bundle.values import number as written
from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import BaseFacts
from lorakit.families.families import FAMILIES
from lorakit.hardware.facts import Accelerator, Hardware
from lorakit.planner.disk import needed_bytes
from lorakit.planner.estimate import Estimate
from lorakit.planner.facts import Facts
from lorakit.runs.launch import predicted
from lorakit.runs.lines import predictions
from lorakit.runs.words import UNKNOWN, number, plural, size
from lorakit.wizard.answers import Folder
from lorakit.wizard.steps import step_of

Line = tuple[str, str]
"""A label and what stands behind it."""


def of_machine(hardware: Hardware) -> Iterator[Line]:
    """The machine, the device that training uses first."""
    yield "trains on", hardware.device
    for card in hardware.accelerators:
        yield "card", _card(card)
    if not hardware.accelerators:
        yield "card", "none that NVIDIA's or AMD's driver knows of"
    yield "cpu", f"{hardware.cpu_name or UNKNOWN}, {plural(hardware.cpu_threads, 'thread')}"
    yield "memory", _free(hardware.ram_free_gib, hardware.ram_total_gib)
    torch = hardware.torch
    yield "pytorch", f"{torch.version}, built for {torch.kind}" if torch else "not installed"
    if hardware.driver:
        cuda = hardware.driver_cuda or UNKNOWN
        yield "driver", f"{hardware.driver}, knows CUDA up to {cuda}"
    yield "system", hardware.system or UNKNOWN


def _card(card: Accelerator) -> str:
    marks = (
        ("integrated", card.integrated),
        ("memory shared with the system", card.unified),
        ("hidden", not card.visible),
    )
    free = _free(card.memory_free_gib, card.memory_total_gib)
    return ", ".join([card.name, free, *(word for word, so in marks if so)])


def _free(free: float | None, total: float | None) -> str:
    return f"{number(free)} of {number(total, '.1f', 'GiB')} free"


PREDICTS = {"epsilon": "the noise", "v_prediction": "v"}


def of_base(base: BaseFacts) -> Iterator[Line]:
    """What the base says about itself."""
    title = FAMILIES[base.family].title
    yield "family", f"taken for {title} until it is here" if base.guessed else title
    yield "trained at", f"{base.resolution} x {base.resolution} pixels"
    yield "captions", f"{base.token_limit} tokens are read"
    yield (
        "predicts",
        PREDICTS[base.prediction] + (", with noise up to SNR 0" if base.zero_snr else ""),
    )
    if base.folder is None:
        yield "place", "not on this machine yet; downloaded when training starts"
    else:
        yield "weights", size(base.weight_bytes)
        yield "place", str(base.folder)
    for note in base.notes:
        yield "note", note


def of_pictures(report: DatasetReport) -> Iterator[Line]:
    """What the folders hold, in counts."""
    used = [plural(len(report.pictures), "picture")]
    if report.epoch != len(report.pictures):
        used.append(f"{report.epoch} an epoch with repeats")
    yield "used", ", ".join(used)
    left_out = [
        f"{plural(len(report.unusable), 'file')} damaged" if report.unusable else "",
        f"{plural(len(report.others), 'other file')}" if report.others else "",
        f"{plural(report.ignored, 'system file')}" if report.ignored else "",
    ]
    yield "not used", ", ".join(filter(None, left_out)) or "none"
    if report.pictures:
        yield "captions", f"{report.captioned} of {len(report.pictures)}"
        yield "sizes", sizes(report)
        kept = report.kept
        yield "kept area", "--" if kept is None else f"{kept:.0%} after the crop to size"
    more = [
        f"{report.upscaled} made larger" if report.upscaled else "",
        f"{report.turned} turned upright by EXIF" if report.turned else "",
    ]
    if any(more):
        yield "of these", ", ".join(filter(None, more))


SOURCES = 6
"""How many folders are listed."""


def of_folders(folders: Sequence[Folder]) -> Iterator[Line]:
    """What names of folders have made of the one that was typed; nothing where it is one plain
    folder."""
    named = [folder for folder in folders if folder.path]
    if len(named) < 2 and all(folder.repeats == 1 for folder in named):
        return
    for n, folder in enumerate(named[:SOURCES]):
        said = "once" if folder.repeats == 1 else f"{folder.repeats:,} times"
        if folder.prior:
            said += ", prior pictures"
        elif folder.trigger:
            said += f", trigger {folder.trigger}"
        yield "" if n else "folders", f"{folder.path}: {said}"
    if len(named) > SOURCES:
        yield "", f"and {len(named) - SOURCES:,} more"


def sizes(report: DatasetReport, limit: int = 4) -> str:
    """The fullest sizes with their pictures, and how many sizes there are more."""
    every = [f"{w}x{h}  {count}" for (w, h), count in report.buckets.items()]
    more = f"    and {len(every) - limit} more" if len(every) > limit else ""
    return "    ".join(every[:limit]) + more


def of_bundle(bundle: Bundle, facts: Facts) -> list[Line]:
    """One line for each section of a bundle, and the machine before them."""
    report = facts.report
    train, sample, save = bundle.train, bundle.sample, bundle.save
    pictures = plural(len(report.pictures), "picture") if report else "pictures not looked at"
    captions = f", {plural(report.captioned, 'caption')}" if report else ""
    buckets = f", {plural(len(report.buckets), 'size')}" if report else ""
    prompts = plural(len(sample.prompts), "prompt")
    often = f"every {sample.every:,} steps" if sample.every else "before and after"
    kept = f"every {save.every:,} steps, the last {save.keep} kept" if save.every else "at the end"
    return [
        ("machine", facts.hardware.device),
        ("base", f"{bundle.base.model} ({FAMILIES[bundle.base.family].title})"),
        ("dataset", f"{pictures}{captions}{buckets}, {bundle.dataset.resolution} px"),
        ("adapter", f"LoRA of rank {bundle.adapter.rank} on {bundle.adapter.targets}"),
        (
            "train",
            f"{train.steps:,} steps, batch {train.batch_size * train.accumulation}, "
            f"{train.optimizer} at {written(train.learning_rate)}, {train.precision}",
        ),
        ("memory", f"checkpointing {_checkpointed(bundle)}, attention {bundle.memory.attention}"),
        ("sample", f"{prompts}, {often}" if sample.prompts else "none"),
        ("save", f"{kept}; up to {size(needed_bytes(bundle, facts.base))} on disk"),
        ("takes", _taken(facts.estimate)),
    ]


def _taken(estimate: Estimate | None) -> str:
    told = predictions(predicted(estimate)) if estimate else ()
    return ", ".join(filter(None, told)) or UNKNOWN


def _checkpointed(bundle: Bundle) -> str:
    wanted = bundle.memory.checkpointing
    return plural(wanted, "block") if isinstance(wanted, int) else wanted


def of_problems(problems: Sequence[Problem]) -> str:
    """`2 errors, 1 warning`, or `no problems`."""
    errors = sum(p.severity == "error" for p in problems)
    counts = [(errors, "error"), (len(problems) - errors, "warning")]
    return ", ".join(plural(n, noun) for n, noun in counts if n) or "no problems"


def verdict(section: str, problems: Sequence[Problem]) -> str:
    """What a section's problems come to: `ok`, `1 error`, `2 warnings`."""
    mine = [p for p in problems if _section(p) == section]
    return of_problems(mine) if mine else "ok"


def _section(problem: Problem) -> str:
    step = step_of(problem)
    return problem.where.partition(".")[0] if step == "settings" else _STEP_SECTION[step]


_STEP_SECTION = {"machine": "machine", "base": "base", "pictures": "dataset"}
