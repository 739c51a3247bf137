"""One step, counted three ways; and what a step does to the weights."""

from __future__ import annotations

import pytest
import torch
from diffusers import UNet2DConditionModel

from lorakit.bundle.models import Adapter, Train
from lorakit.train import checkpointing as checkpointed
from lorakit.train import memory, optim
from lorakit.train.adapters import lora
from lorakit.train.families import sd1, sdxl
from lorakit.train.objective import Objective
from lorakit.train.step import DTYPES, Batch, Conditions, Model, step

FAMILY = {"sd1": sd1.FAMILY, "sdxl": sdxl.FAMILY}


def made(
    device: str,
    precision: str = "fp32",
    checkpointing: bool = False,
    optimizer: str = "adamw",
    targets: str = "linear",
    config: dict | None = None,
    batch: int = 2,
    side: int = 8,
    family: str = "sd1",
    rank: int = 4,
) -> tuple[UNet2DConditionModel, Model, Batch]:
    """A random UNet with an adapter, and one prepared batch, on a device."""
    torch.manual_seed(0)
    made = FAMILY[family]
    config = config or made.tiny()
    dtype = DTYPES[precision]
    with torch.device(device):
        unet = UNet2DConditionModel(**config)
    for weight in unet.parameters():
        weight.data = weight.data.to(dtype)
    if checkpointing:
        checkpointed.apply(unet, "full", targets)
    adapter = Adapter(rank=rank, alpha=4.0, targets=targets)
    weights = lora.attach(unet, made.facts, adapter, seed=1)
    train = Train(optimizer=optimizer, precision=precision, learning_rate=1e-2)
    model = Model(
        made.predictor(unet, dtype),
        weights,
        Objective.of(torch.linspace(0.999, 0.005, 1000, device=device), "epsilon", 5.0),
        optim.optimizer(train, weights),
        torch.amp.GradScaler("cpu", enabled=precision == "fp16"),
        1.0,
    )
    shape = (batch, 4, side, side)
    return (
        unet,
        model,
        Batch(
            torch.randn(shape, device=device),
            torch.randn(shape, device=device),
            torch.arange(batch, device=device) * 150,
            conditions(config, batch, device, dtype),
        ),
    )


def conditions(config: dict, batch: int, device: str, dtype: torch.dtype) -> Conditions:
    """Random texts, and for SDXL vectors and sizes."""
    hidden = torch.randn(batch, 77, config["cross_attention_dim"], device=device).to(dtype)
    if "addition_embed_type" not in config:
        return Conditions(hidden)
    inner = config["addition_time_embed_dim"]
    width = config["projection_class_embeddings_input_dim"] - 6 * inner
    pooled = torch.randn(batch, width, device=device).to(dtype)
    return Conditions(hidden, pooled, torch.full((batch, 6), 64.0, device=device))


def resident(unet: torch.nn.Module, model: Model, batch: Batch) -> list[torch.Tensor]:
    tables = (model.objective.signal, model.objective.noise, model.objective.weights)
    told = (batch.conditions.hidden, batch.conditions.pooled, batch.conditions.sizes)
    inputs = (batch.latents, batch.noise, batch.timesteps, *(t for t in told if t is not None))
    return [*unet.parameters(), *unet.buffers(), *tables, *inputs]


def counted(device: str, **options) -> tuple[memory.Count, int]:
    """What the dispatch mode counts in one step, and what was there before."""
    unet, model, batch = made(device, **options)
    held = resident(unet, model, batch)
    with memory.attention_of("cpu"):
        before = memory.count(lambda: None, held).alive
        return memory.count(lambda: step(model, [batch]), held), before


@pytest.mark.parametrize("optimizer", ["adamw", pytest.param("adafactor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("checkpointing", [False, True], ids=["plain", "checkpointing"])
@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", ["sd1", pytest.param("sdxl", marks=pytest.mark.slow)])
def test_three_counters_agree(
    family: str, precision: str, checkpointing: bool, optimizer: str
) -> None:
    options = {
        "family": family,
        "precision": precision,
        "checkpointing": checkpointing,
        "optimizer": optimizer,
    }
    meta, there = counted("meta", **options)
    real, here = counted("cpu", **options)
    _, model, batch = made("cpu", **options)
    allocator = memory.count_allocator(lambda: step(model, [batch]))

    assert there == here
    scalars = 64  # bytes; a loss and the optimizers' step counts
    assert abs(meta.alive - real.alive) <= scalars
    assert abs((real.alive - here) - allocator.alive) <= scalars
    # AdamW is fused on the CPU and not on meta, which shows where the peak lies in it;
    # bf16 group norms keep their statistics in fp32 on one device and in bf16 on the other.
    assert meta.peak == pytest.approx(real.peak, rel=0.005 if precision == "fp32" else 0.01)
    # The allocator also sees scratch memory inside the kernels, and never less than the tensors.
    step_peak = real.peak - here
    assert step_peak <= allocator.peak <= step_peak * 1.35


def test_the_counter_sees_what_attention_keeps() -> None:
    with_fused, _ = counted("meta", side=32, batch=1)
    unet, model, batch = made("meta", side=32, batch=1)
    plain = memory.count(lambda: step(model, [batch]), resident(unet, model, batch))
    assert with_fused.peak < plain.peak  # the plain path keeps a matrix of all pairs


def test_views_count_once_and_freed_tensors_do_not_count() -> None:
    def work() -> torch.Tensor:
        a = torch.zeros(1000)
        b = a.view(10, 100)[2:]
        del a
        torch.zeros(500)
        return b

    seen = memory.count(work)
    assert seen.alive == 4000
    assert seen.peak == 6000


@pytest.mark.slow
def test_what_is_known_from_an_earlier_time_counts_the_same() -> None:
    """Sizes of results on meta are remembered, and some views are called something else."""

    def work(query: torch.Tensor) -> torch.Tensor:
        made = torch.nn.functional.scaled_dot_product_attention(query, query, query)
        pieces = torch.split(made, 2) + tuple(torch.ops.aten.split_with_sizes_copy(made, [1, 2]))
        return torch.cat([p.transpose(0, 1) for p in pieces], dim=1).sum(-1)

    def counted() -> tuple[memory.Count, torch.Size, tuple[int, ...]]:
        query = torch.zeros(3, 5, 7, 11, device="meta", dtype=torch.bfloat16)
        made = memory.count(lambda: work(query), [query])
        return made, (out := work(query)).shape, out.stride()

    memory._METADATA.clear()
    first = counted()
    assert memory._METADATA
    assert counted() == first


def test_sd15_on_meta_is_what_was_measured_before() -> None:
    """2.4 and 1.8 GiB: SD 1.5 at 512, batch 1, bf16, rank 4 on attention."""
    peaks = []
    for checkpointing in (False, True):
        unet, model, batch = made(
            "meta",
            "bf16",
            checkpointing,
            targets="attention",
            config=FAMILY["sd1"].real(),
            batch=1,
            side=64,
        )
        with memory.attention_of("flash"):
            seen = memory.count(lambda: step(model, [batch]), resident(unet, model, batch))  # noqa: B023
        peaks.append(seen.peak / 2**30)
    assert peaks == [pytest.approx(2.4, abs=0.1), pytest.approx(1.8, abs=0.1)]


@pytest.mark.slow
def test_sdxl_on_meta_is_what_was_measured_before() -> None:
    """10.2 and 5.4 GiB: SDXL at 1024, batch 1, bf16, rank 16 on attention."""
    peaks = []
    for checkpointing in (False, True):
        unet, model, batch = made(
            "meta",
            "bf16",
            checkpointing,
            targets="attention",
            config=FAMILY["sdxl"].real(),
            batch=1,
            side=128,
            family="sdxl",
            rank=16,
        )
        with memory.attention_of("flash"):
            seen = memory.count(lambda: step(model, [batch]), resident(unet, model, batch))  # noqa: B023
        peaks.append(seen.peak / 2**30)
    assert peaks == [pytest.approx(10.2, abs=0.1), pytest.approx(5.4, abs=0.1)]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_weights_are_fp32_and_move(precision: str) -> None:
    _, model, batch = made("cpu", precision)
    before = [w.detach().clone() for w in model.weights]
    for _ in range(3):  # the up matrices are zero first, so the down ones move from step 2 on
        loss = step(model, [batch])
    assert loss.dtype == torch.float32
    assert all(w.dtype == torch.float32 for w in model.weights)
    assert all(not torch.equal(a, b) for a, b in zip(before, model.weights, strict=True))


@pytest.mark.parametrize("optimizer", ["adamw", "adafactor"])
@pytest.mark.parametrize("first", [True, False], ids=["first step", "later step"])
def test_a_step_that_is_not_finite_changes_nothing(optimizer: str, first: bool) -> None:
    _, model, batch = made("cpu", optimizer=optimizer)
    if not first:
        step(model, [batch])
    before = [w.detach().clone() for w in model.weights]
    bad = Batch(batch.latents * torch.nan, batch.noise, batch.timesteps, batch.conditions)
    assert not torch.isfinite(step(model, [bad]))
    assert all(torch.equal(a, b) for a, b in zip(before, model.weights, strict=True))
    assert torch.isfinite(step(model, [batch]))
    assert all(torch.isfinite(w).all() for w in model.weights)
    assert any(not torch.equal(a, b) for a, b in zip(before, model.weights, strict=True))


def descending(model: Model, clip: float) -> Model:
    """The same model under plain gradient descent, whose update is the gradient itself."""
    plain = torch.optim.SGD(model.weights, lr=1.0)
    return Model(model.predict, model.weights, model.objective, plain, model.scaler, clip)


def test_accumulation_equals_one_large_batch() -> None:
    """Also where the last batch of a step is a short one."""
    _, whole, batch = made("cpu", batch=5)
    whole = descending(whole, 0)
    step(whole, [batch])
    _, parts, same = made("cpu", batch=5)
    parts = descending(parts, 0)
    cut = [
        Batch(
            *(t[a:b] for t in (same.latents, same.noise, same.timesteps)),
            Conditions(same.conditions.hidden[a:b]),
        )
        for a, b in ((0, 2), (2, 4), (4, 5))
    ]
    step(parts, cut)
    for a, b in zip(whole.weights, parts.weights, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_clipping_clips() -> None:
    """With plain gradient descent a step's length is the clipped norm times the rate."""
    _, model, batch = made("cpu")
    plain = descending(model, 1e-3)
    before = torch.cat([w.detach().flatten().clone() for w in model.weights])
    step(plain, [batch])
    after = torch.cat([w.detach().flatten() for w in model.weights])
    assert (after - before).norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_the_branch_is_computed_without_a_copy_of_its_input() -> None:
    """Plain PEFT keeps an fp32 copy of each layer's input; casting the matrices keeps none."""
    unet, model, batch = made("meta", "bf16")
    lean = memory.count(lambda: step(model, [batch]), resident(unet, model, batch)).peak
    unet, model, batch = made("meta", "bf16")
    for layer in lora.layers(unet).values():
        layer.cast_input_dtype_enabled = True
    plain = memory.count(lambda: step(model, [batch]), resident(unet, model, batch)).peak
    assert lean < plain


def test_nothing_travels_to_the_host() -> None:
    """On meta a value cannot be read at all: a step that runs there reads none."""
    for optimizer in ("adamw", "adafactor"):
        _, model, batch = made("meta", optimizer=optimizer)
        step(model, [batch])
