"""Losses on their way from the device to the events, about once a second."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from lorakit.runs.events import Log, Stepped

SECONDS = 1.0
"""Losses leave the device about this often, never for a step's sake."""


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
        return time.monotonic() - self._since >= SECONDS

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
