"""Graphics cards as their tools print them, one row of data/cards.csv each.

Memory is what `nvidia-smi` says in MiB, and what PyTorch says of the same card in GiB: less, for
the driver keeps some. Rates are those of the data sheets: matrix products without sparsity that
are added up in fp32, in 10^12 operations a second, and memory in 10^9 bytes a second. What a large
product reaches of that is in `SHARE`.
"""

from __future__ import annotations

import csv
import uuid
from dataclasses import dataclass
from pathlib import Path

from lorakit.hardware.facts import Speed

SHARE = {"cuda": (0.85, 0.75, 0.88), "rocm": (0.50, 0.62, 0.82), "mps": (0.80, 0.80, 0.85)}
"""Of fp32, of 16 bits and of the bandwidth: a GeForce comes nearer to its sheet than a card at its
power limit, AMD's fp32 counts two instructions at once that products seldom fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One model of card."""

    name: str
    mib: int
    """Memory by the driver."""
    torch_gib: float
    """Memory by PyTorch."""
    architecture: str
    watts: int
    fp32: float
    half: float
    """fp16, and bf16 where the card has it."""
    gb_s: float
    share: float | None = None
    """Of the 16 bits that it holds, where heat or power leave it less than others."""

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability of an NVIDIA card."""
        digits = self.architecture.removeprefix("sm_")
        return int(digits[:-1]), int(digits[-1])

    @property
    def precisions(self) -> tuple[str, ...]:
        """What it computes in itself."""
        if self.architecture.startswith("gfx"):
            fp8 = self.architecture.startswith(("gfx942", "gfx95", "gfx12"))
            return ("fp32", "fp16", "bf16", *(["fp8"] if fp8 else []))
        bf16, fp8 = self.capability >= (8, 0), self.capability >= (8, 9)
        return ("fp32", "fp16", *(["bf16"] if bf16 else []), *(["fp8"] if fp8 else []))

    @property
    def attention(self) -> str:
        """The kernel that PyTorch takes for half precision."""
        if self.architecture.startswith("gfx"):
            return "flash"
        if self.capability[0] in (9, 10):
            return "cudnn"
        return "flash" if self.capability >= (8, 0) else "efficient"

    @property
    def kernels(self) -> tuple[str, ...]:
        """Those for attention that work, the one that PyTorch takes among them."""
        if self.architecture.startswith("gfx"):
            return ("flash", "efficient", "math")
        if self.capability >= (8, 0):
            return ("flash", "efficient", "cudnn", "math")
        return ("efficient", "math")

    def speed(self, launch_us: float) -> Speed:
        """Measured by large products and a large copy, in a machine that starts work so fast."""
        kind = "rocm" if self.architecture.startswith("gfx") else "cuda"
        fp32, half, bandwidth = SHARE[kind]
        rates = {"fp32": self.fp32 * fp32, "fp16": self.half * (self.share or half)}
        if "bf16" in self.precisions:
            rates["bf16"] = rates["fp16"]
        return Speed(
            tflops={name: round(rate, 1) for name, rate in rates.items()},
            bandwidth_gb_s=round(self.gb_s * bandwidth),
            launch_us=launch_us,
        )


def uuid_of(text: str) -> str:
    """A UUID of the right form that is the same every time."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, text))


def _read(row: dict[str, str]) -> Card:
    return Card(
        name=row["name"],
        mib=int(row["mib"]),
        torch_gib=float(row["torch_gib"]),
        architecture=row["architecture"],
        watts=int(row["watts"]),
        fp32=float(row["fp32"]),
        half=float(row["half"]),
        gb_s=float(row["gb_s"]),
        share=float(row["share"]) if row["share"] else None,
    )


_FILE = Path(__file__).resolve().parent.parent / "data" / "cards.csv"

CARDS = {row["model"]: _read(row) for row in csv.DictReader(_FILE.open(encoding="utf-8"))}
