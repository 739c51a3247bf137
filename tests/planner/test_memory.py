"""What the planner says of memory, on machines as their tools print them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lorakit.bundle.models import PICO, Bundle
from lorakit.families.base_model import inspect, usual
from lorakit.hardware.facts import Hardware
from lorakit.hardware.files import load
from lorakit.planner import memory, overheads
from lorakit.planner.estimate import Phase

MACHINES = Path(__file__).parents[1] / "data" / "hardware"


def machine(name: str) -> Hardware:
    return load(MACHINES / f"{name}.toml")


def request(**keys: Any) -> Bundle:
    """Dotted keys with two underscores in the place of the dot."""
    whole: dict[str, Any] = {
        "schema": 1,
        "name": "planned",
        "base": {"family": "sdxl", "model": "owner/name"},
        "dataset": {"sources": [{"path": "."}], "resolution": 1024},
        "sample": {"prompts": ["a robot"]},
    }
    for key, value in keys.items():
        section, _, name = key.partition("__")
        whole.setdefault(section, {})[name] = value
    return Bundle.model_validate(whole)


def told(bundle: Bundle, hardware: Hardware) -> dict[str, Phase]:
    base = None if bundle.base.model == PICO else usual(bundle.base.family)
    found = memory.phases(bundle, base, hardware)
    assert found is not None
    return {phase.name: phase for phase in found}


def gib(phase: Phase, name: str) -> float:
    return sum(part.gib for part in phase.parts if part.name == name)


@pytest.mark.parametrize("card", ["rtx4090", "a6000", "rtx6000ada", "l40s"])
@pytest.mark.parametrize("rank", [1, 8, 16, 32, 64, 128, 256])
def test_the_published_benchmark_fits_as_it_did(card: str, rank: int) -> None:
    """SDXL at 1024, batch 1, all linear layers, Adafactor, no checkpointing: at most 19 GiB."""
    bundle = request(
        adapter__rank=rank,
        adapter__targets="linear",
        train__optimizer="adafactor",
        sample__prompts=(),
    )
    [_, training] = memory.phases(bundle, usual("sdxl"), machine(card)) or ()
    assert 10 < training.gib <= 19
    assert gib(training, "context") > 0


def test_every_part_has_a_name_and_no_part_less_than_nothing() -> None:
    training = told(request(), machine("rtx4090"))["training"]
    names = [part.name for part in training.parts]
    assert names == [
        "base weights", "adapter", "optimizer", "gradients", "activations", "workspace",
        "context", "library workspace", "allocator",
    ]  # fmt: skip
    assert all(part.gib >= 0 for part in training.parts)


def test_more_blocks_that_recompute_take_less() -> None:
    hardware = machine("rtx4090")
    peaks = [
        told(request(memory__checkpointing=n), hardware)["training"].gib
        for n in ("none", 1, 10, 20, 30, 40, 50, 60, 70, "full")
    ]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] - peaks[-1] > 4


def test_a_number_of_blocks_that_there_are_not_is_unknown() -> None:
    bundle = request(memory__checkpointing=999)
    assert memory.phases(bundle, usual("sdxl"), machine("rtx4090")) is None


@pytest.mark.parametrize(
    "keys",
    [{"dataset__resolution": 4096}, {"train__batch_size": 65}],
    ids=["too large", "too many"],
)
def test_outside_of_its_range_the_table_says_nothing(keys: dict[str, Any]) -> None:
    assert memory.phases(request(**keys), usual("sdxl"), machine("rtx4090")) is None


def test_a_base_of_other_sizes_is_not_in_the_table() -> None:
    base = usual("sdxl")
    other = replace(base, unet={**base.unet, "block_out_channels": [320, 640, 1024]})
    assert memory.phases(request(), other, machine("rtx4090")) is None
    resized = replace(base, unet={**base.unet, "sample_size": 96})
    assert memory.phases(request(), resized, machine("rtx4090")) is not None


def test_pico_takes_little_on_the_cpu_and_no_driver() -> None:
    bundle = request(
        base__family="sd1", base__model=PICO, dataset__resolution=64, train__precision="fp32"
    )
    for base in (None, inspect(bundle.base, Path())):
        found = memory.phases(bundle, base, machine("cpu-only"))
        assert found is not None
        assert {phase.name for phase in found} == {"caching", "training", "sampling"}
        assert max(phase.gib - gib(phase, "program") for phase in found) < 0.1
        assert all(gib(phase, "program") > 0.3 for phase in found)
        assert not any(gib(phase, "context") for phase in found)


def test_rocm_is_told_apart_by_name() -> None:
    training = told(request(), machine("w7900"))["training"]
    assert gib(training, overheads.ROCM) == pytest.approx(7.0)
    small = told(request(dataset__resolution=512), machine("w7900"))["training"]
    assert gib(small, overheads.ROCM) == pytest.approx(7.0 / 4)
    assert not gib(told(request(), machine("rtx4090"))["training"], overheads.ROCM)


@pytest.mark.parametrize(
    ("card", "precision", "attention", "expected"),
    [
        ("rtx4090", "bf16", "sdpa", "flash"),
        ("rtx4090", "fp32", "sdpa", "efficient"),
        ("rtx4090", "bf16", "xformers", "efficient"),
        ("rtx2080ti", "fp16", "sdpa", "efficient"),
        ("m3max", "fp16", "sdpa", "math"),
        ("cpu-only", "fp32", "sdpa", "cpu"),
    ],
)
def test_the_kernel_is_what_the_card_has(
    card: str, precision: str, attention: str, expected: str
) -> None:
    hardware = replace(machine(card), probe=None)
    bundle = request(train__precision=precision, memory__attention=attention)
    assert memory.kernel(bundle, hardware) == expected


def test_plain_attention_takes_far_more() -> None:
    card = replace(machine("rx6600"), probe=None)
    fused = replace(machine("w7900"), probe=None)
    assert memory.kernel(request(), card) == "math"
    plain, lean = (told(request(), h)["training"] for h in (card, fused))
    assert gib(plain, "activations") > 1.5 * gib(lean, "activations")


def test_asking_takes_no_time() -> None:
    """A search over thousands of settings has to feel immediate."""
    hardware, base = machine("rtx4090"), usual("sdxl")
    bundles = [request(adapter__rank=rank) for rank in range(1, 101)]
    memory.phases(bundles[0], base, hardware)
    started = time.process_time()
    for bundle in bundles:
        memory.phases(bundle, base, hardware)
    assert (time.process_time() - started) / len(bundles) < 0.005
