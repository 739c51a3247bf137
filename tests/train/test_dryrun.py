"""What the dry run says against the step itself, and against what was published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lorakit.bundle.models import PICO, Bundle
from lorakit.bundle.write import write
from lorakit.families.shipped import ASSETS
from lorakit.train import dryrun, memory, sizes
from lorakit.train.families import family_of, sd1, sdxl
from lorakit.train.sizes import Sizes
from lorakit.train.step import DTYPES, step

GIB = 2**30

TINY_VAE = {"block_out_channels": [8, 8, 8, 8], "latent_channels": 4}

SHAPES = {
    "pico": lambda: sizes.of("sd1", ASSETS / "pico"),
    "tiny sdxl": lambda: Sizes(sdxl.FAMILY.tiny(), TINY_VAE, ()),
    "sd1": lambda: sizes.of("sd1"),
}


def request(
    family: str = "sd1",
    resolution: int = 64,
    targets: str = "linear",
    rank: int = 4,
    checkpointing: Any = "none",
    attention: str = "sdpa",
    sample: dict[str, Any] | None = None,
    **train: Any,
) -> Bundle:
    return Bundle.model_validate(
        {
            "schema": 1,
            "name": "counted",
            "base": {"family": family},
            "dataset": {"sources": [{"path": "."}], "resolution": resolution},
            "adapter": {"rank": rank, "targets": targets},
            "train": {"precision": "fp32", "batch_size": 2, **train},
            "memory": {"checkpointing": checkpointing, "attention": attention},
            "sample": sample or {},
        }
    )


def counted(shape: Sizes, bundle: Bundle, kernel: memory.Kernel = "cpu") -> dryrun.Parts:
    family = family_of(bundle)
    with memory.undisturbed():
        unet, weights = dryrun.prepared(family, shape, bundle)
        return dryrun.training(family, shape, bundle, kernel, unet, weights)


def real(shape: Sizes, bundle: Bundle) -> int:
    """Bytes that the CPU's allocator handed out in a step that is not the first one, and what the
    step was given."""
    family, dtype = family_of(bundle), DTYPES[bundle.train.precision]
    unet = sizes.unet(shape.unet, dtype, "meta").to_empty(device="cpu")
    for tensor in (*unet.parameters(), *unet.buffers()):
        tensor.data.zero_()
    weights = sizes.attached(family, bundle, unet)
    model = sizes.model(family, bundle, unet, weights)
    side = bundle.dataset.resolution // shape.latent_factor
    batch = sizes.batch(shape.unet, bundle.train.batch_size, (side, side), dtype, "cpu")
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    model.optimizer.step()
    model.optimizer.zero_grad()
    objective = model.objective
    there = [*sizes.given(batch), objective.signal, objective.noise, objective.weights]
    return memory.count_allocator(lambda: step(model, [batch])).peak + dryrun.nbytes(there)


def moving(parts: dryrun.Parts) -> int:
    """What is there beside weights and the optimizer's state."""
    return parts["gradients"] + parts["activations"] + parts["workspace"]


CASES = [
    (base, checkpointing, targets, optimizer)
    for base in ("pico", "tiny sdxl")
    for checkpointing in ("none", 5, "full")
    for targets in ("attention", "linear")
    for optimizer in ("adamw", "adafactor")
]
QUICK = CASES[1::5]


@pytest.mark.parametrize(
    ("base", "checkpointing", "targets", "optimizer"),
    [pytest.param(*c, marks=[] if c in QUICK else pytest.mark.slow) for c in CASES],
)
def test_the_step_takes_what_the_dry_run_says(
    base: str, checkpointing: Any, targets: str, optimizer: str
) -> None:
    """Within 2 %, static weights set apart, as the CPU's own allocator counted it."""
    bundle = request(
        family="sdxl" if "sdxl" in base else "sd1",
        resolution=256 if "sdxl" in base else 64,
        checkpointing=checkpointing,
        targets=targets,
        optimizer=optimizer,
    )
    shape = SHAPES[base]()
    assert moving(counted(shape, bundle)) == pytest.approx(real(shape, bundle), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checkpointing", "targets", "optimizer"),
    [
        ("none", "attention", "adamw"),
        ("none", "linear", "adafactor"),
        (12, "linear", "adamw"),
        ("full", "attention", "adafactor"),
        ("full", "linear", "adamw"),
    ],
)
def test_stable_diffusion_takes_what_the_dry_run_says(
    checkpointing: Any, targets: str, optimizer: str
) -> None:
    """SD 1.5 at its real size, at 256 pixels in fp32."""
    bundle = request(
        resolution=256,
        rank=16,
        batch_size=1,
        checkpointing=checkpointing,
        targets=targets,
        optimizer=optimizer,
    )
    shape = SHAPES["sd1"]()
    assert moving(counted(shape, bundle)) == pytest.approx(real(shape, bundle), rel=0.02)


def test_accumulation_holds_all_gradients_from_the_second_pass_on() -> None:
    shape = SHAPES["pico"]()
    once = counted(shape, request(rank=64))
    twice = counted(shape, request(rank=64, accumulation=2))
    assert once["gradients"] < once["adapter"] == twice["gradients"]
    assert sum(twice.values()) > sum(once.values())
    assert twice["activations"] == pytest.approx(once["activations"], rel=0.01)


def test_plain_attention_is_counted_as_such() -> None:
    """It keeps a matrix of all pairs, so twice the side takes far more than four times as much."""
    shape = SHAPES["pico"]()
    small, large = (
        {k: moving(counted(shape, request(resolution=r), k)) for k in ("math", "efficient")}
        for r in (128, 256)
    )
    assert large["efficient"] < 4.2 * small["efficient"]
    assert large["math"] > 6 * small["math"]


def test_the_optimizers_state_is_counted_for_every_weight() -> None:
    shape = SHAPES["pico"]()
    adamw, adafactor = (counted(shape, request(optimizer=o)) for o in ("adamw", "adafactor"))
    assert adamw["optimizer"] == 2 * adamw["adapter"]
    assert 0 < adafactor["optimizer"] < adafactor["adapter"]


def test_phases_of_a_bundle_are_printed_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = request(sample={"prompts": ["a robot"]})
    assert bundle.base.model == PICO
    write(tmp_path / "b.toml", bundle)
    assert dryrun.main([str(tmp_path / "b.toml"), "--device", "cpu"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["attention"] == "cpu"
    assert [phase["name"] for phase in told["phases"]] == ["caching", "training", "sampling"]
    for phase in told["phases"]:
        assert all(part["gib"] >= 0 for part in phase["parts"])
    training = {part["name"]: part["gib"] for part in told["phases"][1]["parts"]}
    weights = sum(
        p.numel() for p in sizes.unet(SHAPES["pico"]().unet, torch.float32, "meta").parameters()
    )
    assert training["base weights"] == pytest.approx(4 * weights / GIB)


def test_a_bundle_that_cannot_be_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.toml").write_text("schema = 1\n")
    assert dryrun.main([str(tmp_path / "b.toml")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "lorakit: error:" in said.err


@pytest.mark.parametrize(
    ("family", "checkpointing", "expected"),
    [("sd1", "none", 2.4), ("sd1", "full", 1.8)],
)
def test_real_sizes_take_what_was_counted_before(
    family: str, checkpointing: str, expected: float
) -> None:
    bundle = request(family, 512, "attention", 4, checkpointing, precision="bf16", batch_size=1)
    parts = counted(sizes.of(family), bundle, "flash")
    assert sum(parts.values()) / GIB == pytest.approx(expected, abs=0.1)


def test_a_family_that_is_loaded_from_tests_is_the_trainers() -> None:
    assert family_of(request()) is sd1.FAMILY
