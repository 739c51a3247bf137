"""Everything that is wrong or doubtful about a bundle on this machine: one small rule each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lorakit.bundle.models import PICO, Bundle, OptimizerOptions
from lorakit.bundle.problems import Problem
from lorakit.errors import ExitCode
from lorakit.families.base_model import is_small
from lorakit.families.blocks import count, too_many
from lorakit.families.hub_cache import listed
from lorakit.hardware.kernels import left_behind
from lorakit.planner import room
from lorakit.planner.backend import half, lacks, without_xformers
from lorakit.planner.disk import needed_bytes
from lorakit.planner.estimate import estimate
from lorakit.planner.facts import Facts
from lorakit.planner.optimizers import USED

GIB = 1024**3

Rule = Callable[[Bundle, Facts], Iterator[Problem]]


def check(bundle: Bundle, facts: Facts) -> list[Problem]:
    """All problems: errors first, each in the order of the bundle's sections.

    With them stand what the survey, the scan of the pictures and the machine had to say.
    """
    found = [*facts.problems]
    for rule in RULES:
        found += rule(bundle, facts)
    if facts.report:
        found += facts.report.findings
    found += facts.hardware.findings
    return sorted(found, key=lambda problem: problem.severity != "error")


def _error(where: str, what: str, fix: str, code: ExitCode = ExitCode.USAGE) -> Problem:
    return Problem(where=where, what=what, fix=fix, code=code)


def _warning(where: str, what: str, fix: str = "") -> Problem:
    return Problem(where=where, what=what, fix=fix, severity="warning")


# base


def reachable(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """A base that is not here can be downloaded."""
    if facts.base and facts.base.folder is None and facts.offline:
        yield _error(
            "base.model",
            f"The base {bundle.base.model} is not on this machine{listed(facts.missing)}, and "
            "HF_HUB_OFFLINE forbids downloading it.",
            "Unset HF_HUB_OFFLINE, or give a folder or file that is here as base.model.",
        )


def prediction(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """What the model predicts is known, and the bundle says nothing else."""
    base, wanted = facts.base, bundle.base.prediction
    if base is None:
        return
    if wanted and base.says not in ("", wanted):
        yield _warning(
            "base.prediction",
            f"The base {base.model} says that it predicts {base.says}, and the bundle says"
            f" {wanted}, which is used.",
            f"--set base.prediction={base.says}",
        )
    if base.family == "sd2" and base.folder and not wanted and not base.says:
        yield _warning(
            "base.prediction",
            f"Nothing says whether the base {base.model} predicts the noise or v: taken for"
            f" {base.prediction}.",
            "Models of SD 2 for 768 pixels predict v: --set base.prediction=v_prediction",
        )
    if bundle.base.zero_snr and base.prediction == "epsilon":
        yield _error(
            "base.zero_snr",
            "At SNR 0 there is nothing but noise, so that a model which predicts the noise learns"
            " nothing of it.",
            "--set base.zero_snr=false, or --set base.prediction=v_prediction",
        )


# dataset


def resolution(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """The resolution is a multiple of the base's step, so that a square of it exists."""
    if facts.base is None:
        return
    step, wanted = facts.base.size_step, bundle.dataset.resolution
    if wanted % step == 0:
        return
    below, above = wanted // step * step, (wanted // step + 1) * step
    near = f"{below} and {above}" if below else f"{above}"
    yield _error(
        "dataset.resolution",
        f"Resolution {wanted} is not a multiple of {step}, the step of this base.",
        f"The nearest that {'are' if below else 'is'}: {near}. --set dataset.resolution={above}",
    )


def far_from_native(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """The resolution is near what the base was trained on."""
    if facts.base is None or not facts.base.resolution:
        return
    native, wanted = facts.base.resolution, bundle.dataset.resolution
    if not native / 2 <= wanted <= native * 2:
        yield _warning(
            "dataset.resolution",
            f"Resolution {wanted} is far from {native}, which this base was trained on.",
            f"--set dataset.resolution={native}",
        )


def batches(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """One optimizer step does not see more pictures than an epoch has."""
    if facts.report is None or not facts.report.pictures:
        return
    batch, accumulation = bundle.train.batch_size, bundle.train.accumulation
    epoch, pictures = facts.report.epoch, len(facts.report.pictures)
    if batch * accumulation > epoch:
        yield _warning(
            "train.batch_size" if batch > epoch else "train.accumulation",
            f"{pictures} pictures with their repeats make {epoch} in an epoch, less than batch "
            f"{batch} x accumulation {accumulation} = {batch * accumulation}: one step sees some "
            "of them twice.",
            "Lower train.batch_size or train.accumulation, or raise repeats.",
        )
        return
    fullest = facts.report.fullest
    if batch > fullest:
        yield _warning(
            "train.batch_size",
            f"No size has {batch} pictures, the fullest has {fullest}: every batch is shorter than "
            f"{batch}.",
            f"--set train.batch_size={fullest}, or --set dataset.buckets=false",
        )


def captions(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """No setting of captions is without effect, or undoes another."""
    how = bundle.dataset.captions
    if how.keep and not (how.shuffle or how.drop_tags):
        yield _warning(
            "dataset.captions.keep",
            f"keep = {how.keep} has nothing to do: tags are neither shuffled nor dropped.",
            "--set dataset.captions.shuffle=true, or --set dataset.captions.keep=0",
        )
    if how.drop == 1:
        yield _warning(
            "dataset.captions.drop",
            "Every caption is left out, its trigger too: no word will call up what is learned.",
            "--set dataset.captions.drop=0.1 leaves out one of ten.",
        )
    for index, source in enumerate(bundle.dataset.sources):
        if source.prior and source.trigger.strip():
            yield _warning(
                f"dataset.sources[{index}].trigger",
                f"Prior pictures take no trigger, and {source.trigger} is not put before their "
                "captions.",
                "Remove the trigger, or prior.",
            )


def views(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """What is changed at random differs from epoch to epoch."""
    shape = bundle.dataset
    changes = {"crop": shape.crop == "random", "flip": shape.flip, "colour": shape.colour > 0}
    asked = [name for name, is_asked in changes.items() if is_asked]
    if asked and bundle.memory.cache_latents and shape.variants == 1:
        yield _warning(
            "dataset.variants",
            f"With one version of each picture in the cache every epoch sees the same: "
            f"{', '.join(asked)} {'is' if len(asked) == 1 else 'are'} drawn once.",
            "--set dataset.variants=4, or --set memory.cache_latents=false",
        )


def prior(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """Prior pictures stand beside a subject, and weigh something."""
    there = [source.prior for source in bundle.dataset.sources]
    if all(there):
        yield _error(
            "dataset.sources",
            "All sources are prior ones, which keep the base as it is: nothing is left to learn.",
            "Set prior = false for the pictures of the subject.",
        )
    weight = bundle.loss.prior_weight
    if weight != 1 and not any(there):
        yield _warning(
            "loss.prior_weight",
            f"There are no prior pictures, so prior_weight = {weight:g} has nothing to do.",
            "Set prior = true for their source.",
        )
    if bundle.loss.unmasked_weight and bundle.dataset.masks == "none":
        yield _warning(
            "loss.unmasked_weight",
            f"There are no masks, so unmasked_weight = {bundle.loss.unmasked_weight:g} has nothing "
            "to do.",
            "--set dataset.masks=alpha or =files",
        )


# train


def precision(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """The device computes in the precision that is asked for."""
    wanted = bundle.train.precision
    if facts.on_cpu:
        if wanted != "fp32":
            yield _warning(
                "train.precision",
                f"On the CPU {wanted} is usually slower than fp32, not faster.",
                "--set train.precision=fp32",
            )
    elif lack := lacks(facts.hardware, wanted):
        yield _error(
            "train.precision",
            f"The bundle wants {wanted}, and {lack}.",
            f"--set train.precision={half(facts.hardware)}",
        )


def warmup(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """Warm-up ends before training does, and the schedule has one."""
    train = bundle.train
    if not train.warmup_steps:
        return
    if train.schedule == "constant":
        yield _warning(
            "train.warmup_steps",
            f"The schedule constant has no warm-up, so its {train.warmup_steps} steps are ignored.",
            "--set train.schedule=constant_with_warmup, or --set train.warmup_steps=0",
        )
    elif train.warmup_steps >= train.steps:
        yield _error(
            "train.warmup_steps",
            f"Warm-up takes {train.warmup_steps} steps, and training ends after {train.steps}.",
            f"--set train.warmup_steps={train.steps // 20}",
        )


def optimizer_options(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """No option is set that the optimizer has no use for."""
    name, options = bundle.train.optimizer, bundle.train.optimizer_options
    for option, default in OptimizerOptions().model_dump().items():
        value = getattr(options, option)
        if option not in USED[name] and value != default:
            yield _warning(
                f"train.optimizer_options.{option}",
                f"{name} has no use for {option} = {value}.",
                f"Remove it, or choose another train.optimizer than {name}.",
            )


# memory


def working(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """The device that training runs on does what PyTorch asks of it, as far as that was tried or
    can be told from the build."""
    device, card, torch = facts.hardware.tried, facts.hardware.accelerator, facts.hardware.torch
    if device is None and card and torch and left_behind(torch.cuda, card.capability):
        yield _error(
            "",
            f"{card.name} cannot be trained on: PyTorch {torch.version} has no kernels for it.",
            "Install the build that the warning about it names, or train on the CPU on purpose: "
            "--cpu.",
            ExitCode.NO_HARDWARE,
        )
    if device is not None and device.failure:
        yield _error(
            "",
            f"{device.name} cannot be trained on: {device.failure}.",
            "lorakit doctor says what may help.",
            ExitCode.NO_HARDWARE,
        )


def xformers(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """xformers is installed and has a card to run on, if it is asked for."""
    if bundle.memory.attention != "xformers":
        return
    reason = without_xformers(facts.hardware, "xformers" in facts.modules)
    if reason:
        yield _error(
            "memory.attention",
            f"{reason}, and the bundle asks for it.",
            "--set memory.attention=sdpa",
        )


def blocks(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """The base has as many blocks as are to recompute."""
    wanted, base = bundle.memory.checkpointing, facts.base
    if isinstance(wanted, str) or base is None or base.guessed or not base.unet:
        return
    there = count(base.unet)
    if wanted > there:
        yield _error("memory.checkpointing", *too_many(wanted, there))


def cpu_only_torch(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """A card is not left idle for want of the right PyTorch, unless that is said on purpose.

    pico, which is made for the CPU, may leave it so; the machine's own warning stands all the same.
    """
    card, torch = facts.hardware.idle, facts.hardware.torch
    if card is None or torch is None or bundle.base.model == PICO:
        return
    yield _error(
        "",
        f"PyTorch {torch.version} cannot use {card.name}, and nobody said to train on the CPU, "
        "which takes tens to hundreds of times as long.",
        "Install the build that the warning about it names, or train on the CPU on purpose: --cpu "
        "(LORAKIT_CPU=1 for the wizard).",
        ExitCode.NO_HARDWARE,
    )


def memory(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """Training fits into what is free, with a reserve."""
    predicted = facts.estimate or estimate(bundle, facts.base, facts.report, facts.hardware)
    found = room.problem(bundle, facts.base, facts.report, facts.hardware, predicted)
    if found is not None:
        yield found


def slow(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """A base of full size has a card to run on."""
    if facts.on_cpu and not is_small(bundle, facts.base):
        yield _warning(
            "base.model",
            f"{bundle.base.model} would be trained on the {facts.hardware.device}: expect "
            "tens of seconds for a step, or minutes.",
            "Train on a machine with a graphics card; pico, the base that lorakit ships, is made "
            "for the CPU.",
        )


# sample


def prompts(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """There are prompts, and the text encoder reads them whole."""
    sample = bundle.sample
    if not sample.prompts and room.can_draw(bundle, facts.base, facts.hardware):
        yield _warning(
            "sample.prompts",
            "No sample prompts: nothing is seen of the result before the end.",
            'Such as: prompts = ["your trigger on a beach"]',
        )
    limit = facts.base.token_limit if facts.base else None
    for index, prompt in enumerate(sample.prompts):
        key = f"sample.prompts[{index}]"
        tokens = facts.prompt_tokens[index] if index < len(facts.prompt_tokens) else None
        if not prompt.strip():
            yield _warning(key, "A sample prompt is empty: it shows what the base likes best.")
        elif limit is not None and tokens is not None and tokens > limit:
            yield _warning(
                key,
                f"The prompt has {tokens} tokens, and only the first {limit} are read.",
                "Shorten it.",
            )


def intervals(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """Samples and checkpoints come within the steps there are."""
    steps = bundle.train.steps
    if bundle.sample.prompts and bundle.sample.every > steps:
        yield _warning(
            "sample.every",
            f"Samples come every {bundle.sample.every} steps, and training ends after {steps}: "
            "none are drawn on the way.",
            f"--set sample.every={max(1, steps // 4)}",
        )
    if bundle.save.every > steps:
        yield _warning(
            "save.every",
            f"Checkpoints come every {bundle.save.every} steps, and training ends after {steps}: "
            "there is none to go back to.",
            f"--set save.every={max(1, steps // 2)}",
        )


# save


def disk(bundle: Bundle, facts: Facts) -> Iterator[Problem]:
    """The disk has room for the run."""
    free = facts.disk_free_bytes
    needed = needed_bytes(bundle, facts.base, facts.written)
    more = f" more after step {facts.written.step}" if facts.written.step else ""
    if free is not None and needed > free:
        yield _error(
            "save.keep",
            f"The run needs up to {needed / GIB:.2f} GiB{more}, and {free / GIB:.2f} GiB are free "
            f"in {facts.runs_folder or 'the folder of runs'}.",
            "Make room, lower save.keep, or let runs live elsewhere: LORAKIT_RUNS or --runs.",
            ExitCode.DATA,
        )


RULES: tuple[Rule, ...] = (
    reachable,
    prediction,
    resolution,
    far_from_native,
    batches,
    captions,
    views,
    prior,
    precision,
    warmup,
    optimizer_options,
    working,
    xformers,
    blocks,
    cpu_only_torch,
    memory,
    slow,
    prompts,
    intervals,
    disk,
)
