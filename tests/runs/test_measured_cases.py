"""A benchmark over a process that measures: what it asks, keeps, and does when that dies."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tomllib
from pathlib import Path

import pytest

from lorakit.bundle.write import tables
from lorakit.errors import LorakitError
from lorakit.families.shipped import ASSETS
from lorakit.hardware.facts import Accelerator, Hardware, TorchBuild
from lorakit.runs import bench, meter
from lorakit.runs.bench import Request, measure
from lorakit.runs.bench_file import Bench, read, write

CARD = Accelerator(
    kind="cuda", name="NVIDIA GeForce RTX 4070 Ti SUPER", uuid="GPU-8a1c", pci="0000:01:00.0",
    architecture="sm_89", memory_total_gib=15.99, memory_free_gib=15.1, capability=(8, 9),
)  # fmt: skip
MACHINE = Hardware(
    system="Linux 6.8.0 x86_64", cpu_name="AMD Ryzen 9 7950X", cpu_threads=16, ram_total_gib=62.6,
    driver="580.95.05", torch=TorchBuild(version="2.11.0+cu128", cuda="12.8"),
    accelerators=(CARD,),
)  # fmt: skip


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that answers as one with a card; returns the file of what it was asked."""
    script = Path(__file__).parents[1] / "meter_stand_in.py"
    monkeypatch.setattr(meter, "METER", (sys.executable, str(script)))
    monkeypatch.setattr(bench, "PATIENCE_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "asked"
    monkeypatch.setenv("METER_LOG", str(log))
    return log


def measured(ranks: tuple[int, ...], resume: bool = False, **options) -> tuple[Bench, int]:
    request = Request(ranks=ranks, **{"attention": ("sdpa",), **options})
    ended = measure(request, MACHINE, None, resume, lambda *_: None)
    assert read(ended.file) == ended.bench  # what is said is what is kept
    return ended.bench, ended.missing


def test_on_a_card_the_published_benchmark_is_repeated_without_a_download(stand_in: Path) -> None:
    found, missing = measured((1, 16), full=True)
    assert missing == 0
    assert found.settings.model_dump() == {
        "base": "sdxl", "family": "sdxl", "weights": "random", "resolution": 1024,
        "batch_size": 1, "precision": "bf16", "targets": "linear", "optimizer": "adafactor",
        "length": "full",
    }  # fmt: skip
    assert found.machine.device == CARD.name
    assert found.machine.memory_gib == 15.99
    assert [round(c.rate or 0, 3) for c in found.cases] == [1.996, 1.938]
    assert stand_in.read_text().split("\n")[:3] == ["start", "1 sdpa none 520", "16 sdpa none 520"]
    text = Path("bench-sdxl.toml").read_text()
    assert CARD.uuid not in text
    assert str(Path.home()) not in text


def test_what_does_not_fit_is_measured_with_checkpointing_and_so_is_what_is_larger(
    stand_in: Path,
) -> None:
    found, _ = measured((32, 64, 90))
    assert [(c.rank, c.checkpointing, c.failure) for c in found.cases] == [
        (32, "none", ""), (64, "full", ""), (90, "full", ""),
    ]  # fmt: skip
    assert stand_in.read_text().split("\n")[:-1] == [
        "start", "32 sdpa none None", "64 sdpa none None", "start", "64 sdpa full None",
        "90 sdpa full None",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rank", "why"),
    [
        (
            100,
            "It does not fit, with checkpointing either: OutOfMemoryError: CUDA out of memory. "
            "Tried to allocate 40.00 MiB.",
        ),
        (101, "The process that measures was killed by SIGSEGV"),
        (106, "It does not fit, with checkpointing either: The process that measures was killed by"
              " SIGKILL, as the system does where memory runs out"),
        (102, "The process that measures gave no answer in 2 seconds; --full waits longer"),
        (103, "The process that measures ended with exit code 1: CUDA error: an illegal memory"
              " access was encountered"),
    ],
)  # fmt: skip
def test_a_case_that_fails_is_written_down_and_the_rest_goes_on(rank: int, why: str) -> None:
    found, missing = measured((1, rank, 110), seconds=3.0)
    one, bad, other = found.cases
    assert missing == 0
    assert one.rate
    assert other.rate
    assert bad.failure == why
    assert bad.rate is None
    assert bad.peak_gib is None


def test_what_the_system_kills_is_tried_with_checkpointing() -> None:
    found, _ = measured((1, 105))
    assert [(c.rank, c.checkpointing, c.failure) for c in found.cases] == [
        (1, "none", ""), (105, "full", ""),
    ]  # fmt: skip


def test_last_words_are_those_of_the_process_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one speaks, and the second dies without a word."""
    speaks = "import sys; print('{}', flush=True); sys.exit(sys.stdin.readline() and 'spoken')"
    silent = "import sys; print('{}', flush=True); sys.exit(sys.stdin.readline() and 3)"
    with meter.Meter(os.environ) as asked:
        for script, said in ((speaks, "1: spoken"), (silent, "3")):
            monkeypatch.setattr(meter, "METER", (sys.executable, "-c", script))
            with pytest.raises(meter.Died) as caught:
                asked.ask({}, 20)
            assert str(caught.value) == f"ended with exit code {said}"


def test_a_kernel_that_is_missing_costs_a_sentence_and_no_new_process(stand_in: Path) -> None:
    found, _ = measured((1, 8), attention=("sdpa", "xformers"))
    assert [c.failure for c in found.cases if c.attention == "xformers"] == [
        "xformers cannot be used here: no module"
    ] * 2
    assert all(c.rate for c in found.cases if c.attention == "sdpa")
    assert stand_in.read_text().count("start") == 1


def test_resuming_keeps_what_was_measured_and_tries_again_what_failed(stand_in: Path) -> None:
    before, _ = measured((1, 101))
    stand_in.unlink()
    after, _ = measured((1, 8, 101), resume=True)
    assert [c.rank for c in after.cases] == [1, 8, 101]
    assert after.cases[0] == before.cases[0]
    asked = stand_in.read_text().split("\n")
    assert "1 sdpa none None" not in asked
    assert "101 sdpa none None" in asked


def test_a_file_that_is_there_is_not_overwritten() -> None:
    measured((1,))
    before = Path("bench-sdxl.toml").read_bytes()
    with pytest.raises(LorakitError, match=r"bench-sdxl\.toml is there already") as caught:
        measured((8,))
    assert "--resume" in caught.value.hint
    assert Path("bench-sdxl.toml").read_bytes() == before


def test_a_file_from_another_machine_or_other_settings_is_not_gone_on_with() -> None:
    found, _ = measured((1,))
    machine = found.machine.model_copy(update={"device": "NVIDIA H200", "memory_gib": 139.8})
    write(found.model_copy(update={"machine": machine}), Path("bench-sdxl.toml"))
    with pytest.raises(LorakitError, match="device NVIDIA H200, now NVIDIA GeForce RTX 4070 Ti"):
        measured((8,), resume=True)
    write(found, Path("bench-sdxl.toml"))
    with pytest.raises(LorakitError, match="length quick, now full"):
        measured((8,), resume=True, full=True)


def test_what_there_is_no_time_for_is_left_for_another_time() -> None:
    found, missing = measured((1, 8, 16), seconds=0.0)
    assert [c.rank for c in found.cases] == [1]
    assert missing == 2
    more, missing = measured((1, 8, 16), resume=True)
    assert [c.rank for c in more.cases] == [1, 8, 16]
    assert missing == 0


def test_ctrl_c_keeps_what_is_done_and_says_what_is_left(stand_in: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        request = Request(ranks=(1, 104, 110), attention=("sdpa",))
        ended = measure(request, MACHINE, None, False, lambda *_: None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.interrupted
    assert ended.missing == 2
    assert ended.file == Path("bench-sdxl.toml")
    assert [c.rank for c in read(ended.file).cases] == [1]
    assert stand_in.read_text().split("\n")[-2] == "104 sdpa none None"


def test_a_file_that_is_shared_names_no_folder_above_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "anna" / "my-sd"
    shutil.copytree(ASSETS / "pico", folder)
    monkeypatch.setenv("HOME", str(tmp_path / "anna"))
    monkeypatch.chdir(folder)
    for name in (".", "~/my-sd", "../my-sd/", str(folder)):
        found, _ = measured((1,), base=name)
        assert found.settings.base == "my-sd"
        assert "anna" not in Path("bench-my-sd.toml").read_text()
        Path("bench-my-sd.toml").unlink()


def test_a_base_that_is_not_here_is_told_before_anything_is_measured(stand_in: Path) -> None:
    with pytest.raises(LorakitError, match="stable-diffusion-v1-5 is not on this machine") as told:
        measured((1,), base="sd1")
    assert "--synthetic" in told.value.hint
    assert not Path("bench-sd1.toml").exists()
    with pytest.raises(LorakitError, match="no file or folder here, and no Hub id"):
        measured((1,), base="sd3")
    assert stand_in.read_text() == "start\nstart\n"


def test_an_installation_that_cannot_measure_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METER_LOG", "broken")
    with pytest.raises(LorakitError, match=r"exit code 1: ModuleNotFoundError: No module named"):
        measured((1,))


def on_card(tflops: float) -> bench.Work:
    speed = {"tflops": {"bf16": tflops}, "bandwidth_gb_s": 600.0, "launch_us": 6.0}
    told = {
        "device": CARD.name, "kind": "cuda", "threads": 8, "precision": "bf16",
        "versions": {"torch": "2"}, "memory": "", "time": "", "speed": speed,
    }  # fmt: skip
    return bench.Work.of(Request(), told, MACHINE)


def test_each_case_is_predicted_from_the_speed_of_this_very_device() -> None:
    slow, fast = (on_card(rate) for rate in (10.0, 80.0))
    assert slow.hardware.speed is not None
    assert slow.hardware.speed.tflops == {"bf16": 10.0}
    told = [w.predicted(w.bundle((16, "sdpa"), "none")) for w in (slow, fast)]
    spans = [t["predicted_step_seconds"] for t in told]
    assert spans[0][0] > spans[1][0] > 0
    assert told[0]["predicted_peak_gib"] == told[1]["predicted_peak_gib"] > 5


def test_it_is_the_recipe_of_the_preset_for_the_published_benchmark() -> None:
    preset = tomllib.loads((Path(__file__).parents[2] / "presets/benchmark-sdxl.toml").read_text())
    work = on_card(80.0)
    told = tables(work.bundle((preset["adapter"]["rank"], "sdpa"), "none"))
    assert told["base"]["model"] == preset["base"]["model"]
    assert told["dataset"]["resolution"] == preset["dataset"]["resolution"]
    for key in ("rank", "alpha", "targets"):
        assert told["adapter"][key] == preset["adapter"][key]
    for key in ("steps", "batch_size", "optimizer", "precision"):
        assert told["train"][key] == preset["train"][key]
    assert told["train"]["accumulation"] == preset["train"].get("accumulation", 1)
    assert told["memory"].items() >= preset["memory"].items()
