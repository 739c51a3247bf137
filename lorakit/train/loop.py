"""The training of one bundle, top to bottom."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lorakit.bundle.models import Bundle
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.families import FAMILIES
from lorakit.runs.checkpoints import Checkpoint
from lorakit.runs.events import (
    Doing,
    Finished,
    Log,
    Noted,
    Saved,
    SaveFailed,
)
from lorakit.train import checkpoint, checkpointing, device, download, lock, optim, prepare, resume
from lorakit.train.adapters import files, final, lora, metadata
from lorakit.train.batches import Batches
from lorakit.train.control import Control
from lorakit.train.families import family_of
from lorakit.train.families.stable_diffusion import StableDiffusion
from lorakit.train.moving import Moving
from lorakit.train.neighbours import Neighbours
from lorakit.train.objective import Objective
from lorakit.train.report import Report
from lorakit.train.sample import Samples
from lorakit.train.step import DTYPES, Model, step

MAX_SKIPPED = 5
"""Steps in a row whose loss is not finite, after which the run stops."""


def train(bundle: Bundle, run: Path, log: Log, control: Control, where: torch.device) -> Finished:
    """Train a bundle in its run directory and return how it ended.

    Raises LorakitError for everything that a person can mend.
    """
    neighbours = Neighbours()
    family, facts = family_of(bundle), FAMILIES[bundle.base.family]
    dtype = DTYPES[bundle.train.precision]

    start = resume.start(bundle, run, log)
    begun = start.step if start else 0
    download.fetch(bundle, run, log, control.stopping)
    if control.stopping():
        return _stopped_early(control, begun)
    log.append(Doing(phase="caching"))
    base, report = prepare.look(bundle, run)
    for note in base.notes:
        log.append(Noted(text=note))
    locked = lock.begin(bundle, base, report, where, run, log, after=begun)
    ready = prepare.encode(bundle, base, report, family, where, log, control.stopping)
    if ready is None:
        return _stopped_early(control, begun)

    unet = family.load_unet(ready.folder, dtype).to(where)
    weights = lora.attach(unet, facts, bundle.adapter, bundle.train.seed)
    checkpointing.apply(unet, bundle.memory.checkpointing, bundle.adapter.targets)
    device.attend(unet, bundle.memory.attention)
    predict = family.predictor(unet, dtype)
    schedule = family.alphas_cumprod(base.scheduler).to(where)
    model = Model(
        predict,
        weights,
        Objective.of(schedule, base.prediction, bundle.loss.snr_gamma),
        optim.optimizer(bundle.train, weights),
        optim.scaler(bundle.train, where),
        bundle.train.clip_norm,
    )
    batches = Batches(
        ready.material, bundle, family.sizes, ready.scale, len(schedule), where, dtype
    )
    count = sum(w.numel() for w in weights)
    log.append(
        Noted(
            text=f"{len(lora.layers(unet))} layers adapted, {count:,} weights; "
            f"{len(report.pictures)} pictures, {batches.plan.batches_per_epoch} batches an epoch"
        )
    )
    painter = family.painter(
        ready.folder,
        base.scheduler,
        unet,
        (bundle.dataset.resolution,) * 2,
        bundle.sample.steps,
        bundle.sample.guidance,
        ready.prompts,
    )
    per_epoch = batches.plan.batches_per_epoch
    notes = metadata.Notes.of(bundle, facts, base, report, per_epoch, model.optimizer, run)
    training = Training(bundle, run, log, control, model, batches, family, unet, notes)
    _check_room(run, training, bundle)
    crowded = neighbours.warning(torch.get_num_threads()) if where.type == "cpu" else ""
    if crowded:
        log.append(Noted(text=crowded, level="warning"))

    samples = Samples(run, bundle.sample, painter, log)
    alike = start is not None and start.state["samples"] == samples.drawing
    samples.forget(after=begun if alike else -1)
    if start:
        training.resume(start)
    if begun not in samples.drawn() and (not alike or samples.due(begun)):
        samples.draw(begun)
    if control.stopping():
        return _stopped_early(control, begun)
    training.run(samples)
    control.finish()

    stopped = training.done < bundle.train.steps
    written: list[Path] = []
    try:
        written = training.write_final()
    except LorakitError as error:
        if not stopped or error.code != ExitCode.TRAINING_FAILED:
            raise
        log.append(Noted(text=f"no LoRA yet: {error.message}", level="warning"))
    digest = files.digest(training.adapter())
    if not stopped:
        lock.finish(locked, digest, training.done, run, log)
    if not stopped and training.done not in samples.drawn():
        samples.draw(training.done)
    return Finished(
        outcome="stopped" if stopped else "done",
        step=training.done,
        files=[*(p.name for p in written), *samples.sheets()],
        digest=digest,
        exit_code=training.exit_code(control.exit_code if stopped else ExitCode.OK),
    )


def _stopped_early(control: Control, step: int) -> Finished:
    """The end of a run, or of going on with one, that was stopped before its first step."""
    control.finish()
    return Finished(outcome="stopped", step=step, files=[], exit_code=control.exit_code)


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
        notes: metadata.Notes,
    ) -> None:
        self.bundle, self.model, self.done = bundle, model, 0
        self._folder, self._log, self._control = run, log, control
        self._batches, self._notes = batches, notes
        self._family, self._unet = family, unet
        self._facts = FAMILIES[bundle.base.family]
        self._skipped = 0
        self._finite = False
        self._images = 0
        self._unsaved = 0
        self._names = lora.names(unet)
        self._moving: Moving | None = None

    def resume(self, start: Checkpoint) -> None:
        """Put weights, optimizer, loss scaling and counters back to a checkpoint."""
        model = self.model
        live = files.kohya(lora.live(self._unet), self._facts, self.bundle.adapter.alpha)
        checkpoint.restore(start, live, self._names, model.optimizer, model.scaler)
        self.done, self._finite = start.step, True
        self._images, self._skipped = start.state["images"], start.state["skipped"]
        if said := resume.reading(self.bundle.train, start.state["steps"], self.done):
            self._log.append(Noted(text=said))

    def run(self, samples: Samples) -> None:
        """Train to the target, or until someone asks to stop: then that step ends, and is saved."""
        report = Report(self._log)
        self._moving = Moving(self._names, self.model.weights, self.done)
        self._log.append(Doing(phase="training"))
        while self.done < self.bundle.train.steps and self.turn(report, samples):
            pass

    def turn(self, report: Report, samples: Samples) -> bool:
        """One step and what falls due after it; False when it was the last one asked for."""
        self._advance(report)
        last = self.done >= self.bundle.train.steps
        asked, stopping = self._control.take(), self._control.stopping()
        every = self.bundle.save.every
        saving = stopping or "save" in asked or (every and (self.done % every == 0 or last))
        sampling = "sample" in asked or (samples.due(self.done) and not last)
        looking = self._moving is not None and self._moving.due(
            self.done, optim.learning_rate(self.bundle.train, self.done)
        )
        if report.due() or saving or sampling or last or looking:
            self._judge(report.flush())
        if looking:
            self._look_at_weights()
        if saving:
            self.save(samples)
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

    def _look_at_weights(self) -> None:
        """Raise where the trained weights do not move."""
        scaler = self.model.scaler
        called_off = scaler.is_enabled() and scaler.get_scale() < optim.INITIAL_SCALE
        still = self._moving.look(called_off) if self._moving else []
        if still is None:
            return
        self._moving = None
        if still:
            text = f"{len(still)} of {len(self._names)} weights have not moved, such as {still[0]}"
            self._log.append(Noted(text=text, level="warning"))

    def _judge(self, losses: list[float | None]) -> None:
        """Count steps that were skipped; stop when too many come in a row."""
        for loss in losses:
            self._skipped = self._skipped + 1 if loss is None else 0
            self._finite = self._finite or loss is not None
            if self._skipped >= MAX_SKIPPED or self.model.scaler.get_scale() < MIN_SCALE:
                never = "" if self._finite else " The loss was never finite."
                raise LorakitError(
                    f"Loss or gradients were not finite in {self._skipped or 'too many'} steps in"
                    f" a row, up to step {self.done}.{never}",
                    "Lower train.learning_rate, or train in fp32 or bf16. Earlier checkpoints are"
                    f" kept: lorakit train --resume {shlex.quote(str(self._folder))}"
                    f" --set train.learning_rate={self.bundle.train.learning_rate / 4:.2g}",
                    ExitCode.TRAINING_FAILED,
                )

    def adapter(self) -> dict[str, Tensor]:
        """The adapter as it is now, in kohya's layout, on the CPU."""
        return files.kohya(lora.matrices(self._unet), self._facts, self.bundle.adapter.alpha)

    def save(self, samples: Samples) -> None:
        """Write a checkpoint. Where that fails the last one stays, and training goes on."""
        self._log.append(Doing(phase="saving"))
        tensors = self.adapter()
        try:
            path, size = checkpoint.save(
                self._folder,
                self.done,
                tensors,
                self._notes.at(self.done),
                self._names,
                self.model.optimizer,
                self.model.scaler,
                {**self._counters(), "samples": samples.drawing},
                self.bundle.save.keep,
            )
        except OSError as error:
            self._unsaved += 1
            self._log.append(SaveFailed(step=self.done, reason=error.strerror or str(error)))
            return
        where = str(path.relative_to(self._folder))
        self._log.append(Saved(step=self.done, path=where, size_bytes=size))

    def _counters(self) -> dict[str, Any]:
        """Absolute, whatever the number of processes that got here."""
        forward = self.done * self.bundle.train.accumulation
        return {
            "epoch": forward / self._batches.plan.batches_per_epoch,
            "images": self._images,
            "skipped": self._skipped,
            "steps": self.bundle.train.steps,
        }

    def exit_code(self, code: ExitCode) -> ExitCode:
        """`code`, unless it means that all is well and a checkpoint could not be written."""
        return ExitCode.DATA if self._unsaved and code == ExitCode.OK else code

    def write_final(self) -> list[Path]:
        """Write both adapter files, kohya's layout first, and make sure of them."""
        self._log.append(Doing(phase="saving"))
        question = self._batches.of(1)[0]

        def ask() -> Tensor:
            return self.model.predict(question.latents, question.timesteps, question.conditions)

        written, size = final.write(
            self._folder, self.bundle, self._unet, self._notes.at(self.done), self._family, ask
        )
        self._log.append(Saved(step=self.done, path=written[0].name, size_bytes=size))
        self._log.append(Noted(text="both files reloaded: they hold what was trained"))
        return written
