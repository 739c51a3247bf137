"""Blocks that recompute: which they are, that nothing else changes, and what they free."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from test_step import FAMILY, made, resident
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from trainings import changed, trained, watched

from lorakit.bundle.models import Bundle
from lorakit.errors import LorakitError
from lorakit.families import blocks
from lorakit.train import checkpointing, memory
from lorakit.train.families import sd2
from lorakit.train.step import step


def calls(unet: nn.Module, work: Any) -> dict[str, int]:
    """How often each resnet and each block of a transformer computes while `work` runs.

    Forward hooks are called once a step, so the first layer inside is counted.
    """
    counted: dict[str, int] = {}
    for name, module in unet.named_modules():
        inner = getattr(module, "norm1", None)
        if inner is not None:
            counted[name] = 0

            def count(*_: Any, name: str = name) -> None:
                counted[name] += 1

            inner.register_forward_pre_hook(count)
    work()
    return counted


@pytest.mark.parametrize("wanted", ["none", 1, 5, "full"])
@pytest.mark.parametrize("family", FAMILY)
def test_exactly_the_first_blocks_recompute(family: str, wanted: Any) -> None:
    unet, model, batch = made("cpu", family=family)
    units = blocks.units(unet.config, "linear")
    number = {"none": 0, "full": len(units)}.get(wanted, wanted)
    assert checkpointing.apply(unet, wanted, "linear") == number
    counted = calls(unet, lambda: step(model, [batch]))
    assert {name for name, times in counted.items() if times == 2} == {
        unit.name for unit in units[:number]
    }
    assert set(counted.values()) <= {1, 2}


@pytest.mark.parametrize(
    ("family", "targets", "precision"),
    [
        ("sd1", "linear", "bf16"),
        ("sdxl", "attention", "fp32"),
        pytest.param("sd1", "attention", "fp16", marks=pytest.mark.slow),
        pytest.param("sdxl", "linear", "fp16", marks=pytest.mark.slow),
    ],
)
def test_the_weights_are_the_same_to_the_bit(family: str, targets: str, precision: str) -> None:
    found = []
    for wanted in ("none", 2, "full"):
        unet, model, batch = made("cpu", family=family, targets=targets, precision=precision)
        checkpointing.apply(unet, wanted, targets)
        losses = [step(model, [batch]) for _ in range(2)]
        found.append([*losses, *(weight.detach() for weight in model.weights)])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize("family", ["sd1", pytest.param("sdxl", marks=pytest.mark.slow)])
def test_a_training_gives_the_same_adapter(
    family: str, bundle: Bundle, bases: dict[str, Path], tmp_path: Path
) -> None:
    """Also with pictures drawn on the way."""
    digests = {}
    for wanted in ("none", 2, "full"):
        asked = changed(
            bundle,
            base={"family": family, "model": str(bases[family])},
            memory={"checkpointing": wanted},
        )
        run = tmp_path / str(wanted)
        digests[wanted] = trained(asked, run, watched(run)).digest
    assert len(set(digests.values())) == 1


def peaks(numbers: list[int], **options: Any) -> list[int]:
    """The most that a step holds on meta where so many blocks recompute, in bytes."""
    unet, model, batch = made("meta", **options)
    targets, held = options["targets"], resident(unet, model, batch)
    found = []
    for number in numbers:
        checkpointing.apply(unet, number or "none", targets)
        with memory.attention_of("flash"):
            found.append(memory.count(lambda: step(model, [batch]), held).peak)
    return found


@pytest.mark.parametrize(
    ("family", "targets", "by"),
    [
        ("sd1", "attention", 3),
        pytest.param("sd1", "linear", 1, marks=pytest.mark.slow),
        pytest.param("sdxl", "attention", 4, marks=pytest.mark.slow),
        pytest.param("sdxl", "linear", 4, marks=pytest.mark.slow),
    ],
)
def test_another_block_never_takes_more_memory(family: str, targets: str, by: int) -> None:
    there = blocks.count(FAMILY[family].tiny())
    numbers = [*range(0, there, by), there]
    found = peaks(numbers, family=family, targets=targets, precision="bf16")
    assert all(a >= b for a, b in itertools.pairwise(found))
    assert found[1] < found[0]


@pytest.mark.parametrize("family", ["sd1", pytest.param("sdxl", marks=pytest.mark.slow)])
def test_all_blocks_free_as_much_as_the_switch_of_diffusers(family: str) -> None:
    options = {"family": family, "targets": "attention", "precision": "bf16"}
    unet, model, batch = made("meta", **options)
    unet.enable_gradient_checkpointing()
    unet.train()
    with memory.attention_of("flash"):
        theirs = memory.count(lambda: step(model, [batch]), resident(unet, model, batch)).peak
    assert peaks([blocks.count(unet.config)], **options) <= [theirs]


def test_another_number_replaces_the_one_before() -> None:
    unet, model, batch = made("cpu")
    for wanted, number in (("full", 10), (3, 3), ("none", 0), (1, 1)):
        assert checkpointing.apply(unet, wanted, "linear") == number
    assert sum(n == 2 for n in calls(unet, lambda: step(model, [batch])).values()) == 1


def test_more_blocks_than_there_are_is_an_error_with_the_number() -> None:
    unet, _, _ = made("meta")
    with pytest.raises(LorakitError, match=r"checkpointing is 99, and this base has 10 blocks"):
        checkpointing.apply(unet, 99, "linear")


def test_random_numbers_inside_a_block_are_drawn_alike_again() -> None:
    """No family draws any yet; a gradient with other ones would be wrong without a word."""
    found = []
    for wanted in ("none", "full"):
        unet, model, batch = made("cpu")
        for module in unet.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.5
        unet.train()
        checkpointing.apply(unet, wanted, "linear")
        torch.manual_seed(3)
        step(model, [batch])
        step(model, [batch])
        found.append([weight.detach() for weight in model.weights])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def measured(config: dict[str, Any], **options: Any) -> tuple[dict[str, tuple[int, int]], int]:
    """(bytes freed, FLOPs computed again) by each block, and FLOPs of the forward pass, counted by
    running the model on meta."""
    unet, model, batch = made("meta", "bf16", config=config, batch=1, rank=1, **options)
    names = ("ResnetBlock2D", "BasicTransformerBlock")
    parts = {n: m for n, m in unet.named_modules() if type(m).__name__ in names}

    def forward() -> torch.Tensor:
        return model.predict(batch.latents, batch.timesteps, batch.conditions)

    def growth() -> dict[str, int]:
        grown: dict[str, int] = {}
        counter = memory.LiveStorages(resident(unet, model, batch))

        def mark(*_: Any, name: str, sign: int) -> None:
            grown[name] = grown.get(name, 0) + sign * counter.alive

        hooks = []
        for n, m in parts.items():
            before = functools.partial(mark, name=n, sign=-1)
            hooks.append(m.register_forward_pre_hook(before))
            hooks.append(m.register_forward_hook(functools.partial(mark, name=n, sign=1)))
        with counter:
            forward()
        for hook in hooks:
            hook.remove()
        return grown

    flops = FlopCounterMode(display=False)
    spent: dict[str, list[int]] = {name: [] for name in parts}

    def counting(name: str, work: Any, *args: Any, **kwargs: Any) -> Any:
        before = flops.get_total_flops()
        try:
            return work(*args, **kwargs)
        finally:  # recomputing ends with an exception once nothing more is needed
            spent[name].append(flops.get_total_flops() - before)

    with memory.attention_of("flash"):
        plain = growth()
        for n, m in parts.items():
            counted = functools.partial(counting, n, m.forward)
            m.forward = functools.partial(checkpoint, counted, use_reentrant=False)
        full = growth()
        for entry in spent.values():
            entry.clear()
        with flops:
            answer = forward()
            whole = flops.get_total_flops()
            answer.sum().backward()
    again = {name: entry[1] if entry[1:] else 0 for name, entry in spent.items()}
    return {name: (plain[name] - full[name], again[name]) for name in parts}, whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "targets"),
    [
        ("sd1", "attention"),
        ("sd1", "linear"),
        ("sd2", "attention"),
        ("sdxl", "attention"),
        ("sdxl", "linear"),
    ],
)
def test_the_order_is_the_measured_one(family: str, targets: str) -> None:
    """And the shares are within a few percent of what the model really computes and keeps."""
    config = sd2.FAMILY.real() if family == "sd2" else FAMILY[family].real()
    options = {"family": "sdxl" if family == "sdxl" else "sd1", "side": config["sample_size"]}
    found, whole = measured(config, targets=targets, **options)
    units = blocks.units(config, targets)
    worthless = {name for name, (freed, _) in found.items() if freed == 0}
    left_out = set(found) - {unit.name for unit in units}
    at_the_end = "up_blocks.3.attentions.2.transformer_blocks.0"
    assert left_out == worthless | ({at_the_end} & set(found))

    freed = sum(found[unit.name][0] for unit in units)
    for unit in units:
        assert unit.flops_share == pytest.approx(found[unit.name][1] / whole, rel=0.02)
        assert unit.bytes_share == pytest.approx(found[unit.name][0] / freed, rel=0.03, abs=1e-3)
    worth = [found[unit.name][0] / found[unit.name][1] for unit in units]
    assert all(a >= b * 0.995 for a, b in itertools.pairwise(worth))
