"""Which pictures each step sees, and its tensors: pure functions of the seed and the step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from lorakit.bundle.models import Bundle
from lorakit.train import draws
from lorakit.train.cache import Reader
from lorakit.train.step import Batch, Conditions


@dataclass(frozen=True, slots=True)
class Sample:
    """One picture of an epoch; a repeated picture is several samples."""

    latents: Path
    text: Path
    size: tuple[int, int]
    """Width and height in pixels; only equal sizes share a batch."""
    sizes: tuple[int, ...] | None = None
    """What the model is told of the picture's size and crop, if it is told anything."""


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

    def __init__(self, sizes: Sequence[tuple[int, int]], batch_size: int, seed: int) -> None:
        self._batch_size = batch_size
        self._seed = seed
        grouped: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, size in enumerate(sizes):
            grouped[size].append(index)
        self._groups = dict(sorted(grouped.items()))
        self.batches_per_epoch = sum(-(-len(g) // batch_size) for g in self._groups.values())
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> list[tuple[int, ...]]:
        batches = []
        for size, group in self._groups.items():
            shuffled = draws.order(len(group), self._seed, "order", epoch, f"{size}")
            mixed = [group[i] for i in shuffled]
            batches += [
                tuple(mixed[i : i + self._batch_size])
                for i in range(0, len(mixed), self._batch_size)
            ]
        return [batches[i] for i in draws.order(len(batches), self._seed, "batches", epoch)]

    def picks(self, step: int, accumulation: int) -> list[Pick]:
        """The forward passes of optimizer step `step`, counted from 1."""
        first = (step - 1) * accumulation
        made = []
        for number in range(first, first + accumulation):
            epoch, index = divmod(number, self.batches_per_epoch)
            made.append(Pick(epoch, self._epoch(epoch)[index]))
        return made


class Batches:
    """Makes the tensors of a step on the device of the training."""

    def __init__(
        self,
        samples: Sequence[Sample],
        bundle: Bundle,
        scale: float,
        timesteps: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.samples = samples
        self._seed = bundle.train.seed
        self._accumulation = bundle.train.accumulation
        self._offset = bundle.loss.noise_offset
        self._scale = scale
        self._timesteps = timesteps
        self._device = device
        self._dtype = dtype
        self._read = Reader()
        self.plan = Plan([s.size for s in samples], bundle.train.batch_size, self._seed)

    def of(self, step: int) -> list[Batch]:
        """The batches of optimizer step `step`, counted from 1."""
        return [self._batch(pick) for pick in self.plan.picks(step, self._accumulation)]

    def _batch(self, pick: Pick) -> Batch:
        latents, noises, timesteps = [], [], []
        texts: dict[str, list[Tensor]] = defaultdict(list)
        for index in pick.indices:
            sample = self.samples[index]
            kept = self._read(sample.latents)
            shape = kept["mean"].shape
            at = (pick.epoch, index)
            own = draws.normal(shape, self._seed, "latents", *at)
            latents.append((kept["mean"] + kept["std"] * own) * self._scale)
            noise = draws.normal(shape, self._seed, "noise", *at)
            if self._offset:
                shift = draws.normal((shape[0], 1, 1), self._seed, "noise offset", *at)
                noise = noise + self._offset * shift
            noises.append(noise)
            timesteps.append(draws.integer(self._timesteps, self._seed, "timestep", *at))
            for name, value in self._read(sample.text).items():
                texts[name].append(value)
        return Batch(
            self._to_device(torch.stack(latents)),
            self._to_device(torch.stack(noises)),
            self._to_device(torch.tensor(timesteps)),
            self._conditions(texts, [self.samples[i].sizes for i in pick.indices]),
        )

    def _conditions(
        self, texts: dict[str, list[Tensor]], sizes: list[tuple[int, ...] | None]
    ) -> Conditions:
        """Texts by their names in the cache, which are those of `Conditions`."""
        told = {k: self._to_device(torch.stack(v).to(self._dtype)) for k, v in texts.items()}
        if sizes[0] is None:
            return Conditions(**told)
        return Conditions(**told, sizes=self._to_device(torch.tensor(sizes, dtype=torch.float32)))

    def _to_device(self, tensor: Tensor) -> Tensor:
        if self._device.type != "cuda":
            return tensor.to(self._device)
        return tensor.pin_memory().to(self._device, non_blocking=True)
