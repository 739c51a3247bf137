"""What is known of each optimizer that is trained with."""

from __future__ import annotations

USED = {
    "adamw": {"weight_decay", "beta1", "beta2", "eps"},
    "adafactor": {"weight_decay", "beta2_decay", "clip_threshold"},
}
"""The options that each optimizer has a use for."""


def rate_factor(rank: int, other: int) -> float:
    """What the learning rate of one rank is to be multiplied by for another.

    The fourth root of their ratio, which runs through the rates that are published for rank 16 to
    256: 1e-4, 8e-5 at 64, 6e-5 at 128, 5.1e-5 at 256. The same for both optimizers: without
    relative steps and scale_parameter the updates of adafactor are about as large as adamw's.
    """
    return float((rank / other) ** 0.25)
