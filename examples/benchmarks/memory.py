"""Predicted memory against a real card: the step counted on the meta device, then really done.

    python examples/benchmarks/memory.py                 # about three minutes of one card
    python examples/benchmarks/memory.py --cpu           # a small one against the CPU's allocator

Runs from the tree. The weights are random and made on the card, so nothing is downloaded. 24 cases
over two families, ranks, targets, checkpointing, batch, precision and optimizer: each pair of two
settings is met. Predicted is what tensors take; allocated and reserved are what PyTorch's allocator
says of the same steps, so neither holds the driver's context. Exit code 3: there is no card.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

PACKAGES = {
    "torch": "torch",
    "diffusers": "diffusers",
    "transformers": "transformers",
    "peft": "peft",
    "accelerate": "accelerate",
    "safetensors": "safetensors",
    "huggingface_hub": "huggingface-hub",
    "pydantic": "pydantic",
    "numpy": "numpy",
    "PIL": "pillow",
    "psutil": "psutil",
}
"""What is imported, by the name to install it by: not all that lorakit needs."""

GIB = 1024**3
STEPS = 3
NO_HARDWARE, USAGE = 3, 2


@dataclass(frozen=True, kw_only=True)
class Case:
    family: str
    rank: int
    targets: str
    checkpointing: str
    batch: int
    precision: str
    optimizer: str
    tiny: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    case: Case
    parts_gib: dict[str, float]
    """What is predicted, by what it is for."""
    allocated_gib: float | None = None
    reserved_gib: float | None = None
    step_seconds: float | None = None
    failure: str = ""

    @property
    def predicted_gib(self) -> float:
        """What is in PyTorch's allocator: all but the driver's context and the allocator's gaps."""
        from lorakit.planner.overheads import NO_TENSORS

        return sum(gib for name, gib in self.parts_gib.items() if name not in NO_TENSORS)

    @property
    def error_percent(self) -> float | None:
        """How far that is off."""
        if self.allocated_gib is None:
            return None
        return 100 * (self.predicted_gib / self.allocated_gib - 1)

    @property
    def reserved_error_percent(self) -> float | None:
        """How far off it is with the allocator's gaps, from what the allocator holds."""
        if self.reserved_gib is None:
            return None
        with_gaps = self.predicted_gib + self.parts_gib.get("allocator", 0.0)
        return 100 * (with_gaps / self.reserved_gib - 1)


ROWS = ("00000", "00111", "01011", "01100", "10110", "10001", "11101", "11010")
"""An orthogonal array: of any two columns, every pair of values stands in as many rows."""


def grid() -> Iterator[Case]:
    """24 cases, the smaller family first; half of the array for each family and rank."""
    two = (
        ("attention", "linear"),
        ("none", "full"),
        (1, 2),
        ("bf16", "fp16"),
        ("adamw", "adafactor"),
    )
    for number, (family, rank) in enumerate((f, r) for f in ("sd1", "sdxl") for r in (1, 16, 128)):
        for row in ROWS[number % 2 :: 2]:
            targets, checkpointing, batch, precision, optimizer = (
                values[int(level)] for values, level in zip(two, row, strict=True)
            )
            yield Case(
                family=family,
                rank=rank,
                targets=str(targets),
                checkpointing=str(checkpointing),
                batch=int(batch),
                precision=str(precision),
                optimizer=str(optimizer),
            )


def small() -> Iterator[Case]:
    """Four cases for a CPU: UNets of the same parts, a few MB in size."""
    cases = list(grid())
    for case in (cases[0], cases[9], cases[14], cases[19]):
        yield replace(case, precision="fp32", tiny=True)


def bundle_of(case: Case) -> Any:
    """The training whose step is counted and done."""
    from lorakit.bundle.models import Bundle
    from lorakit.families.families import FAMILIES

    return Bundle.model_validate(
        {
            "schema": 1,
            "name": "memory",
            "base": {"family": case.family, "model": f"random/{case.family}"},
            "dataset": {
                "sources": [{"path": "."}],
                "resolution": 64 if case.tiny else FAMILIES[case.family].resolution,
            },
            "adapter": {"rank": case.rank, "alpha": float(case.rank), "targets": case.targets},
            "train": {
                "steps": STEPS,
                "batch_size": case.batch,
                "precision": case.precision,
                "optimizer": case.optimizer,
            },
            "memory": {"checkpointing": case.checkpointing},
        }
    )


def shape_of(case: Case) -> Any:
    """The sizes of the base: those of the published model, or of a tiny one with the same parts."""
    from lorakit.train import sizes
    from lorakit.train.families import family_of

    shape = sizes.of(case.family)
    if not case.tiny:
        return shape
    return replace(shape, unet={"in_channels": 4, **family_of(bundle_of(case)).tiny()})


def made(case: Case, where: Any) -> Any:
    """The model and the batch of a case on a device."""
    from lorakit.train import sizes, synthetic
    from lorakit.train.step import DTYPES

    bundle, shape = bundle_of(case), shape_of(case)
    unet = sizes.unet(shape.unet, DTYPES[case.precision], where)
    side = bundle.dataset.resolution // shape.latent_factor
    return synthetic.around(unet, shape.unet, bundle, side)


def predicted(case: Case, device: str) -> dict[str, float]:
    """GiB by what they are for, at the worst moment of a step on a `device`: the dry run."""
    import torch

    from lorakit.train import dryrun
    from lorakit.train.families import family_of
    from lorakit.train.memory import undisturbed

    torch.set_num_threads(1)
    bundle, shape = bundle_of(case), shape_of(case)
    family, kernel = family_of(bundle), dryrun.kernel_on(device, bundle)
    with undisturbed():
        unet, weights = dryrun.prepared(family, shape, bundle)
        parts = dryrun.training(family, shape, bundle, kernel, unet, weights)
    return {name: size / GIB for name, size in parts.items()}


def with_overheads(case: Case, parts: dict[str, float]) -> dict[str, float]:
    """The parts with what the planner adds for this card."""
    import torch

    from lorakit.hardware.facts import Accelerator, Hardware, TorchBuild
    from lorakit.planner import overheads
    from lorakit.planner.estimate import Part, Phase

    kind = "rocm" if torch.version.hip else "cuda"
    seen = None if torch.version.hip else torch.cuda.get_device_capability()
    card = Accelerator(kind=kind, name=torch.cuda.get_device_name(), capability=seen)
    phase = Phase(name="training", parts=tuple(Part(name=n, gib=g) for n, g in parts.items()))
    built = TorchBuild(version=torch.__version__, cuda=torch.version.cuda, hip=torch.version.hip)
    machine = Hardware(torch=built, accelerators=(card,))
    [whole] = overheads.with_overheads((phase,), bundle_of(case), machine)
    return {part.name: part.gib for part in whole.parts}


def on_card(case: Case, parts: dict[str, float]) -> Row:
    """The same steps on the card."""
    import torch

    from lorakit.train.families.stable_diffusion import release

    row = Row(case=case, parts_gib=with_overheads(case, parts))
    release()
    try:
        subject = made(case, torch.device("cuda"))
        release()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(STEPS):
            begun = time.perf_counter()
            subject.step()
            torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError:
        return replace(row, failure="out of memory")
    return replace(
        row,
        allocated_gib=torch.cuda.max_memory_allocated() / GIB,
        reserved_gib=torch.cuda.max_memory_reserved() / GIB,
        step_seconds=time.perf_counter() - begun,
    )


def on_cpu(case: Case, parts: dict[str, float]) -> Row:
    """The same step on the CPU, as its allocator saw it."""
    import torch

    from lorakit.train.bench import cpu_peak_bytes

    subject = made(case, torch.device("cpu"))
    begun = time.perf_counter()
    subject.step()
    took = time.perf_counter() - begun
    peak = cpu_peak_bytes(subject) / GIB
    return Row(case=case, parts_gib=parts, allocated_gib=peak, step_seconds=took)


def measured(cases: list[Case], limit_seconds: float, cpu: bool) -> Iterator[Row]:
    """A row a case until the time is up; other cores predict while the card works."""
    begun = time.monotonic()
    if cpu:
        yield from (on_cpu(case, predicted(case, "cpu")) for case in cases)
        return
    workers = max(1, min(8, len(os.sched_getaffinity(0)) - 2))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        told: list[tuple[Case, Future[dict[str, float]]]] = [
            (case, pool.submit(predicted, case, "cuda")) for case in cases
        ]
        for case, parts in told:
            if time.monotonic() - begun > limit_seconds:
                return
            yield on_card(case, parts.result())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


HEAD = (
    "family  rank  targets    checkpointing  batch  precision  optimizer   predicted  allocated"
    "   error  reserved  s/step"
)


def line(row: Row, unit: float) -> str:
    """One row of the table."""
    case = row.case
    told = (
        f"{case.family:<7} {case.rank:>4}  {case.targets:<10} {case.checkpointing:<13}"
        f" {case.batch:>6}  {case.precision:<9}  {case.optimizer:<10}"
        f" {row.predicted_gib * unit:>10.2f}"
    )
    if row.failure:
        return f"{told}  {row.failure}"
    numbers = (
        f"{(row.allocated_gib or 0) * unit:>11.2f} {row.error_percent or 0:>+6.1f}%"
        f" {'--' if row.reserved_gib is None else f'{row.reserved_gib * unit:.2f}':>9}"
        f" {row.step_seconds or 0:>7.3f}"
    )
    return told + numbers


def machine(cpu: bool) -> dict[str, Any]:
    """What was measured on."""
    import importlib.metadata

    import torch

    names = ("torch", "diffusers", "peft", "transformers")
    facts: dict[str, Any] = {name: importlib.metadata.version(name) for name in names}
    if cpu:
        return {"device": "CPU", **facts}
    card = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    return {
        "device": card.name,
        "architecture": f"sm_{card.major}{card.minor}",
        "memory_gib": total / GIB,
        "free_gib": free / GIB,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "beyond_allocator_before_gib": beyond_allocator_gib(),
        **facts,
    }


def beyond_allocator_gib() -> float:
    """What the driver counts as taken and PyTorch's allocator does not hold: the context with its
    kernels, and whatever other processes have."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return (total - free - torch.cuda.memory_reserved()) / GIB


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cpu", action="store_true", help="four tiny cases on the CPU")
    parser.add_argument("--seconds", type=float, default=200.0, help="begin no case after this")
    parser.add_argument("--out", type=Path, default=Path("memory.json"), help="the rows as JSON")
    args = parser.parse_args()

    missing = [name for module, name in PACKAGES.items() if not importlib.util.find_spec(module)]
    if missing:
        print(
            f"Not installed here: {', '.join(missing)}.\n"
            f"  {Path(sys.executable).name} -m pip install {' '.join(missing)}",
            file=sys.stderr,
        )
        return USAGE
    if sys.platform == "linux":  # as the trainer does, and before torch reads it
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    import torch

    if not args.cpu and not torch.cuda.is_available():
        print(
            f"PyTorch {torch.__version__} finds no card here. --cpu runs a small one without.",
            file=sys.stderr,
        )
        return NO_HARDWARE
    if args.cpu:
        torch.set_num_threads(1)

    facts = machine(args.cpu)
    cases = list(small() if args.cpu else grid())
    unit, name = (1024.0, "MiB") if args.cpu else (1.0, "GiB")
    print(f"{facts['device']}, torch {facts['torch']}; memory in {name}\n\n{HEAD}", flush=True)
    rows = []
    for row in measured(cases, args.seconds, args.cpu):
        print(line(row, unit), flush=True)
        rows.append(row)

    if not args.cpu:
        facts["beyond_allocator_after_gib"] = beyond_allocator_gib()
    errors = [abs(e) for row in rows if (e := row.error_percent) is not None]
    whole = {
        "machine": facts,
        "median_error_percent": statistics.median(errors) if errors else None,
        "worst_error_percent": max(errors, default=None),
        "left_out": len(cases) - len(rows),
        "rows": [
            {
                **asdict(row),
                "predicted_gib": row.predicted_gib,
                "error_percent": row.error_percent,
                "reserved_error_percent": row.reserved_error_percent,
            }
            for row in rows
        ],
    }
    args.out.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    if errors:
        print(
            f"\nerror of the prediction: {statistics.median(errors):.1f} % in the median,"
            f" {max(errors):.1f} % at worst, over {len(errors)} cases; written to {args.out}"
        )
    if whole["left_out"]:
        print(f"{whole['left_out']} cases left out: {args.seconds:.0f} seconds were up")
    return 0 if errors else 1


if __name__ == "__main__":
    sys.exit(main())
