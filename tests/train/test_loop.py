"""The whole training on a small random model: what comes out, and how it ends."""

from __future__ import annotations

import json
import math
import os
import signal
import struct
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from trainings import Watched, changed, trained, watched

from lorakit.bundle.models import Bundle
from lorakit.bundle.write import write
from lorakit.cache import shards
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs import checkpoints as checkpoint
from lorakit.runs.events import FILE, Event, Finished, Log, Noted, Requested, Saved, Stepped, decode

QUICK = {("bf16", "adamw"), ("fp32", "adafactor")}
"""What the fast tests hold of precisions and optimizers; others train in other tests."""


@pytest.fixture
def log(tmp_path: Path) -> Watched:
    (tmp_path / "run").mkdir()
    return Watched(tmp_path / "run" / FILE)


@pytest.fixture
def run(log: Watched, tmp_path: Path) -> Path:
    return tmp_path / "run"


def losses(log: Watched) -> list[float | None]:
    return [loss for e in log.of(Stepped) for loss in e.losses]


def test_a_run_leaves_what_its_readers_load(
    bundle: Bundle, finished: tuple[Finished, Path, list[Event]], tiny_base: Path
) -> None:
    from diffusers import StableDiffusionPipeline

    ended, run, said = finished
    assert (ended.outcome, ended.step, ended.exit_code) == ("done", 6, 0)
    assert ended.files == [
        "tiny.safetensors",
        "tiny.diffusers.safetensors",
        "samples/before-after.png",
        "samples/sheet.png",
    ]
    assert sum(len(e.losses) for e in said if isinstance(e, Stepped)) == 6
    own = np.asarray(Image.open(run / "samples/000006-1.png"), dtype=float) / 255
    before = np.asarray(Image.open(run / "samples/000000-1.png"), dtype=float) / 255
    assert np.abs(own - before).max() > 0.01

    for name in ended.files[:2]:
        pipe = StableDiffusionPipeline.from_pretrained(tiny_base, local_files_only=True)
        pipe.load_lora_weights(run / name)
        [picture] = pipe(
            "a yellow circle",
            num_inference_steps=bundle.sample.steps,
            guidance_scale=bundle.sample.guidance,
            generator=torch.Generator().manual_seed(bundle.sample.seed),
            width=bundle.dataset.resolution,
            height=bundle.dataset.resolution,
        ).images
        assert np.abs(np.asarray(picture, dtype=float) / 255 - own).max() <= 1 / 255 + 1e-9


def test_twice_the_same_run_is_the_same_adapter(
    bundle: Bundle, tmp_path: Path, fresh_cache: Path
) -> None:
    """With an empty cache and with a full one; and another seed is another adapter."""
    digests = []
    for number, seed in enumerate((1, 1, 2)):
        run = tmp_path / f"run-{number}"
        run.mkdir()
        seeded = changed(bundle, train={"seed": seed})
        digests.append(trained(seeded, run, Log(run / FILE)).digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("precision", "optimizer"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in product(("fp32", "fp16", "bf16"), ("adamw", "adafactor"))
    ],
)
def test_every_precision_and_optimizer_trains(
    bundle: Bundle, run: Path, log: Watched, precision: str, optimizer: str
) -> None:
    wanted = changed(bundle, train={"precision": precision, "optimizer": optimizer, "steps": 4})
    trained(wanted, run, log)
    found = load_file(run / "tiny.safetensors")
    assert all(t.dtype == torch.float32 and torch.isfinite(t).all() for t in found.values())
    assert all(isinstance(loss, float) for loss in losses(log))


def test_v_prediction_and_all_the_loss_options(
    bundle: Bundle, run: Path, log: Watched, tiny_v_base: Path
) -> None:
    wanted = changed(
        bundle,
        base={"model": str(tiny_v_base)},
        loss={"snr_gamma": 5.0, "noise_offset": 0.1},
        memory={"checkpointing": "full"},
        train={"accumulation": 3, "steps": 4},
    )
    assert trained(wanted, run, log).outcome == "done"
    assert all(isinstance(loss, float) for loss in losses(log))
    header = (run / "tiny.safetensors").read_bytes()[:20_000]
    assert b'"modelspec.prediction_type":"v"' in header


def test_a_stop_finishes_the_step_and_saves(bundle: Bundle, run: Path, log: Watched) -> None:
    control = run / "control"
    control.mkdir()

    def stop_at_the_first_checkpoint(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 2:
            (control / "stop").write_text(json.dumps({"by": "ann@there"}))

    log.reactions.append(stop_at_the_first_checkpoint)
    finished = trained(changed(bundle, train={"steps": 1000}), run, log)
    assert finished.outcome == "stopped"
    assert 2 < finished.step < 1000
    assert finished.step in checkpoint.complete(run)
    assert (run / finished.files[0]).is_file()
    assert [(r.what, r.by) for r in log.of(Requested)] == [("stop", "ann@there")]
    assert not (control / "stop").exists()


def test_requests_to_save_and_sample_are_honoured(drawing: Bundle, run: Path, log: Watched) -> None:
    control = run / "control"
    control.mkdir()
    (control / "save").write_text('{"by": "ann@there"}')
    (control / "sample").write_text("not json")
    wanted = changed(drawing, train={"steps": 2}, save={"every": 0}, sample={"every": 0})
    trained(wanted, run, log)
    assert {(r.what, r.by) for r in log.of(Requested)} == {("save", "ann@there"), ("sample", "")}
    assert checkpoint.complete(run) == [1]
    assert (run / "samples/000001-2.png").is_file()


def test_old_checkpoints_go_and_each_is_complete(bundle: Bundle, run: Path, log: Watched) -> None:
    trained(changed(bundle, train={"steps": 9}), run, log)
    assert checkpoint.complete(run) == [8, 9]  # every 2 and the last, keep 2
    folder = run / "checkpoints" / "step-000009"
    state = json.loads((folder / "state.json").read_text())
    seen = sum(e.images for e in log.of(Stepped))
    assert (state["step"], state["steps"], state["images"]) == (9, 9, seen)
    assert not any(f.name.startswith(".") for f in (run / "checkpoints").iterdir())


def test_a_loss_that_stays_not_finite_ends_the_run(
    bundle: Bundle, run: Path, log: Watched, fresh_cache: Path
) -> None:
    """One poisoned picture of five is skipped each time; five poisoned ones stop the run."""
    trained(changed(bundle, train={"steps": 1}), run, log)
    [shard] = (fresh_cache / "latents").rglob("*.safetensors")
    told, data = shards.header(shard)
    means = [data + v["data_offsets"][0] for k, v in told.items() if k.endswith(".mean")]
    assert len(means) == 5
    wanted = changed(bundle, train={"steps": 20, "batch_size": 1})

    def poison(place: int) -> None:
        with shard.open("r+b") as file:
            file.seek(place)
            file.write(struct.pack("<f", math.nan))

    poison(means[0])
    one = watched(run / "one")
    assert trained(wanted, run / "one", one).step == 20
    assert losses(one).count(None) == 4  # once in each of four epochs

    for place in means[1:]:
        poison(place)
    every = watched(run / "every")
    with pytest.raises(LorakitError, match=r"5 steps in a row.*never finite") as failure:
        trained(wanted, run / "every", every)
    assert failure.value.code == ExitCode.TRAINING_FAILED
    assert not every.of(Finished)


def test_an_adapter_that_learned_nothing_is_not_written(
    bundle: Bundle, run: Path, log: Watched
) -> None:
    still = changed(bundle, train={"learning_rate": 1e-45})
    with pytest.raises(LorakitError, match="empty"):
        trained(still, run, log)
    assert not list(run.glob("*.safetensors"))


def test_a_sample_that_fails_does_not_end_the_run(drawing: Bundle, run: Path, log: Watched) -> None:
    (run / "samples" / "000003-1.png").mkdir(parents=True)  # in the way
    finished = trained(drawing, run, log)
    assert finished.outcome == "done"
    assert "samples/before-after.png" in finished.files
    assert any("no sample at step 3" in e.text for e in log.of(Noted))


def test_missing_xformers_is_one_sentence(bundle: Bundle, run: Path, log: Watched) -> None:
    with pytest.raises(LorakitError, match="xformers cannot be used here"):
        trained(changed(bundle, memory={"attention": "xformers"}), run, log)


def worker(run: Path, bundle: Bundle, **options: object) -> subprocess.Popen[str]:
    """The trainer as it is started for real."""
    run.mkdir(exist_ok=True)
    write(run / "bundle.toml", bundle)
    return subprocess.Popen(
        [sys.executable, "-m", "lorakit.train.worker", str(run)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options,
    )  # fmt: skip


def events(run: Path) -> list[Event | None]:
    return [decode(line) for line in (run / FILE).read_text().splitlines()]


@pytest.mark.slow
def test_a_signal_stops_saved_and_no_secret_is_in_any_file(bundle: Bundle, tmp_path: Path) -> None:
    run = tmp_path / "run"
    secret = "hf_" + "planted" * 5
    child = worker(
        run,
        changed(bundle, train={"steps": 100_000}, save={"every": 0}, sample={"every": 0}),
        env={**os.environ, "HF_TOKEN": secret},
    )
    try:
        while not any(
            isinstance(e, Stepped)
            for e in (events(run) if run.exists() and (run / FILE).exists() else [])
        ):
            assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        output, _ = child.communicate(timeout=120)
    finally:
        child.kill()
    assert child.returncode == ExitCode.TERMINATED
    last = events(run)[-1]
    assert isinstance(last, Finished)
    assert (last.outcome, last.exit_code) == ("stopped", ExitCode.TERMINATED)
    assert checkpoint.complete(run) == [last.step]
    assert secret not in output
    for path in run.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert secret.encode() not in content
            if path.suffix == ".safetensors":
                assert str(tmp_path).encode() not in content


@pytest.mark.slow
def test_no_room_for_a_checkpoint_is_said_before_the_first_step(
    bundle: Bundle, tmp_path: Path
) -> None:
    """A limit on file sizes stands for a full disk: the first large write fails."""
    import resource

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    run = tmp_path / "run"
    child = worker(run, bundle, preexec_fn=limited)
    child.communicate(timeout=120)
    assert child.returncode == ExitCode.DATA
    last = events(run)[-1]
    assert "cannot be written" in last.message
    assert not any(isinstance(e, Stepped) for e in events(run))
