"""`python -m lorakit.train.table [FILE]`: dry runs once, for the planner to read what they say.

Each dry run has a batch size, a rank and an area that are made of prime numbers which are no
factor of anything else, so the size of every tensor tells how it grows with each of them. Thus one
run gives, for every moment of a step, the memory as a polynomial of batch, rank and area; the table
keeps those few moments that are the worst for some setting.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from lorakit.bundle.models import PICO, Bundle, Memory, Train
from lorakit.families.blocks import units
from lorakit.families.families import FAMILIES
from lorakit.families.shipped import ASSETS
from lorakit.train import dryrun, optim, sizes
from lorakit.train.dryrun import Step, nbytes
from lorakit.train.families import family_of
from lorakit.train.memory import Kernel, LiveStorages, Scratch, attention_of, undisturbed
from lorakit.train.sizes import Sizes
from lorakit.train.step import DTYPES, Batch, Model

FILE = ASSETS / "memory.json"

BATCH, RANK, ROWS = 103, 101, 107
"""Primes. The latents are ROWS times a square of SQUARE."""

SQUARE = 64

TERMS = ((0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1), (1, 2, 0))
"""Powers of batch, area and rank. Area is in latent pixels."""

SHARES = {"fused": (0, 0.25, 0.5, 0.75, 1), "math": (0, 1), "cpu": (0, 1)}
"""Of the blocks that can recompute, those that do."""

KERNELS: dict[str, dict[str, Kernel]] = {
    "fused": {"16": "flash", "32": "efficient"},
    "math": {"16": "math", "32": "math"},
    "cpu": {"16": "cpu", "32": "cpu"},
}
"""What stands for a kind of attention, by bits of the compute dtype."""

CPU_ONLY = "cpu"
"""The kind that is made for pico alone: nobody trains the others on a CPU."""

OPTIMIZERS = get_args(Train.model_fields["optimizer"].annotation)

PRECISION = {"16": "bf16", "32": "fp32"}

CLOSE = 0.998
"""A moment is left out where the others give this share of the peak without it."""


def terms_of(size: int) -> tuple[int, float]:
    """Which of TERMS a tensor's bytes are, and how many of them for one of each."""
    for height, width in PADDED:
        if size % (height * width) == 0:
            size = size // (height * width) * (height - 1) * (width - 1)
    powers = []
    for prime in (BATCH, ROWS, RANK):
        power = 0
        while size and size % prime == 0:
            size //= prime
            power += 1
        powers.append(power)
    return TERMS.index((powers[0], powers[1], powers[2])), size / SQUARE ** (2 * powers[1])


PADDED = [(ROWS * SQUARE * 2**up // 8 + 1, SQUARE * 2**up // 8 + 1) for up in range(7)]
"""Height and width of what the VAE has padded on two sides, at any of its levels."""


class Traced(Step):
    """A step whose memory is known at every moment, as bytes for each of TERMS."""

    def __init__(
        self, resident: Iterable[torch.Tensor] = (), scratch: Scratch | None = None
    ) -> None:
        self.sizes: list[int] = []
        """What came, and with a minus what went."""
        self.held: list[int] = []
        """Gradients after each of them."""
        self.forward = 0
        """The moment when the forward pass was over."""
        super().__init__(resident, scratch)

    def forward_is_over(self) -> None:
        """Note the moment."""
        self.forward = len(self.sizes) - 1

    def made(self, size: int) -> None:
        """Note that it came."""
        super().made(size)
        self.sizes.append(size)
        self.held.append(self.gradients)

    def gone(self, size: int) -> None:
        """Note that it went."""
        super().gone(size)
        self.sizes.append(-size)
        self.held.append(self.gradients)

    def curves(self) -> tuple[np.ndarray, np.ndarray]:
        """[moments, terms] bytes without gradients, and [moments] bytes of gradients a rank."""
        known = {size: terms_of(size) for size in {abs(s) for s in self.sizes}}
        moves = np.zeros((len(self.sizes), len(TERMS)))
        for row, size in enumerate(self.sizes):
            term, share = known[abs(size)]
            moves[row, term] = share if size > 0 else -share
        gradients = np.asarray(self.held) / RANK
        alive = moves.cumsum(0)
        alive[:, TERMS.index((0, 0, 1))] -= gradients
        return alive, gradients


def points() -> np.ndarray:
    """[settings, terms]: the terms' values for settings that people train with."""
    batches = (1, 2, 4, 8, 16, 32, 64)
    areas = [(side // 8) ** 2 for side in (64, 256, 512, 768, 1024, 1536, 2048)]
    ranks = (1, 8, 32, 128, 512, 1024)
    chosen = itertools.product(batches, areas, ranks)
    return np.asarray([[b**i * a**j * r**k for i, j, k in TERMS] for b, a, r in chosen], float)


def envelope(curve: np.ndarray, always: np.ndarray) -> list[int]:
    """Those moments that together are as high as all of them, wherever `points` looks.

    `always` [terms] is what is there besides, so that a small difference counts as one.
    """
    at = points()
    heights = curve @ at.T
    worst, besides = heights.argmax(0), at @ always
    whole = heights.max(0) + besides
    chosen: list[int] = []
    for point in whole.argsort()[::-1]:
        if not chosen or heights[chosen, point].max() + besides[point] < CLOSE * whole[point]:
            chosen.append(int(worst[point]))
    return chosen


def rounded(values: Iterable[float]) -> list[float]:
    """Six digits are more than enough."""
    return [float(f"{value:.6g}") for value in values]


def bundle_of(family: str, targets: str, bits: str) -> Bundle:
    """The request that is counted."""
    return Bundle.model_validate(
        {
            "schema": 1,
            "name": "table",
            "base": {"family": family},
            "dataset": {"sources": [{"path": "."}]},
            "adapter": {"rank": RANK, "targets": targets},
            "train": {"precision": PRECISION[bits], "batch_size": BATCH},
        }
    )


def table(log: Callable[[str], None]) -> dict[str, Any]:
    """The whole table: by name of a family, or pico."""
    whole: dict[str, Any] = {"terms": TERMS, "bases": {}}
    for name, family, folder in (
        *((name, name, None) for name in FAMILIES),
        (PICO, "sd1", ASSETS / "pico"),
    ):
        shape = sizes.of(family, folder)
        kinds = [kind for kind in KERNELS if name == PICO or kind != CPU_ONLY]
        entry: dict[str, Any] = {
            "factor": shape.latent_factor,
            "encoders": encoders(shape, kinds),
            "training": {},
        }
        for targets, bits in itertools.product(FAMILIES[family].targets, PRECISION):
            log(f"{name}, {targets}, {bits} bits")
            with undisturbed():
                found = steps(family, shape, targets, bits, kinds)
            entry["training"][f"{targets} {bits}"] = found
        whole["bases"][name] = entry
    return whole


def encoders(shape: Sizes, kinds: list[str]) -> dict[str, Any]:
    """Text encoders and VAE, without a UNet."""
    size = (ROWS * SQUARE, SQUARE)
    pixels = (size[0] * shape.latent_factor, size[1] * shape.latent_factor)
    found: dict[str, Any] = {"text": dryrun.read_caption(shape)}
    for bits, precision in PRECISION.items():
        vae = dryrun.vae_of(shape, DTYPES[precision])
        found[f"vae_bytes {bits}"] = nbytes(vae.parameters())
        for kind in kinds:
            for work, sides in ((dryrun.encode, pixels), (dryrun.decode, size)):
                kernel = KERNELS[kind][bits]
                counted = Traced(scratch=dryrun.scratch_of(kernel))
                work(vae, sides, kernel, counted, BATCH)
                found[f"{work.__name__} {kind} {bits}"] = moments(counted.curves()[0], NOTHING)
    return found


NOTHING = np.zeros(len(TERMS))


def moments(curve: np.ndarray, always: np.ndarray) -> list[list[float]]:
    """The rows of `envelope`."""
    return [rounded(curve[row]) for row in envelope(curve, always)]


def steps(name: str, shape: Sizes, targets: str, bits: str, kinds: list[str]) -> dict[str, Any]:
    """Training with each optimizer, each kind of attention and each checkpointing; denoising."""
    first = bundle_of(name, targets, bits)
    family, dtype = family_of(first), DTYPES[PRECISION[bits]]
    unet, weights = dryrun.prepared(family, shape, first)
    batch = sizes.batch(shape.unet, BATCH, (ROWS * SQUARE, SQUARE), dtype, "meta")
    adapter = nbytes(weights)
    base = nbytes([*unet.parameters(), *unet.buffers()]) - adapter
    always = NOTHING.copy()
    always[TERMS.index((0, 0, 0))], always[TERMS.index((0, 0, 1))] = base, adapter / RANK
    out: dict[str, Any] = {"base_bytes": base, "adapter_bytes_a_rank": adapter // RANK}
    for optimizer in OPTIMIZERS:
        out[optimizer] = updating(Train(optimizer=optimizer), weights)
    blocks = len(units(unet.config))
    out["blocks"] = blocks
    for kind in kinds:
        kernel = KERNELS[kind][bits]
        extra = dryrun.scratch_of(kernel)
        drawn = Traced(scratch=extra)
        dryrun.denoise(family.predictor(unet, dtype), batch, kernel, drawn)
        rows = []
        for number in dict.fromkeys(round(share * blocks) for share in SHARES[kind]):
            wanted = first.model_copy(update={"memory": Memory(checkpointing=number or "none")})
            model = sizes.model(family, wanted, unet, weights)
            with attention_of(kernel):
                rows.append({"recomputed": number, **trained(model, batch, always, extra)})
        out[kind] = {"denoising": moments(drawn.curves()[0], always), "training": rows}
    return out


def updating(train: Train, weights: list[torch.nn.Parameter]) -> list[float]:
    """Of an optimizer: state whatever the rank, state a rank, and work space a rank, in bytes."""
    made, shapes = dryrun.primed(train, weights)
    state = [0, 0]
    for weight, count in shapes.items():
        for tensor in made.state[weight].values():
            if isinstance(tensor, torch.Tensor) and tensor.is_meta:
                state[tensor.nbytes % RANK == 0] += count * tensor.nbytes
    for weight in shapes:
        weight.grad = torch.zeros_like(weight)
    with LiveStorages() as counter:
        optim.update(made, torch.zeros((), device="meta"))
    made.zero_grad()
    return rounded([state[0], state[1] / RANK, counter.peak / RANK])


def trained(
    model: Model, batch: Batch, always: np.ndarray, extra: Scratch | None
) -> dict[str, Any]:
    """What is kept after the forward pass, and the worst moments of a step before its update.

    A moment is bytes of gradients for each rank, and bytes for each of TERMS.
    """
    idle = torch.optim.SGD([torch.nn.Parameter(torch.zeros((), device="meta"))])
    idle.param_groups.clear()  # updates are counted apart, for each optimizer
    objective = model.objective
    counted = Traced([*sizes.given(batch), objective.signal, objective.noise, objective.weights])
    counted.run(replace(model, optimizer=idle), batch)
    curve, gradients = counted.curves()
    plain = curve.copy()
    plain[:, TERMS.index((0, 0, 1))] += gradients
    # Of accumulated gradients all are there from the beginning.
    rows = sorted({*envelope(plain, always), *envelope(curve, always)})
    return {
        "kept": rounded(curve[counted.forward]),
        "moments": [rounded([gradients[row], *curve[row]]) for row in rows],
    }


def main(argv: list[str]) -> int:
    """Write the table; returns the exit code."""
    file = Path(argv[0]) if argv else FILE
    found = table(lambda line: print(line, file=sys.stderr, flush=True))
    file.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
