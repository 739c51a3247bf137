"""Which pictures each step sees, and its tensors: pure functions of the seed and the step."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from lorakit.bundle.models import Bundle
from lorakit.dataset.buckets import Fit
from lorakit.train import draws
from lorakit.train.material import Material, Tensors
from lorakit.train.step import Batch, Conditions


@dataclass(frozen=True, slots=True)
class Pick:
    """The samples of one forward pass."""

    epoch: int
    indices: tuple[int, ...]


class Plan:
    """The order of samples over all epochs.

    Every sample is seen once an epoch; a size with too few pictures for a full batch gives a
    shorter one, never none. An epoch's number of batches does not depend on its shuffle, so the
    batch of any step is known without walking there.
    """

    def __init__(self, sizes: Iterable[tuple[int, int]], batch_size: int, seed: int) -> None:
        self._batch_size = batch_size
        self._seed = seed
        grouped: dict[tuple[int, int], array[int]] = defaultdict(lambda: array("q"))
        for index, size in enumerate(sizes):
            grouped[size].append(index)
        self._groups = {
            size: torch.tensor(group, dtype=torch.int64) for size, group in sorted(grouped.items())
        }
        self._first = [0]
        """The number of each group's first batch, before batches are shuffled."""
        for group in self._groups.values():
            self._first.append(self._first[-1] + -(-len(group) // batch_size))
        self.batches_per_epoch = self._first[-1]
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> tuple[list[Tensor], Tensor]:
        """Each group's samples as they come, and the order of batches."""
        mixed = [
            group[draws.order(len(group), self._seed, "order", epoch, f"{size}")]
            for size, group in self._groups.items()
        ]
        return mixed, draws.order(self.batches_per_epoch, self._seed, "batches", epoch)

    def picks(self, step: int, accumulation: int) -> list[Pick]:
        """The forward passes of optimizer step `step`, counted from 1."""
        first = (step - 1) * accumulation
        return [self._pick(number) for number in range(first, first + accumulation)]

    def _pick(self, number: int) -> Pick:
        epoch, place = divmod(number, self.batches_per_epoch)
        mixed, order = self._epoch(epoch)
        batch = int(order[place])
        group = bisect_right(self._first, batch) - 1
        begin = (batch - self._first[group]) * self._batch_size
        return Pick(epoch, tuple(mixed[group][begin : begin + self._batch_size].tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One sample as a step sees it, on the CPU."""

    latents: Tensor
    """[c, h, w], fp32, scaled."""
    noise: Tensor
    timestep: int
    texts: Tensors
    sizes: tuple[int, ...] | None
    mask: Tensor | None
    """[1, h, w], 0..1; None: all of it counts."""
    weight: float
    """How much it counts beside the others."""


Told = Callable[[int, int, Fit], tuple[int, ...] | None]
"""(width, height, view of a picture) to what the model is told of them, if it is told anything."""


class Batches:
    """Makes the tensors of a step on the device of the training; the next one's ahead of time."""

    def __init__(
        self,
        material: Material,
        bundle: Bundle,
        told: Told,
        scale: float,
        timesteps: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._material, self._epochs = material, material.epochs
        self._told = told
        self._seed = bundle.train.seed
        self._accumulation = bundle.train.accumulation
        self._last = bundle.train.steps
        self._offset = bundle.loss.noise_offset
        self._prior, self._unmasked = bundle.loss.prior_weight, bundle.loss.unmasked_weight
        self._scale = scale
        self._timesteps = timesteps
        self._device = device
        self._dtype = dtype
        sizes = ((p.fit.width, p.fit.height) for p in self._epochs)
        self.plan = Plan(sizes, bundle.train.batch_size, self._seed)
        # Decoding pictures keeps some cores busy, reading entries not even one.
        workers = 1 if bundle.memory.cache_latents else min(4, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(workers, "batches")
        self._ahead: tuple[int, list[list[Future[Callable[[], _Seen]]]]] = (0, [])

    def of(self, step: int) -> list[Batch]:
        """The batches of optimizer step `step`, counted from 1."""
        number, coming = self._ahead
        if number != step:
            coming = self._begin(step)
        self._ahead = (step + 1, self._begin(step + 1)) if step < self._last else (0, [])
        return [self._batch([seen.result()() for seen in batch]) for batch in coming]

    def _begin(self, step: int) -> list[list[Future[Callable[[], _Seen]]]]:
        """Have what can be done in the background done for a step."""
        picks = self.plan.picks(step, self._accumulation)
        return [[self._pool.submit(self._fetch, p.epoch, i) for i in p.indices] for p in picks]

    def _fetch(self, epoch: int, sample: int) -> Callable[[], _Seen]:
        latents, texts = self._material.latents, self._material.texts
        pixels, words = latents.fetch(epoch, sample), texts.fetch(epoch, sample)

        def seen() -> _Seen:
            return self._seen(epoch, sample, latents.finish(pixels), texts.finish(words))

        if not (latents.done and texts.done):
            return seen
        made = seen()
        return lambda: made

    def _seen(self, epoch: int, sample: int, kept: Tensors, texts: Tensors) -> _Seen:
        """One sample with all that is drawn for it."""
        shape = kept["mean"].shape
        at = (epoch, sample)
        own = draws.normal(shape, self._seed, "latents", *at)
        noise = draws.normal(shape, self._seed, "noise", *at)
        if self._offset:
            shift = draws.normal((shape[0], 1, 1), self._seed, "noise offset", *at)
            noise = noise + self._offset * shift
        picture, view = self._epochs.picture(sample), self._epochs.view(epoch, sample)
        return _Seen(
            latents=(kept["mean"] + kept["std"] * own) * self._scale,
            noise=noise,
            timestep=draws.integer(self._timesteps, self._seed, "timestep", *at),
            texts={name: value.to(self._dtype) for name, value in texts.items()},
            sizes=self._told(picture.width, picture.height, view.told),
            mask=kept.get("mask"),
            weight=self._prior if self._epochs.is_prior(picture) else 1.0,
        )

    def _batch(self, seen: list[_Seen]) -> Batch:
        return Batch(
            self._to_device(torch.stack([s.latents for s in seen])),
            self._to_device(torch.stack([s.noise for s in seen])),
            self._to_device(torch.tensor([s.timestep for s in seen])),
            self._conditions(seen),
            self._masks(seen),
            self._weights(seen),
        )

    def _masks(self, seen: list[_Seen]) -> Tensor | None:
        """Masks with a mean of 1 each, so that a small one counts as much as a large one."""
        if all(s.mask is None for s in seen):
            return None
        masks = torch.stack(
            [torch.ones_like(s.latents[:1]) if s.mask is None else s.mask for s in seen]
        )
        masks = self._unmasked + (1 - self._unmasked) * masks
        # A crop that shows nothing of its mask teaches nothing, rather than noise.
        masks = masks / masks.mean(dim=(1, 2, 3), keepdim=True).clamp(min=1e-3)
        return self._to_device(masks)

    def _weights(self, seen: list[_Seen]) -> Tensor | None:
        if all(s.weight == 1.0 for s in seen):
            return None
        return self._to_device(torch.tensor([s.weight for s in seen]))

    def _conditions(self, seen: list[_Seen]) -> Conditions:
        """Texts by their names in the cache, which are those of `Conditions`."""
        names = seen[0].texts
        told = {n: self._to_device(torch.stack([s.texts[n] for s in seen])) for n in names}
        if seen[0].sizes is None:
            return Conditions(**told)
        sizes = torch.tensor([s.sizes for s in seen], dtype=torch.float32)
        return Conditions(**told, sizes=self._to_device(sizes))

    def _to_device(self, tensor: Tensor) -> Tensor:
        if self._device.type != "cuda":
            return tensor.to(self._device)
        return tensor.pin_memory().to(self._device, non_blocking=True)
