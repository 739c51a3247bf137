"""Levelling, and what a measured step is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from lorakit.bundle.models import Bundle
from lorakit.errors import ExitCode, LorakitError
from lorakit.families.base_model import inspect, usual
from lorakit.train import bench, synthetic

ROOT = Path(__file__).parents[2]


class Clock:
    """Time that passes by what is done."""

    def __init__(self, steps: Iterator[float]) -> None:
        self.now = 0.0
        self.done = 0
        self._steps = steps

    def work(self) -> None:
        self.now += next(self._steps)
        self.done += 1

    def __call__(self) -> float:
        return self.now


def levelled(step: Callable[[int], float], seconds: float, steps: int | None = None) -> dict:
    clock = Clock(step(n) for n in range(10**9))
    found = bench.level(clock.work, lambda: None, seconds, steps, clock, clock)
    return {**found, "total": clock.done, "clock": clock.now}


def test_a_speed_that_is_level_ends_the_case_early() -> None:
    found = levelled(lambda n: 0.1, 60)
    assert found["level"]
    assert found["step_seconds"] == pytest.approx(0.1)
    assert found["spread_percent"] == pytest.approx(0, abs=1e-6)
    assert found["clock"] < 4


def test_the_warm_up_does_not_count() -> None:
    found = levelled(lambda n: 5.0 if n < bench.WARM_UP_STEPS - 1 else 0.1, 60)
    assert found["step_seconds"] == pytest.approx(0.1)


def test_a_speed_that_jumps_is_never_level_though_its_medians_agree() -> None:
    found = levelled(lambda n: 0.1 if n // 4 % 3 else 0.2, 20)
    assert found["spread_percent"] > 50
    assert not found["level"]
    assert found["clock"] > 18


def test_a_speed_that_settles_is_waited_for() -> None:
    found = levelled(lambda n: 0.1 * (1 + 2 * 0.85**n), 120)
    assert found["level"]
    assert found["step_seconds"] == pytest.approx(0.1, rel=0.05)


def test_a_speed_that_never_settles_ends_with_its_time_and_says_so() -> None:
    found = levelled(lambda n: 0.1 * 1.02**n, 20)
    assert not found["level"]
    assert 15 < found["clock"] < 26


def test_one_slow_step_among_many_does_not_move_the_result() -> None:
    found = levelled(lambda n: 3.0 if n == 12 else 0.1, 60)
    assert found["step_seconds"] == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 50.0])
def test_a_step_longer_than_the_time_is_done_twice(seconds: float) -> None:
    found = levelled(lambda n: 100.0, seconds)
    assert found["total"] == 2
    assert found["step_seconds"] == pytest.approx(100)
    assert not found["level"]


@pytest.mark.parametrize("each", [0.003, 0.1, 7.0])
def test_with_a_number_of_steps_they_are_all_done_and_no_more(each: float) -> None:
    found = levelled(lambda n: each, 1.0, steps=37)
    assert found["steps"] == 37
    assert found["total"] == 37 + bench.WARM_UP_STEPS
    assert found["step_seconds"] == pytest.approx(each)


def test_time_that_other_programs_take_is_not_the_step_s() -> None:
    """The clock on the wall goes on five times as fast as the thread's own."""
    clock = Clock(iter([0.1] * 10**4))
    wall = lambda: 5 * clock.now  # noqa: E731
    found = bench.level(clock.work, lambda: None, 60, None, clock, wall)
    assert found["step_seconds"] == pytest.approx(0.1)
    assert found["level"]
    endless = Clock(0.1 * 1.02**n for n in range(10**4))
    bench.level(endless.work, lambda: None, 60, None, endless, lambda: 5 * endless.now)
    assert 40 < 5 * endless.now < 80


def tiny(precision: str = "fp32", **memory: str) -> Bundle:
    return Bundle.model_validate(
        {
            "schema": 1,
            "name": "bench",
            "base": {"family": "sd1"},
            "dataset": {"sources": [{"path": "."}], "resolution": 64},
            "adapter": {"rank": 4, "targets": "linear"},
            "train": {"precision": precision, "optimizer": "adafactor"},
            "memory": memory,
        }
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_random_weights_train_to_finite_numbers(precision: str) -> None:
    bundle = tiny(precision)
    base = inspect(bundle.base, Path())
    subject = synthetic.make(bundle, base, torch.device("cpu"), random_weights=True)
    before = [w.detach().clone() for w in subject.model.weights]
    for _ in range(12 if precision == "fp16" else 2):  # the first few are too much for fp16
        subject.step()
    after = subject.model.weights
    assert all(torch.isfinite(w).all() for w in after)
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    frozen = [p for p in subject.unet.parameters() if not p.requires_grad]
    wanted = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    assert {p.dtype for p in frozen} == {wanted}
    assert {w.dtype for w in after} == {torch.float32}


@pytest.mark.slow
def test_checkpointing_takes_less_and_a_higher_rank_more() -> None:
    def peak(rank: int, checkpointing: str) -> int:
        bundle = tiny(checkpointing=checkpointing)
        adapter = bundle.adapter.model_copy(update={"rank": rank})
        bundle = bundle.model_copy(update={"adapter": adapter})
        base = inspect(bundle.base, Path())
        subject = synthetic.make(bundle, base, torch.device("cpu"), random_weights=False)
        subject.step()
        return bench.cpu_peak_bytes(subject)

    plain = peak(4, "none")
    assert peak(4, "full") < 0.8 * plain
    assert peak(128, "none") > 1.5 * plain


def test_a_base_that_is_not_here_needs_random_weights() -> None:
    with pytest.raises(LorakitError, match="owner/name is not on this machine"):
        synthetic.make(
            tiny(), usual("sd1", "owner/name"), torch.device("cpu"), random_weights=False
        )


@pytest.mark.slow
def test_the_process_answers_line_by_line_and_ends_with_its_input(tmp_path: Path) -> None:
    def case(**memory: str) -> str:
        bundle = tiny(**memory).model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps({"bundle": bundle, "synthetic": True, "seconds": 0.2, "steps": None})

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "lorakit.train.bench"],
        input="\n".join([case(), case(attention="xformers"), case(checkpointing="full")]),
        capture_output=True, text=True, timeout=200, check=True, cwd=tmp_path,
    )  # fmt: skip
    machine, plain, missing, full = map(json.loads, ran.stdout.splitlines())
    assert machine["kind"] == "cpu"
    assert machine["precision"] == "fp32"
    assert machine["device"] == "CPU, 1 thread"
    assert machine["speed"]["tflops"]["fp32"] > 0
    assert missing["failure"].startswith("xformers cannot be used here")
    assert "hint" in missing
    assert 0 < full["peak_gib"] < plain["peak_gib"]
    assert plain["step_seconds"] > 0


@pytest.mark.slow
def test_the_dry_run_agrees_with_the_allocator_in_the_benchmark_of_memory(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "examples/benchmarks/memory.py", "--cpu", "--out", "m.json"],
        capture_output=True, text=True, timeout=280, check=True, cwd=tmp_path,
    )  # fmt: skip
    told = json.loads((tmp_path / "m.json").read_text())
    assert len(told["rows"]) == 4
    assert told["left_out"] == 0
    assert told["median_error_percent"] < 1
    assert told["worst_error_percent"] < 2
    assert "% in the median" in ran.stdout


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_without_a_card_the_benchmark_of_memory_says_so(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "examples/benchmarks/memory.py"],
        capture_output=True, text=True, timeout=100, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 3
    assert "finds no card here" in ran.stderr


def test_without_its_packages_the_benchmark_of_memory_names_them(tmp_path: Path) -> None:
    """An interpreter without site-packages has none of them."""
    ran = subprocess.run(
        [sys.executable, "-S", "-I", ROOT / "examples/benchmarks/memory.py"],
        capture_output=True, text=True, timeout=100, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr.startswith("Not installed here: torch, diffusers, transformers, peft,")
    assert "pip install torch diffusers" in ran.stderr


@pytest.mark.slow
def test_the_checks_for_a_card_keep_all_that_was_said_in_one_folder(tmp_path: Path) -> None:
    script = ROOT / "examples/benchmarks/gpu_checks.py"
    ran = subprocess.run(
        [sys.executable, script, "--cpu", "--only", "hardware", "--only", "train-fp32"],
        capture_output=True, text=True, timeout=280, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    told = json.loads((tmp_path / "gpu-checks/checks.json").read_text())
    assert [(one["name"], one["exit_code"]) for one in told] == [("hardware", 0), ("train-fp32", 0)]
    assert (tmp_path / "gpu-checks/machine.toml").is_file()
    said = (tmp_path / "gpu-checks/train-fp32.txt").read_text()
    assert said.startswith("$ python -m lorakit train")
    assert "robots-fp32.safetensors" in said


@pytest.mark.slow
def test_no_measuring_goes_on_for_nobody(tmp_path: Path) -> None:
    """More steps than anybody waits for, and who asked is gone, as with a closed terminal."""
    bundle = tiny().model_dump(mode="json", by_alias=True, exclude_none=True)
    case = {"bundle": bundle, "synthetic": True, "seconds": 9e9, "steps": 10**9}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "lorakit.train.bench"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
    ) as measuring:  # fmt: skip
        assert measuring.stdin is not None
        assert measuring.stdout is not None
        assert json.loads(measuring.stdout.readline())["kind"]
        measuring.stdin.write(json.dumps(case) + "\n")
        measuring.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            measuring.wait(3)
        measuring.stdout.close()
        try:
            assert measuring.wait(20) == ExitCode.TRAINING_FAILED
        finally:
            measuring.kill()
