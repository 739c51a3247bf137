"""From a bundle to what the loop needs: pictures looked at, everything encoded, encoders gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from lorakit.bundle.models import Bundle
from lorakit.bundle.paths import cache_folder
from lorakit.dataset.pictures import prepare as picture_of
from lorakit.dataset.report import DatasetReport
from lorakit.dataset.scan import scan
from lorakit.errors import LorakitError
from lorakit.families.base_model import BaseFacts, inspect
from lorakit.families.digests import digest
from lorakit.families.families import FAMILIES
from lorakit.runs.events import Doing, Log, Noted, Phase
from lorakit.train import cache
from lorakit.train.batches import Sample
from lorakit.train.families.stable_diffusion import StableDiffusion, release
from lorakit.train.step import Conditions

Stop = Callable[[], bool]
"""Whether someone asked to stop."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is left of pictures, captions and encoders: files in the cache and a few numbers."""

    folder: Path
    samples: list[Sample]
    """One for each picture and repeat."""
    prompts: dict[str, Conditions]
    """What the sample prompts and the negative prompt say to the model."""
    scale: float
    """Latents are multiplied by this."""


class Progress:
    """Says how far a phase is, at most about twice a second."""

    def __init__(self, log: Log, phase: Phase, total: int, unit: str) -> None:
        self._log, self._phase, self._total, self._unit = log, phase, total, unit
        self._said = 0.0
        self.at(0)

    def at(self, done: int) -> None:
        """`done` of the total are done."""
        event = Doing(phase=self._phase, done=done, total=self._total, unit=self._unit)
        if done in (0, self._total) or event.time - self._said >= 0.5:
            self._said = event.time
            self._log.append(event)


def look(bundle: Bundle, root: Path) -> tuple[BaseFacts, DatasetReport]:
    """Inspect the base and scan the pictures; raise with the first error there is."""
    base = inspect(bundle.base, root)
    report = scan(bundle.dataset, root, base)
    errors = [p for p in report.findings if p.severity == "error"]
    if errors:
        raise LorakitError(errors[0].what, errors[0].fix, errors[0].code)
    return base, report


def encode(
    bundle: Bundle,
    base: BaseFacts,
    report: DatasetReport,
    family: StableDiffusion,
    device: torch.device,
    log: Log,
    stop: Stop,
) -> Prepared | None:
    """Encode what the cache does not hold, captions first; an encoder is freed once it is done.

    None where someone asked to stop before all was there.
    """
    folder = base.folder
    if folder is None:
        raise LorakitError(f"The base model {base.model} is not on this machine.")
    root = cache_folder()
    cache.sweep(root)

    captions = sorted({p.caption for p in report.pictures})
    prompts = sorted({*bundle.sample.prompts, bundle.sample.negative})
    named = digest(folder, *(part for pair in FAMILIES[base.family].text for part in pair))
    texts = cache.Cache(root, cache.encoder_id(named, device))
    _encode_texts(texts, [*captions, *prompts], folder, family, device, log, stop)

    pictures = cache.Cache(root, cache.encoder_id(digest(folder, "vae"), device))
    _encode_pictures(pictures, report, folder, family, device, log, stop)
    if stop():
        return None

    samples = [
        Sample(
            pictures.picture(p.sha256, p.fit),
            texts.text(p.caption),
            (p.fit.width, p.fit.height),
            family.sizes(p.width, p.height, p.fit),
        )
        for p in report.pictures
        for _ in range(p.repeats)
    ]
    read = cache.Reader()
    told = {prompt: Conditions(**read(texts.text(prompt))) for prompt in prompts}
    return Prepared(folder, samples, told, family.latent_scale(folder))


def _encode_texts(
    texts: cache.Cache,
    wanted: Sequence[str],
    folder: Path,
    family: StableDiffusion,
    device: torch.device,
    log: Log,
    stop: Stop,
) -> None:
    missing = [t for t in dict.fromkeys(wanted) if not texts.text(t).exists()]
    if not missing:
        return
    encoders = family.load_text(folder, device)
    progress = Progress(log, "caching", len(missing), "captions")
    for done, text in enumerate(missing, 1):
        if stop():
            break
        cache.put(texts.text(text), family.encode_text(encoders, text), f"the caption {text!r}")
        progress.at(done)
    del encoders
    release()


def _encode_pictures(
    pictures: cache.Cache,
    report: DatasetReport,
    folder: Path,
    family: StableDiffusion,
    device: torch.device,
    log: Log,
    stop: Stop,
) -> None:
    missing = [p for p in report.pictures if not pictures.picture(p.sha256, p.fit).exists()]
    if missing:
        vae = family.load_vae(folder).to(device)
        progress = Progress(log, "caching", len(missing), "pictures")
        for done, picture in enumerate(missing, 1):
            if stop():
                break
            mean, std = family.encode_picture(vae, picture_of(picture.path, picture.fit))
            place = pictures.picture(picture.sha256, picture.fit)
            cache.put(place, {"mean": mean, "std": std}, picture.path.name)
            progress.at(done)
        del vae
        release()
    known = len(report.pictures) - len(missing)
    if not stop():
        log.append(
            Noted(text=f"latents: {len(missing)} pictures encoded, {known} were in the cache")
        )
