"""How much a run writes, as an upper bound from the bundle alone."""

from __future__ import annotations

from lorakit.bundle.models import Bundle

PARAMETERS_A_RANK = {
    "sd1": {"attention": 199_296, "linear": 423_936},
    "sd2": {"attention": 207_488, "linear": 432_128},
    "sdxl": {"attention": 1_451_520, "linear": 2_659_840},
}
"""Trained parameters of each family for each unit of rank: a pair of matrices for a layer from
`in` to `out` has in + out of them. Counted on the published models; smaller bases have fewer."""

PICTURE_BYTES = 1_000_000
"""A sample picture as PNG."""

RESERVE_BYTES = 50_000_000
"""For events, the log and contact sheets."""


def needed_bytes(bundle: Bundle) -> int:
    """The most that the run directory of this bundle grows to.

    Each checkpoint holds the weights and the optimizer's two numbers for each of them, all fp32;
    one more than is kept is on disk while the oldest is removed, and two files come out.
    """
    weights = (
        4 * bundle.adapter.rank * PARAMETERS_A_RANK[bundle.base.family][bundle.adapter.targets]
    )
    every = bundle.save.every
    checkpoints = min(bundle.save.keep, bundle.train.steps // every if every else 0) + 1
    rounds = 2 + (bundle.train.steps // bundle.sample.every if bundle.sample.every else 0)
    pictures = rounds * len(bundle.sample.prompts)
    return (3 * checkpoints + 2) * weights + pictures * PICTURE_BYTES + RESERVE_BYTES
