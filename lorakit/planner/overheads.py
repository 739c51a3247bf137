"""What memory a driver, libraries and an allocator take beside the tensors of a training.

Each is a part with a name of its own, so that a person sees what is known and what is allowed for.
On the CPU it is the program itself.
"""

from __future__ import annotations

from lorakit.bundle.models import Bundle
from lorakit.hardware.facts import Hardware
from lorakit.planner.estimate import Part, Phase

CONTEXT_GIB = {7: 0.30, 8: 0.40, 9: 0.50, 10: 0.55, 12: 0.55}
"""What the driver takes for a process of PyTorch, by major compute capability: the kernels that are
loaded, and a stack for every thread that fits on the card at once, so more on larger cards."""

OTHER_CONTEXT_GIB = 0.5
"""The same where nobody has said the compute capability, and for other makers' cards."""

BLAS_GIB = {9: 2 * 32 / 1024}
"""Workspace that PyTorch keeps for cuBLAS, for the forward and for the backward thread: 32 MiB each
on Hopper. A peer's published peaks are 0.05 GiB higher on an H100 than on an L40S throughout."""

OTHER_BLAS_GIB = 2 * 8.1 / 1024
"""The same on other cards."""

SLACK = 0.03
"""What the allocator holds and cannot use, as a share of what comes and goes in a phase. Its
segments can grow, except on Windows."""

WINDOWS_SLACK = 0.10

ROCM_GIB = 7.0
"""A published benchmark measured about this much more on a Radeon PRO W7900 than on NVIDIA cards,
for SDXL at 1024 x 1024, batch 1, at every rank."""

ROCM = "ROCm (measured on a W7900)"

PROGRAM = Part(name="program", gib=0.42)
"""Python, PyTorch and the libraries, as measured on Linux. Where the CPU trains they are in the
same memory, and the trainer's share of RAM is told with them."""


NO_TENSORS = frozenset({"context", "allocator", "program"})
"""Names of the parts that a count of tensors does not see."""


def with_overheads(
    phases: tuple[Phase, ...], bundle: Bundle, hardware: Hardware
) -> tuple[Phase, ...]:
    """The phases with what this machine's driver, libraries and allocator take in each; on a CPU
    the program itself."""
    return tuple(
        Phase(name=phase.name, parts=(*phase.parts, *_parts(phase, bundle, hardware)))
        for phase in phases
    )


def _parts(phase: Phase, bundle: Bundle, hardware: Hardware) -> list[Part]:
    card = hardware.accelerator
    if card is None:
        return [PROGRAM]
    major = card.capability[0] if card.capability else 0
    moving = sum(p.gib for p in phase.parts if p.name in ("gradients", "activations", "workspace"))
    slack = WINDOWS_SLACK if hardware.system.startswith("Windows") else SLACK
    found = [
        Part(name="context", gib=CONTEXT_GIB.get(major, OTHER_CONTEXT_GIB)),
        Part(name="library workspace", gib=BLAS_GIB.get(major, OTHER_BLAS_GIB)),
        Part(name="allocator", gib=slack * moving),
    ]
    if card.kind == "rocm" and phase.name != "caching":
        found.append(Part(name=ROCM, gib=_rocm_gib(phase, bundle)))
    return found


def _rocm_gib(phase: Phase, bundle: Bundle) -> float:
    """In proportion to the pixels of a batch: it did not depend on the rank, so it is taken for
    workspace of convolutions and attention, which grows with pixels. Nobody measured more than one
    picture of 1024 x 1024."""
    pictures = bundle.train.batch_size if phase.name == "training" else 1
    return ROCM_GIB * pictures * (bundle.dataset.resolution / 1024) ** 2
