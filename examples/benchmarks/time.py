"""What a step was predicted to take beside what it takes, on this machine.

    python examples/benchmarks/time.py [--rounds 6] [--device cuda] [--real]

The device's speed is measured as `python -m lorakit.train.speed` does, what a step computes, moves
and launches is counted, and `lorakit/planner/roofline.py` makes seconds of the two. Then the step
runs. Speed and steps take turns, round by round, so that both see the same machine; the best of
each is taken, which is what the machine does when nothing else disturbs it. One thread of a CPU is
timed by its own clock, which stands still while other programs run.

pico's UNet, large ones of its shape, and a small one with all that SDXL has, in fp32; --real takes
those of SD 1.5 and SDXL with random weights in bf16, for a card.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any, NamedTuple

import torch

from lorakit.bundle.models import PICO, Bundle
from lorakit.families.costs import Work, update
from lorakit.families.shipped import ASSETS
from lorakit.hardware.facts import Speed
from lorakit.planner import roofline
from lorakit.train import checkpointing, device, sizes, speed
from lorakit.train.costs import passes
from lorakit.train.step import DTYPES, step


class Case(NamedTuple):
    name: str
    family: str
    config: dict[str, Any]
    batch: int
    side: int
    precision: str
    checkpointing: str | int = "none"


def cases(real: bool) -> list[Case]:
    """What is run."""
    if real:
        return [
            Case(f"{name}, {size} x {side * 8}, {kept}", name, family(name).real(), size, side,
                 "bf16", kept)
            for name, side in (("sd1", 64), ("sdxl", 128))
            for size in (1, 4)
            for kept in ("none", "full")
        ]  # fmt: skip
    pico = sizes.of("sd1", ASSETS / PICO).unet
    large = pico | {"block_out_channels": (160, 320)}
    return [
        Case("pico, batch 8", "sd1", pico, 8, 16, "fp32"),
        Case("pico, batch 1", "sd1", pico, 1, 16, "fp32"),
        Case("pico, batch 4, full", "sd1", pico, 4, 16, "fp32", "full"),
        Case("large, batch 8", "sd1", large, 8, 16, "fp32"),
        Case("large, batch 1", "sd1", large, 1, 16, "fp32"),
        Case("large, batch 4, 8 blocks", "sd1", large, 4, 16, "fp32", 8),
        Case("tiny sdxl, batch 2", "sdxl", family("sdxl").tiny(), 2, 32, "fp32"),
    ]


def family(name: str) -> Any:
    return importlib.import_module(f"lorakit.train.families.{name}").FAMILY


class Running:
    """A case with random weights, ready to step, and what its step is made of."""

    def __init__(self, case: Case, where: torch.device) -> None:
        self.case, self.best, self._where = case, float("inf"), where
        made, dtype = family(case.family), DTYPES[case.precision]
        unet = sizes.unet(case.config, dtype, where)
        weights = sizes.attached(made, bundle(case), unet)
        self.batch = sizes.batch(case.config, case.batch, (case.side,) * 2, dtype, where)
        self.model = sizes.model(made, bundle(case), unet, weights)
        there, back = passes(self.model, self.batch)
        more = Work()
        if case.checkpointing != "none":
            checkpointing.apply(unet, "none", "attention")
            plain = passes(self.model, self.batch)
            more = there + back + plain[0] * -1 + plain[1] * -1
            there, back = plain
            checkpointing.apply(unet, case.checkpointing, "attention")
        self.step = roofline.Step(
            forward=there,
            backward=back,
            recomputed=more,
            update=update("adamw").of(len(weights), sum(w.numel() for w in weights)),
        )

    def run(self, times: int) -> None:
        """Time some steps, the mean of which is one try."""
        self._wait()
        clock = speed.clock(self._where)
        start = clock()
        for _ in range(times):
            step(self.model, [self.batch])
        self._wait()
        self.best = min(self.best, (clock() - start) / times)

    def _wait(self) -> None:
        if self._where.type != "cpu":
            torch.get_device_module(self._where).synchronize()


def bundle(case: Case) -> Bundle:
    return Bundle.model_validate(
        {
            "schema": 1,
            "name": "time",
            "dataset": {"sources": [{"path": "."}]},
            "adapter": {"rank": 8},
            "train": {"precision": case.precision, "steps": 1_000_000},
            "memory": {"checkpointing": case.checkpointing},
        }
    )


def best_of(measured: list[dict[str, Any]]) -> Speed:
    """The best that a device did in several measurements."""
    return Speed(
        tflops={
            name: max(m["tflops"][name] for m in measured if name in m["tflops"])
            for name in measured[0]["tflops"]
        },
        bandwidth_gb_s=max(m["bandwidth_gb_s"] for m in measured),
        launch_us=min(m["launch_us"] for m in measured),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=3, help="of each case in a round")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--real", action="store_true", help="SD 1.5 and SDXL, bf16")
    args = parser.parse_args()
    where = torch.device(args.device)
    torch.set_num_threads(device.threads())
    running = [Running(case, where) for case in cases(args.real)]
    measured = []
    for _ in range(args.rounds):
        measured.append(speed.measure(where))
        for one in running:
            one.run(args.steps)
    found = best_of(measured)
    print(f"{device.describe(where)}, torch {torch.__version__}: {found}")
    used = roofline.device_of_speed(found, on_cpu=where.type == "cpu")
    print(f"{'step':<24}{'launching':>11}{'working':>11}{'predicted':>11}{'measured':>11}  ratio")
    for one in running:
        span = roofline.span(one.step, used, one.case.precision)
        taken = roofline.parts(one.step, used, one.case.precision)
        if span is None or taken is None:
            print(f"{one.case.name:<24}  this device has no {one.case.precision}")
            continue
        cells = (*taken, span.middle, one.best)
        shown = "".join(f"{1e3 * cell:8.1f} ms" for cell in cells)
        print(f"{one.case.name:<24}{shown}  {span.middle / one.best:.2f}")


if __name__ == "__main__":
    main()
