"""What a step was predicted to take beside what it takes, on this machine.

    python examples/benchmarks/time.py [--rounds 6] [--device cuda] [--real]

The device's speed is measured as `python -m lorakit.train.speed` does, what a step computes, moves
and launches is counted, and `lorakit/planner/roofline.py` makes seconds of the two. Then the step
runs. Speed and steps take turns, round by round, so that both see the same machine; the best of
each is taken, which is what the machine does when nothing else disturbs it. One thread of a CPU is
timed by its own clock, which stands still while other programs run.

Small is pico's UNet, large one of the same shape and ten times as wide in fp32; --real takes those
of SD 1.5 and SDXL with random weights in bf16, for a card.
"""

from __future__ import annotations

import argparse
import importlib
import json
from typing import Any, NamedTuple

import torch
from diffusers import UNet2DConditionModel

from lorakit.bundle.models import Adapter, Memory, Train
from lorakit.families.base_model import ASSETS
from lorakit.families.costs import Work, update
from lorakit.hardware.facts import Speed
from lorakit.planner import roofline
from lorakit.train import device, optim, speed
from lorakit.train.adapters import lora
from lorakit.train.costs import passes
from lorakit.train.families.stable_diffusion import DTYPES
from lorakit.train.objective import Objective
from lorakit.train.step import Batch, Conditions, Model, step


class Case(NamedTuple):
    name: str
    family: str
    config: dict[str, Any]
    batch: int
    side: int
    precision: str
    checkpointing: str = "none"


def pico(**changed: Any) -> dict[str, Any]:
    """The configuration of pico's UNet, wider or not."""
    read = json.loads((ASSETS / "pico" / "unet" / "config.json").read_text(encoding="utf-8"))
    return {k: v for k, v in read.items() if not k.startswith("_")} | changed


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
    large = pico(block_out_channels=(160, 320))
    return [
        Case("pico, batch 8", "sd1", pico(), 8, 16, "fp32"),
        Case("pico, batch 1", "sd1", pico(), 1, 16, "fp32"),
        Case("pico, batch 4, full", "sd1", pico(), 4, 16, "fp32", "full"),
        Case("large, batch 8", "sd1", large, 8, 16, "fp32"),
        Case("large, batch 1", "sd1", large, 1, 16, "fp32"),
    ]


def family(name: str) -> Any:
    return importlib.import_module(f"lorakit.train.families.{name}").FAMILY


class Running:
    """A case with random weights, ready to step, and what its step is made of."""

    def __init__(self, case: Case, where: torch.device) -> None:
        self.case, self.best, self._where = case, float("inf"), where
        dtype, config = DTYPES[case.precision], case.config
        torch.manual_seed(0)
        with where:
            unet = UNet2DConditionModel(**config).to(dtype)
        weights = lora.attach(unet, family(case.family).facts, Adapter(rank=8), seed=1)
        self.model = Model(
            family(case.family).predictor(unet, dtype),
            weights,
            Objective.of(torch.linspace(0.999, 0.005, 1000, device=where), "epsilon", 0.0),
            optim.optimizer(Train(), weights),
            torch.amp.GradScaler(where.type, enabled=False),
            1.0,
        )
        shape = (case.batch, 4, case.side, case.side)
        self.batch = Batch(
            torch.randn(shape, device=where),
            torch.randn(shape, device=where),
            torch.randint(1000, (case.batch,), device=where),
            told(config, case.batch, where, dtype),
        )
        there, back = passes(self.model, self.batch)
        more = Work()
        if case.checkpointing == "full":
            device.trade(unet, Memory(checkpointing="full"))
            again = passes(self.model, self.batch)
            more = again[0] + again[1] + there * -1 + back * -1
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


def told(config: dict[str, Any], size: int, where: torch.device, dtype: torch.dtype) -> Conditions:
    hidden = torch.randn(size, 77, config["cross_attention_dim"], device=where, dtype=dtype)
    if not config.get("addition_embed_type"):
        return Conditions(hidden)
    width = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
    pooled = torch.randn(size, width, device=where, dtype=dtype)
    return Conditions(hidden, pooled, torch.full((size, 6), 1024.0, device=where))


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
