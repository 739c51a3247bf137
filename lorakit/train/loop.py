"""The training of one bundle, top to bottom."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lorakit.bundle.models import Bundle
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.families import FAMILIES
from lorakit.runs.events import Doing, Finished, Log, Noted, Saved, Stepped
from lorakit.train import checkpoint, device, download, optim, prepare
from lorakit.train.adapters import files, lora, verify
from lorakit.train.batches import Batches
from lorakit.train.control import Control
from lorakit.train.families.stable_diffusion import DTYPES, StableDiffusion
from lorakit.train.objective import Objective
from lorakit.train.sample import Samples
from lorakit.train.step import Model, step

REPORT_SECONDS = 1.0
"""Losses leave the device about this often, never for a step's sake."""

MAX_SKIPPED = 5
"""Steps in a row whose loss is not finite, after which the run stops."""


def family_of(bundle: Bundle) -> StableDiffusion:
    """What loads, encodes, predicts and draws for a bundle's family."""
    return importlib.import_module(f"lorakit.train.families.{bundle.base.family}").FAMILY


def train(bundle: Bundle, run: Path, log: Log, control: Control, where: torch.device) -> Finished:
    """Train a bundle in its run directory and return how it ended.

    Raises LorakitError for everything that a person can mend.
    """
    family, facts = family_of(bundle), FAMILIES[bundle.base.family]
    dtype = DTYPES[bundle.train.precision]

    download.fetch(bundle.base, run, log, control.stopping)
    if control.stopping():
        return _stopped_early(control)
    log.append(Doing(phase="caching"))
    base, report = prepare.look(bundle, run)
    ready = prepare.encode(bundle, base, report, family, where, log, control.stopping)
    if ready is None:
        return _stopped_early(control)

    unet = family.load_unet(ready.folder, dtype).to(where)
    weights = lora.attach(unet, facts, bundle.adapter, bundle.train.seed)
    device.trade(unet, bundle.memory)
    predict = family.predictor(unet, dtype)
    schedule = family.alphas_cumprod(ready.folder).to(where)
    model = Model(
        predict,
        weights,
        Objective.of(schedule, base.prediction, bundle.loss.snr_gamma),
        optim.optimizer(bundle.train, weights),
        torch.amp.GradScaler(where.type, enabled=bundle.train.precision == "fp16"),
        bundle.train.clip_norm,
    )
    batches = Batches(ready.samples, bundle, ready.scale, len(schedule), where, dtype)
    count = sum(w.numel() for w in weights)
    log.append(
        Noted(
            text=f"{len(lora.layers(unet))} layers adapted, {count:,} weights; "
            f"{len(report.pictures)} pictures, {batches.plan.batches_per_epoch} batches an epoch"
        )
    )
    painter = family.painter(
        ready.folder,
        unet,
        (bundle.dataset.resolution,) * 2,
        bundle.sample.steps,
        bundle.sample.guidance,
        ready.prompts,
    )
    training = Training(bundle, run, log, control, model, batches, family, unet, base.prediction)
    _check_room(run, training, bundle)

    samples = Samples(run, bundle.sample, painter, log)
    samples.draw(0)
    if control.stopping():
        return _stopped_early(control)
    training.run(samples)
    control.finish()

    stopped = training.done < bundle.train.steps
    final = training.write_final()
    if not stopped and training.done not in samples.drawn():
        samples.draw(training.done)
    return Finished(
        outcome="stopped" if stopped else "done",
        step=training.done,
        files=[*(p.name for p in final), *samples.sheets()],
        digest=files.digest(training.adapter()),
        exit_code=control.exit_code if stopped else ExitCode.OK,
    )


def _stopped_early(control: Control) -> Finished:
    """The end of a run that was stopped before its first step."""
    control.finish()
    return Finished(outcome="stopped", step=0, files=[], exit_code=control.exit_code)


def _check_room(run: Path, training: Training, bundle: Bundle) -> None:
    """Write once what a checkpoint will need, before the first step rather than after the last."""
    size = 4 * sum(w.nbytes for w in training.model.weights) + 2**20
    try:
        checkpoint.probe(run, size)
    except OSError as error:
        raise LorakitError(
            f"A checkpoint of {size / 2**20:.0f} MiB cannot be written in {run}: {error.strerror}.",
            "Make room there, or choose another place with --runs or LORAKIT_RUNS.",
            ExitCode.DATA,
        ) from error


MIN_SCALE = 2.0**-10
"""A loss scaling below this means that fp16 overflows whatever is done."""


class Training:
    """The loop and its counters. `done` is the last finished step, absolute."""

    def __init__(
        self,
        bundle: Bundle,
        run: Path,
        log: Log,
        control: Control,
        model: Model,
        batches: Batches,
        family: StableDiffusion,
        unet: Any,
        prediction: str,
    ) -> None:
        self.bundle, self.model, self.done = bundle, model, 0
        self._folder, self._log, self._control = run, log, control
        self._batches, self._prediction = batches, prediction
        self._family, self._unet = family, unet
        self._skipped = 0
        self._images = 0

    def run(self, samples: Samples) -> None:
        """Train to the target, or until someone asks to stop: then that step ends, and is saved."""
        report = Report(self._log)
        self._log.append(Doing(phase="training"))
        while self.done < self.bundle.train.steps and self.turn(report, samples):
            pass

    def turn(self, report: Report, samples: Samples) -> bool:
        """One step and what falls due after it; False when it was the last one asked for."""
        self._advance(report)
        last = self.done >= self.bundle.train.steps
        asked, stopping = self._control.take(), self._control.stopping()
        every = self.bundle.save.every
        saving = stopping or "save" in asked or (every and self.done % every == 0 and not last)
        sampling = "sample" in asked or (samples.due(self.done) and not last)
        if report.due() or saving or sampling or last:
            self._judge(report.flush())
        if saving:
            self.save()
        if stopping:
            self._log.append(Doing(phase="stopping"))
            return False
        if sampling:
            samples.draw(self.done)
        if saving or sampling:
            self._log.append(Doing(phase="training"))
            report.restart()
        return True

    def _advance(self, report: Report) -> None:
        """One optimizer step: its batches, its learning rate, its update."""
        report.waits()
        batches = self._batches.of(self.done + 1)
        report.has_data()
        rate = optim.learning_rate(self.bundle.train, self.done + 1)
        for group in self.model.optimizer.param_groups:
            group["lr"] = rate
        loss = step(self.model, batches)
        self.done += 1
        images = sum(len(b.latents) for b in batches)
        self._images += images
        report.add(self.done, loss, rate, images)

    def _judge(self, losses: list[float | None]) -> None:
        """Count steps that were skipped; stop when too many come in a row."""
        for loss in losses:
            self._skipped = self._skipped + 1 if loss is None else 0
            if self._skipped >= MAX_SKIPPED or self.model.scaler.get_scale() < MIN_SCALE:
                raise LorakitError(
                    f"Loss or gradients were not finite in {self._skipped or 'too many'} steps in"
                    f" a row, up to step {self.done}.",
                    "Lower train.learning_rate, or train in fp32 or bf16. Earlier checkpoints are"
                    " kept.",
                    ExitCode.TRAINING_FAILED,
                )

    def adapter(self) -> dict[str, Tensor]:
        """The adapter as it is now, in kohya's layout, on the CPU."""
        family = FAMILIES[self.bundle.base.family]
        return files.kohya(lora.matrices(self._unet), family, self.bundle.adapter.alpha)

    def _metadata(self, tensors: dict[str, Tensor]) -> dict[str, str]:
        family = FAMILIES[self.bundle.base.family]
        images = len(set(self._batches.samples))
        return files.kohya_metadata(
            self.bundle, family, tensors, self.done, self._prediction, images
        )

    def save(self) -> None:
        """Write a checkpoint. Where that fails the last one stays, and training goes on."""
        self._log.append(Doing(phase="saving"))
        tensors = self.adapter()
        try:
            path, size = checkpoint.save(
                self._folder,
                self.done,
                tensors,
                self._metadata(tensors),
                self.model.optimizer,
                self.model.scaler,
                {"images": self._images, "skipped": self._skipped},
                self.bundle.save.keep,
            )
        except OSError as error:
            text = f"checkpoint {self.done} was not written: {error.strerror or error}"
            self._log.append(Noted(text=text, level="error"))
            return
        where = str(path.relative_to(self._folder))
        self._log.append(Saved(step=self.done, path=where, size_bytes=size))

    def write_final(self) -> list[Path]:
        """Write both adapter files, reload them and compare; returns them, kohya's layout first."""
        self._log.append(Doing(phase="saving"))
        matrices = lora.matrices(self._unet)
        verify.learned(matrices)
        bundle, tensors = self.bundle, self.adapter()
        plain = files.diffusers(matrices)
        written = {
            self._folder / f"{bundle.name}.safetensors": (tensors, self._metadata(tensors)),
            self._folder / f"{bundle.name}.diffusers.safetensors": (
                plain,
                files.diffusers_metadata(matrices, bundle.adapter.rank, bundle.adapter.alpha),
            ),
        }
        question = self._batches.of(1)[0]

        def ask() -> Tensor:
            return self.model.predict(question.latents, question.timesteps, question.conditions)

        size = 0
        try:
            for path, (content, metadata) in written.items():
                size += files.write(path, content, metadata)
                verify.tensors(path, content)
            verify.answers(self._unet, list(written), self._family.load_adapter, ask)
        except BaseException as error:
            for path in written:  # what is not known to be right does not stay under that name
                path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise LorakitError(
                    f"The LoRA cannot be written in {self._folder}: {error.strerror or error}.",
                    "Make room there. The checkpoints in the run's folder are intact.",
                    ExitCode.DATA,
                ) from error
            raise
        self._log.append(Saved(step=self.done, path=f"{bundle.name}.safetensors", size_bytes=size))
        self._log.append(Noted(text="both files reloaded: they hold what was trained"))
        return list(written)


class Report:
    """Collects losses on the device and hands them over about once a second."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.restart()

    def restart(self) -> None:
        """Start anew after a pause that is not part of the steps."""
        self._losses: list[Tensor] = []
        self._images, self._waited = 0, 0.0
        self._since = time.monotonic()

    def waits(self) -> None:
        """The next batch is being made."""
        self._wait = time.monotonic()

    def has_data(self) -> None:
        """The next batch is here."""
        self._waited += time.monotonic() - self._wait

    def add(self, done: int, loss: Tensor, rate: float, images: int) -> None:
        """One step is under way on the device."""
        self._losses.append(loss)
        self._done, self._rate = done, rate
        self._images += images

    def due(self) -> bool:
        """Whether it is time to report."""
        return time.monotonic() - self._since >= REPORT_SECONDS

    def flush(self) -> list[float | None]:
        """Fetch the losses, append the event, start anew; None where a loss is not finite."""
        fetched = torch.stack(self._losses).float().cpu()
        losses = [x if keep else None for x, keep in zip(
            fetched.tolist(), torch.isfinite(fetched).tolist(), strict=True
        )]  # fmt: skip
        self._log.append(
            Stepped(
                step=self._done,
                losses=losses,
                learning_rate=self._rate,
                seconds=time.monotonic() - self._since,
                wait_seconds=self._waited,
                images=self._images,
            )
        )
        self.restart()
        return losses
