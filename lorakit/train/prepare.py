"""From a bundle to what the loop needs: pictures looked at, everything encoded that is cached."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from lorakit.bundle.models import Bundle
from lorakit.bundle.paths import cache_folder
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.dataset.scan import scan
from lorakit.dataset.views import View
from lorakit.errors import LorakitError
from lorakit.families.base_model import BaseFacts, inspect
from lorakit.families.digests import digest
from lorakit.families.families import FAMILIES
from lorakit.runs.events import Doing, Log, Noted, Phase
from lorakit.train import cache, encoders, material
from lorakit.train.cache import Cache
from lorakit.train.epochs import Epochs
from lorakit.train.families.stable_diffusion import StableDiffusion
from lorakit.train.material import Material, Opened, Source
from lorakit.train.step import Conditions

Stop = Callable[[], bool]
"""Whether someone asked to stop."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Where steps get latents and texts from, and a few numbers."""

    folder: Path
    material: Material
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
    report = scan(bundle.dataset, root, base, roughly=True)
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

    One that the bundle wants at each step stays. None where someone asked to stop before all was
    there.
    """
    folder = base.folder
    if folder is None:
        raise LorakitError(f"The base model {base.model} is not on this machine.")
    root = cache_folder()
    cache.sweep(root)
    epochs = Epochs(bundle, report)
    prompts = sorted({*bundle.sample.prompts, bundle.sample.negative})

    named = digest(folder, *(part for pair in FAMILIES[base.family].text for part in pair))
    held = Cache(root, "text", cache.encoder_id(named, device), base.model)
    say = encoders.Texts(family, folder, device)
    captions = sorted(set(epochs.texts())) if bundle.memory.cache_text else []
    _encode_texts(held, [*captions, *prompts], say, log, stop)
    told = {} if stop() else {p: Conditions(**held.read(cache.text_name(p))) for p in prompts}
    texts: Source
    if bundle.memory.cache_text:
        texts = material.CachedTexts(held, epochs)
        say.free()
    else:
        say.load()
        texts = material.LiveTexts(say, epochs)

    look = encoders.Latents(family, folder, device, lambda text: _warn(log, text))
    latents: Source
    if bundle.memory.cache_latents:
        named = cache.encoder_id(digest(folder, "vae"), device)
        pictures = Cache(root, "latents", named, base.model)
        _encode_pictures(pictures, epochs, look, log, stop)
        latents = material.CachedLatents(pictures, epochs)
        look.free()
    else:
        look.load()
        latents = material.LiveLatents(look, epochs)
    if stop():
        return None
    return Prepared(folder, Material(epochs, latents, texts), told, family.latent_scale(folder))


def _encode_texts(
    held: Cache, wanted: Sequence[str], say: encoders.Texts, log: Log, stop: Stop
) -> None:
    _drop_damaged(held, log)
    missing = [t for t in dict.fromkeys(wanted) if cache.text_name(t) not in held]
    if not missing:
        return
    progress = Progress(log, "caching", len(missing), "captions")
    with held:
        for done, text in enumerate(missing, 1):
            if stop():
                break
            held.put(cache.text_name(text), say(text))
            progress.at(done)


def _encode_pictures(
    held: Cache, epochs: Epochs, look: encoders.Latents, log: Log, stop: Stop
) -> None:
    _drop_damaged(held, log)
    wanted = {cache.picture_name(p.sha256, view): (p, view) for p, view in epochs.views()}
    missing = {name: made for name, made in wanted.items() if name not in held}
    if missing:
        again = held.why_missing(list(missing))
        progress = Progress(log, "caching", len(missing), "pictures")
        with held:
            for done, (name, picture) in enumerate(_opened(missing), 1):
                if stop():
                    break
                held.put(name, look(picture.picture, picture.mask, picture.name))
                progress.at(done)
        if again and not stop():
            log.append(Noted(text=f"pictures encoded anew: {again}"))
    known = len(wanted) - len(missing)
    if not stop():
        log.append(
            Noted(text=f"latents: {len(missing)} pictures encoded, {known} were in the cache")
        )
        tiled = sum(held.has(name, "tile") for name in wanted)
        if tiled:
            _warn(log, f"{tiled} of the pictures are in the cache as encoded in tiles")


LOOKAHEAD = 2
"""Pictures that lie opened while one is encoded."""


def _opened(missing: Mapping[bytes, tuple[Picture, View]]) -> Iterator[tuple[bytes, Opened]]:
    """Each picture by its name, in order; the next ones are opened while one is worked on."""
    coming: deque[tuple[bytes, Future[Opened]]] = deque()
    with ThreadPoolExecutor(1) as pool:
        for name, wanted in missing.items():
            coming.append((name, pool.submit(material.opened, *wanted)))
            if len(coming) > LOOKAHEAD:
                first, picture = coming.popleft()
                yield first, picture.result()
        for first, picture in coming:
            yield first, picture.result()


def _drop_damaged(held: Cache, log: Log) -> None:
    for told in held.drop_damaged():
        _warn(log, f"a file of the cache is damaged, and its entries are made anew: {told}")


def _warn(log: Log, text: str) -> None:
    log.append(Noted(text=text, level="warning"))
