from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from lorakit.bundle.models import Bundle
from lorakit.bundle.read import build
from lorakit.dataset.buckets import Fit
from lorakit.dataset.report import DatasetReport, Picture
from lorakit.families.base_model import Extent, inspect, usual
from lorakit.hardware.facts import Accelerator, Hardware, Probe, Speed, TorchBuild, Tried
from lorakit.hardware.files import load
from lorakit.planner.backend import half
from lorakit.planner.estimate import Span, estimate
from lorakit.planner.presets import merge
from lorakit.planner.time import recomputed_shares, step_seconds, total_seconds

MACHINES = sorted((Path(__file__).parents[1] / "data" / "hardware").glob("*.toml"))


def bundle(family: str = "sd1", **tables: Any) -> Bundle:
    head = {
        "schema": 1,
        "name": "x",
        "base": {"family": family, "model": f"somebody/{family}"},
        "dataset": {
            "sources": [{"path": "p"}],
            "resolution": 1024 if family == "sdxl" else 512,
        },
    }
    return build(merge(head, tables))


def card(name: str, capability: tuple[int, int] = (8, 9), **more: Any) -> Hardware:
    made = Accelerator(kind="cuda", name=name, uuid="GPU-1", capability=capability)
    return Hardware(torch=TorchBuild(version="2", cuda="12.8"), accelerators=(made,), **more)


H100, L40S = card("NVIDIA H100 80GB HBM3", (9, 0)), card("NVIDIA L40S")
RTX_4090 = card("NVIDIA GeForce RTX 4090")
CPU = Hardware(cpu_threads=2)


def seconds(machine: Hardware, wanted: Bundle) -> float:
    span = step_seconds(wanted, usual(wanted.base.family), machine)
    assert span is not None
    assert 0 < span.low < span.high
    return span.middle


def pictures(count: int, side: int = 512) -> DatasetReport:
    fit = Fit(width=side, height=side, scale_width=side, scale_height=side, left=0, top=0)
    return DatasetReport(
        pictures=tuple(
            Picture(
                folder="/p", name=f"{n}.png", source=0, repeats=1, width=side,
                height=side, fit=fit, caption=f"dog {n}", caption_name=None, tokens=2, sha256="",
                turned=False,
            )
            for n in range(count)
        )
    )  # fmt: skip


FULL = {"memory": {"checkpointing": "full"}}


@pytest.mark.parametrize(
    ("machine", "family", "published"),
    [
        (H100, "sd1", 0.305 / 0.181),
        (L40S, "sd1", 0.292 / 0.176),
        (H100, "sdxl", 1.080 / 0.606),
        (L40S, "sdxl", 1.029 / 0.585),
    ],
)
def test_checkpointing_costs_what_was_published(
    machine: Hardware, family: str, published: float
) -> None:
    without = seconds(machine, bundle(family))
    with_it = seconds(machine, bundle(family, **FULL))
    assert with_it / without == pytest.approx(published, rel=0.2)


@pytest.mark.parametrize("family", ["sd1", "sdxl"])
@pytest.mark.parametrize("tables", [{}, FULL], ids=["plain", "checkpointing"])
def test_a_step_of_one_picture_takes_as_long_on_an_h100_as_on_an_l40s(
    family: str, tables: dict[str, Any]
) -> None:
    wanted = bundle(family, **tables)
    assert seconds(H100, wanted) == pytest.approx(seconds(L40S, wanted), rel=0.2)


def test_sdxl_takes_over_sd1_what_was_published() -> None:
    ratio = seconds(H100, bundle("sdxl")) / seconds(H100, bundle("sd1"))
    assert ratio == pytest.approx(0.606 / 0.181, rel=0.2)


@pytest.mark.parametrize(
    ("checkpointing", "epochs"),
    # Seconds an epoch by batch, on one RTX 4090.
    [
        ("none", {1: 53, 2: 30, 4: 22, 8: 19, 11: 17, 12: 18}),
        ("full", {1: 74, 2: 42, 5: 27, 14: 23, 20: 23, 30: 23}),
    ],
)
def test_larger_batches_gain_what_was_published(
    checkpointing: str, epochs: dict[int, float]
) -> None:
    def each(size: int) -> float:
        memory = {"checkpointing": checkpointing}
        return seconds(RTX_4090, bundle(memory=memory, train={"batch_size": size})) / size

    first = next(iter(epochs))
    for size, took in epochs.items():
        assert each(size) / each(first) == pytest.approx(took / epochs[first], rel=0.2), size
    # From 12 on there is next to nothing to gain, and from 1 to 4 more than twice.
    assert each(24) / each(12) > 0.95
    assert each(4) / each(1) < 0.5


@pytest.mark.parametrize("machine", [H100, RTX_4090, CPU], ids=["H100", "4090", "CPU"])
@pytest.mark.parametrize("family", ["sd1", "sd2", "sdxl"])
def test_more_work_never_takes_less_time(machine: Hardware, family: str) -> None:
    plain = bundle(family, train={"precision": "fp32"})
    least = seconds(machine, plain)
    for more in (
        {"train": {"batch_size": 2}},
        {"train": {"accumulation": 2}},
        {"train": {"optimizer": "adafactor"}},
        {"adapter": {"rank": 128}},
        {"adapter": {"targets": "linear"}},
        {"dataset": {"resolution": 1536}},
        FULL,
    ):
        tables = merge({"train": {"precision": "fp32"}}, more)
        assert seconds(machine, bundle(family, **tables)) > least, more


def test_a_batch_is_never_slower_than_its_pictures_one_by_one() -> None:
    for machine in (H100, RTX_4090, CPU):
        together = seconds(machine, bundle(train={"batch_size": 4, "precision": "fp32"}))
        in_turn = seconds(machine, bundle(train={"accumulation": 4, "precision": "fp32"}))
        assert together < in_turn


def test_a_measured_speed_wins_over_a_published_one_and_narrows_the_range() -> None:
    speed = Speed(tflops={"fp32": 50, "fp16": 110, "bf16": 110}, bandwidth_gb_s=800, launch_us=8)
    known = dataclasses.replace(RTX_4090, speed=speed)
    there = usual("sd1")
    measured = step_seconds(bundle(), there, known)
    published = step_seconds(bundle(), there, RTX_4090)
    assert measured
    assert published
    assert measured.high / measured.low < published.high / published.low
    assert measured.middle < published.middle  # its host launches faster


def test_blocks_that_recompute_cost_their_share() -> None:
    def taken(checkpointing: str | int) -> float:
        return seconds(H100, bundle("sdxl", memory={"checkpointing": checkpointing}))

    shares = recomputed_shares(bundle("sdxl"), usual("sdxl"))
    assert (shares[0], shares[-1]) == (0.0, pytest.approx(1.0))
    none, some, more, full = (taken(c) for c in ("none", 1, len(shares) // 2, "full"))
    assert none < some < more < full
    assert taken(len(shares) - 1) == pytest.approx(full)


def test_what_a_probe_measured_counts() -> None:
    speed = Speed(tflops={"bf16": 110}, bandwidth_gb_s=800, launch_us=8)
    tried = Tried(kind="cuda", name="NVIDIA GeForce RTX 4090", uuid="GPU-1", speed=speed)
    probed = dataclasses.replace(RTX_4090, probe=Probe(devices=(tried,)))
    kept = dataclasses.replace(RTX_4090, speed=speed)
    there = usual("sd1")
    assert step_seconds(bundle(), there, probed) == step_seconds(bundle(), there, kept)
    assert step_seconds(bundle(), there, probed) != step_seconds(bundle(), there, RTX_4090)


def test_a_precision_that_the_device_lacks_is_not_priced() -> None:
    speed = Speed(tflops={"fp32": 50}, bandwidth_gb_s=800, launch_us=8)
    machine = dataclasses.replace(RTX_4090, speed=speed)
    assert step_seconds(bundle(), usual("sd1"), machine) is None


def test_an_unknown_card_is_judged_by_its_architecture_or_not_at_all() -> None:
    named = step_seconds(bundle(), usual("sd1"), RTX_4090)
    guessed = step_seconds(bundle(), usual("sd1"), card("NVIDIA Something New", (8, 9)))
    assert named
    assert guessed
    assert guessed.high / guessed.low > named.high / named.low
    unknown = Accelerator(kind="cuda", name="Something")
    machine = Hardware(torch=TorchBuild(version="2", cuda="13.0"), accelerators=(unknown,))
    assert step_seconds(bundle(), usual("sd1"), machine) is None
    assert estimate(bundle(), None, None, machine).step_seconds is None


def test_a_base_of_another_size_is_not_priced() -> None:
    odd = dataclasses.replace(
        usual("sd1"), extents={"attention": Extent(layers=8, weights_a_rank=1000)}
    )
    assert step_seconds(bundle(), odd, H100) is None


def test_a_part_of_a_card_has_its_part_of_the_speed() -> None:
    train = {"batch_size": 32}
    whole = seconds(card("NVIDIA A100-SXM4-80GB", (8, 0)), bundle(train=train))
    part = seconds(card("NVIDIA A100-SXM4-80GB MIG 1g.10gb", (8, 0)), bundle(train=train))
    assert part / whole == pytest.approx(7.4, abs=0.6)


def test_the_whole_training_holds_steps_samples_and_caching() -> None:
    there, shown = usual("sd1"), {"prompts": ("a dog",), "every": 100}
    plain = bundle(train={"steps": 1000})
    step = step_seconds(plain, there, RTX_4090)
    few = total_seconds(plain, there, pictures(10), RTX_4090)
    many = total_seconds(plain, there, pictures(1000), RTX_4090)
    drawn = total_seconds(
        bundle(train={"steps": 1000}, sample=shown), there, pictures(10), RTX_4090
    )
    assert step
    assert few
    assert many
    assert drawn
    assert few.low > 1000 * step.low
    assert many.high > few.high
    assert many.low == few.low
    assert drawn.low > few.low
    assert total_seconds(plain, there, None, RTX_4090) is None


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
@pytest.mark.parametrize("family", ["sd1", "sdxl"])
def test_every_machine_gets_sane_numbers(path: Path, family: str) -> None:
    machine, there = load(path), usual(family)
    precision = "fp32" if machine.accelerator is None else "fp16"
    made = estimate(bundle(family, train={"precision": precision}), there, pictures(20), machine)
    step = made.step_seconds
    assert step is not None
    assert made.total_seconds is not None
    assert 0.02 < step.middle < (300 if machine.accelerator is None else 20)
    assert 1 < step.high / step.low < 10
    assert made.total_seconds.low > 1500 * step.low
    assert made.disk_bytes
    assert 10**7 < made.disk_bytes < 10**10


@pytest.mark.parametrize(
    ("name", "family", "tables", "published"),
    [
        ("h100", "sd1", {}, 0.181),
        ("h100", "sd1", FULL, 0.305),
        ("h100", "sdxl", {}, 0.606),
        ("h100", "sdxl", FULL, 1.080),
        ("l40s", "sd1", {}, 0.176),
        ("l40s", "sd1", FULL, 0.292),
        ("l40s", "sdxl", {}, 0.585),
        ("l40s", "sdxl", FULL, 1.029),
    ],
)
def test_a_machine_file_foretells_what_was_published(
    name: str, family: str, tables: dict[str, Any], published: float
) -> None:
    machine = load(MACHINES[0].parent / f"{name}.toml")
    assert seconds(machine, bundle(family, **tables)) == pytest.approx(published, rel=0.2)


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
@pytest.mark.parametrize("family", ["sd1", "sdxl"])
def test_what_a_machine_file_measured_is_near_the_data_sheet(path: Path, family: str) -> None:
    machine = load(path)
    if machine.accelerator is None:
        return
    wanted = bundle(family, train={"precision": half(machine)})
    sheet = step_seconds(
        wanted, usual(family), dataclasses.replace(machine, probe=None, speed=None)
    )
    assert sheet
    assert sheet.low < seconds(machine, wanted) < sheet.high


def test_pico_on_a_cpu_takes_well_below_a_second() -> None:
    wanted = build(
        {
            "schema": 1, "name": "x", "dataset": {"sources": [{"path": "p"}], "resolution": 64},
            "train": {"precision": "fp32", "batch_size": 4},
        }
    )  # fmt: skip
    span = step_seconds(wanted, inspect(wanted.base, Path()), CPU)
    assert span is not None
    assert 0.01 < span.middle < 1


def test_adafactor_at_a_high_rank_is_as_fast_as_was_measured() -> None:
    """pico, all linear layers, rank 256, on one thread: 123 ms a step."""
    wanted = bundle(
        base={"family": "sd1", "model": "pico"},
        dataset={"resolution": 64},
        adapter={"rank": 256, "targets": "linear"},
        train={"precision": "fp32", "optimizer": "adafactor"},
    )
    speed = Speed(tflops={"fp32": 0.17}, bandwidth_gb_s=28, launch_us=8.4)
    span = step_seconds(wanted, inspect(wanted.base, Path()), dataclasses.replace(CPU, speed=speed))
    assert span is not None
    assert span.middle == pytest.approx(0.123, rel=0.25)


def test_the_program_is_in_the_memory_of_a_cpu_alone() -> None:
    def names(machine: Hardware) -> set[str]:
        made = estimate(bundle(train={"precision": "fp32"}), usual("sd1"), None, machine)
        return {part.name for phase in made.phases for part in phase.parts}

    assert "program" in names(CPU)
    assert "base weights" in names(RTX_4090)
    assert "program" not in names(RTX_4090)


def test_the_middle_of_a_span_is_by_ratio() -> None:
    assert Span(low=1, high=4).middle == 2
