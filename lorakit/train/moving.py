"""Do the trained weights move?

A run whose optimizer holds other weights than its model trains for nothing, and its loss goes up
and down like any other's, because every step sees other noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lorakit.errors import ExitCode, LorakitError

STEPS = 10
"""Steps after which every weight must have moved."""

MANY = 0.1
"""Share of weights that must not stay still. A few may: attention over a single token, in the
middle of a model at its smallest size, asks nothing of its q and k."""

ENOUGH = 1e-6
"""Sum of learning rates that moves a weight of size 1 in fp32, whose spacing there is 1.2e-7."""


class Moving:
    """The weights as they were, until they have been seen to move."""

    def __init__(self, names: Sequence[str], weights: Sequence[Tensor], done: int) -> None:
        self._names, self._weights = names, weights
        self._before = [w.detach().to("cpu", copy=True) for w in weights]
        self._until = done + STEPS
        self._rates = 0.0

    def due(self, done: int, rate: float) -> bool:
        """Whether to look after step `done`, which had this learning rate."""
        self._rates += rate
        return done >= self._until

    def look(self, called_off: bool) -> list[str] | None:
        """Names of those that have not moved; None where it is too early to say. Raises
        LorakitError where they are `MANY`.

        `called_off`: the loss scaling has called off some of the steps.
        """
        still = [
            name
            for name, weight, old in zip(self._names, self._weights, self._before, strict=True)
            if torch.equal(weight.detach().cpu(), old)
        ]
        if still and (called_off or self._rates < ENOUGH):
            self._until += STEPS
            return None
        if len(still) < MANY * len(self._names):
            return still
        raise LorakitError(
            f"{len(still)} of {len(self._names)} trained weights have not moved in {STEPS} steps,"
            f" {still[0]} for one.",
            "Raise train.learning_rate if it is tiny; else this base model has layers that it"
            " does not use. Earlier checkpoints are kept.",
            ExitCode.TRAINING_FAILED,
        )
