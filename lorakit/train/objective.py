"""The denoising objective: what is mixed, what is asked for, and how much each timestep counts.

Everything here is fp32. Formulas: Ho et al. 2020 (epsilon), Salimans and Ho 2022 (v), Hang et al.
2023 (min-SNR).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def snr_weights(alphas_cumprod: Tensor, gamma: float, prediction: str) -> Tensor:
    """Min-SNR weight of each timestep, [timesteps]; finite everywhere, also where the SNR is 0.

    epsilon: min(snr, gamma) / snr, whose limit at snr 0 is 1. v: min(snr, gamma) / (snr + 1).
    gamma 0 turns the weighting off.
    """
    if gamma == 0:
        return torch.ones_like(alphas_cumprod)
    snr = alphas_cumprod / (1 - alphas_cumprod)
    if prediction == "v_prediction":
        return snr.clamp(max=gamma) / (snr + 1)
    return torch.where(snr > gamma, gamma / snr, 1.0)


@dataclass(frozen=True, slots=True)
class Objective:
    """Tables over the timesteps of a noise schedule, on the device of the training."""

    signal: Tensor
    """Share of the picture in the mix, sqrt(alphas_cumprod), [timesteps]."""
    noise: Tensor
    """Share of the noise, sqrt(1 - alphas_cumprod), [timesteps]."""
    weights: Tensor
    """How much a timestep counts, [timesteps]."""
    prediction: str
    """`epsilon` or `v_prediction`."""

    @classmethod
    def of(cls, alphas_cumprod: Tensor, prediction: str, snr_gamma: float) -> Objective:
        """The tables of a schedule. `alphas_cumprod` is [timesteps], fp32."""
        return cls(
            alphas_cumprod.sqrt(),
            (1 - alphas_cumprod).sqrt(),
            snr_weights(alphas_cumprod, snr_gamma, prediction),
            prediction,
        )

    def mix(self, latents: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Noisy latents, [n, c, h, w]."""
        return _at(self.signal, timesteps) * latents + _at(self.noise, timesteps) * noise

    def target(self, latents: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """What the model should answer, [n, c, h, w]."""
        if self.prediction == "v_prediction":
            return _at(self.signal, timesteps) * noise - _at(self.noise, timesteps) * latents
        return noise

    def loss(
        self,
        answer: Tensor,
        target: Tensor,
        timesteps: Tensor,
        mask: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Weighted mean squared error over the batch, a scalar.

        `mask` [n, 1, h, w] says how much each place counts, with a mean of 1 in each picture, and
        `weights` [n] how much each picture.
        """
        errors = (answer - target).square()
        if mask is not None:
            errors = errors * mask
        each = errors.flatten(1).mean(1) * self.weights[timesteps]
        if weights is not None:
            each = each * weights
        return each.mean()


def _at(table: Tensor, timesteps: Tensor) -> Tensor:
    return table[timesteps].view(-1, 1, 1, 1)
