"""A training that was stopped or killed and gone on with is the one that was not."""

from __future__ import annotations

import errno
import json
import os
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from trainings import changed, trained, watched

from lorakit import durable
from lorakit.bundle.diff import promise
from lorakit.bundle.models import Bundle
from lorakit.bundle.read import parse, read
from lorakit.bundle.write import write
from lorakit.errors import ExitCode, LorakitError
from lorakit.runs import checkpoints
from lorakit.runs.directory import Run
from lorakit.runs.events import (
    Event,
    Finished,
    Noted,
    Resumed,
    Sampled,
    Saved,
    SaveFailed,
    Stepped,
)
from lorakit.runs.resume import adopt
from lorakit.runs.state import replay
from lorakit.train import draw, loop
from lorakit.train.adapters import files
from lorakit.train.batches import Batches

Ended = tuple[Finished, Path, list[Event]]


class Step(NamedTuple):
    """What one step saw and did."""

    pictures: tuple[tuple[int, ...], ...]
    learning_rate: float
    loss: float


class Recorder:
    """Writes down every step of the trainings in this process, and can ask for a stop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[Step] = []
        self.stop_after: dict[int, Path] = {}
        self._pictures: tuple[tuple[int, ...], ...] = ()
        self._number = 0
        real_step, real_of = loop.step, Batches.of

        def of(batches: Batches, number: int) -> Any:
            picks = batches.plan.picks(number, batches._accumulation)
            self._pictures, self._number = tuple(p.indices for p in picks), number
            return real_of(batches, number)

        def step(model: Any, batches: Any) -> torch.Tensor:
            rate = model.optimizer.param_groups[0]["lr"]
            assert {w.dtype for w in model.weights} == {torch.float32}
            loss = real_step(model, batches)
            self.steps.append(Step(self._pictures, rate, loss.item()))
            if self._number in self.stop_after:
                (self.stop_after.pop(self._number) / "control" / "stop").write_text("{}")
            return loss

        monkeypatch.setattr(Batches, "of", of)
        monkeypatch.setattr(loop, "step", step)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


@pytest.mark.parametrize(
    ("accumulation", "precision", "optimizer", "stops"),
    [
        (2, "fp16", "adafactor", (2, 4, 5)),
        *(
            pytest.param(*case, (10, 25, 30), marks=pytest.mark.slow)
            for case in product((1, 4), ("fp32", "bf16", "fp16"), ("adamw", "adafactor"))
        ),
    ],
)
def test_stopped_twice_is_the_straight_run(
    bundle: Bundle,
    tmp_path: Path,
    recorder: Recorder,
    accumulation: int,
    precision: str,
    optimizer: str,
    stops: tuple[int, int, int],
) -> None:
    """Stopped twice and gone on with to the end: the same pictures, learning rates, losses and
    adapter. The pictures are of several sizes and so in several buckets."""
    first, second, last = stops
    train = {
        "steps": last,
        "accumulation": accumulation,
        "precision": precision,
        "optimizer": optimizer,
        "learning_rate": 1e-3,
    }
    wanted = changed(bundle, train=train, sample={"prompts": []}, save={"every": 3})
    straight = trained(wanted, tmp_path / "straight", watched(tmp_path / "straight"))
    expected, recorder.steps = recorder.steps, []

    run = tmp_path / "broken"
    log = watched(run)
    ends: list[Finished] = []
    for stop in stops:
        if stop < last:
            recorder.stop_after[stop] = run
        ends.append(trained(wanted, run, log))
        log.append(ends[-1])
    outcomes = [("stopped", first), ("stopped", second), ("done", last)]
    assert [(e.outcome, e.step) for e in ends] == outcomes
    assert [e.step for e in log.of(Resumed)] == [first, second]
    assert recorder.steps == expected
    assert ends[-1].digest == straight.digest
    assert len({size for step in expected for size in map(len, step.pictures)}) > 1

    def counters(of: Path) -> dict[str, Any]:
        return json.loads((of / "checkpoints" / f"step-{last:06d}" / "state.json").read_text())

    assert counters(run) == counters(tmp_path / "straight")
    state = replay(log.events)
    assert state.step == last
    assert state.course.counted == last


def test_a_checkpoint_that_is_damaged_is_skipped_and_its_steps_are_done_again(
    bundle: Bundle, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    short = changed(bundle, train={"schedule": "constant", "steps": 6})
    expected = trained(short, tmp_path / "constant", watched(tmp_path / "constant")).digest
    trained(changed(short, train={"steps": 4}), run, watched(run))
    assert checkpoints.complete(run) == [2, 4]
    file = run / "checkpoints" / "step-000004" / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    log = watched(run)
    assert trained(short, run, log).digest == expected
    assert [e.step for e in log.of(Resumed)] == [2]
    assert any(
        "step-000004: optimizer.safetensors is damaged" in e.text and e.level == "warning"
        for e in log.of(Noted)
    )
    assert checkpoints.complete(run) == [4, 6]


def test_more_steps_say_how_the_schedule_is_read(drawing: Bundle, finished: Ended) -> None:
    _, run, _ = finished
    drawn = (run / "samples" / "000006-1.png").stat().st_mtime_ns
    log = watched(run)
    more = trained(changed(drawing, train={"steps": 9}), run, log)
    assert (more.outcome, more.step) == ("done", 9)
    [said] = [e.text for e in log.of(Noted) if "schedule" in e.text]
    assert "the cosine schedule now runs over 9 steps, not 6" in said
    assert "1.00e-02" not in said
    assert [e.step for e in log.of(Sampled)] == [9]
    assert (run / "samples" / "000006-1.png").stat().st_mtime_ns == drawn

    with pytest.raises(LorakitError, match="is at step 9 already, and 8 are asked for"):
        trained(changed(drawing, train={"steps": 8}), run, watched(run))


def test_a_finished_run_that_is_started_again_only_writes_its_files(
    drawing: Bundle, finished: Ended, recorder: Recorder
) -> None:
    first, run, _ = finished
    for name in first.files[:2]:
        (run / name).unlink()
    again = trained(drawing, run, watched(run))
    assert (again.digest, again.files, recorder.steps) == (first.digest, first.files, [])


def test_another_adapter_is_named_with_both_values(bundle: Bundle, finished: Ended) -> None:
    _, run, _ = finished
    for adapter, words in (
        ({"rank": 8}, r"of shape \[4, 16\] .*checkpoints?.*of shape \[8, 16\]"),
        ({"alpha": 3.0}, r"is 2 in its adapter.safetensors, and 3 by the bundle"),
        ({"targets": "attention"}, r"and missing by the bundle"),
    ):
        with pytest.raises(LorakitError) as failure:
            trained(changed(bundle, adapter=adapter), run, watched(run))
        assert failure.value.code == ExitCode.DATA
        if "rank" not in adapter:
            assert failure.match(words)
        else:
            assert "[4, " in failure.value.message
            assert "[8, " in failure.value.message


def test_the_optimizer_holds_the_weights_that_the_model_uses(
    bundle: Bundle, tmp_path: Path
) -> None:
    """What is saved after going on differs from what was gone on from, in every tensor."""
    run = tmp_path / "run"
    wanted = changed(bundle, save={"every": 3, "keep": 9}, train={"schedule": "constant"})
    trained(changed(wanted, train={"steps": 3}), run, watched(run))
    trained(wanted, run, watched(run))
    before, after = (
        load_file(run / "checkpoints" / name / "adapter.safetensors")
        for name in ("step-000003", "step-000006")
    )
    still = [k for k in before if not k.endswith("alpha") and torch.equal(before[k], after[k])]
    assert still == []


@pytest.mark.parametrize(
    "number",
    [
        errno.ENOSPC,
        pytest.param(errno.EDQUOT, marks=pytest.mark.slow),
        pytest.param(errno.EROFS, marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_tried_again(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The disk refuses the second of four: the first one stays, the next are written, the run ends
    with an exit code that tells."""
    run = tmp_path / "run"
    log = watched(run)
    real = files.write

    def write(path: Path, *rest: Any) -> int:
        if ".step-000004" in str(path) and "optimizer" in path.name:
            path.write_bytes(b"half")
            raise OSError(number, os.strerror(number))
        return real(path, *rest)

    there: list[list[int]] = []

    def look(event: Event) -> None:
        if isinstance(event, SaveFailed):
            there.append(checkpoints.complete(run))
            assert not durable.leftovers(run / checkpoints.FOLDER)

    monkeypatch.setattr(files, "write", write)
    log.reactions.append(look)
    finished = trained(changed(bundle, save={"keep": 1}, train={"steps": 8}), run, log)
    assert (finished.outcome, finished.exit_code) == ("done", ExitCode.DATA)
    assert [(e.step, e.reason) for e in log.of(SaveFailed)] == [(4, os.strerror(number))]
    assert there == [[2]]
    assert [e.step for e in log.of(Saved)][:3] == [2, 6, 8]
    assert (run / "tiny.safetensors").is_file()
    state = replay(log.events)
    assert (state.course.unsaved, state.course.unsaved_count) == (None, 1)


def test_a_damaged_checkpoint_beyond_is_put_aside_and_written_anew(
    bundle: Bundle, tmp_path: Path
) -> None:
    """Of the right size but not the right bytes; only one checkpoint is kept."""
    run = tmp_path / "run"
    wanted = changed(bundle, save={"every": 1, "keep": 2}, train={"schedule": "constant"})
    trained(changed(wanted, train={"steps": 4}), run, watched(run))
    file = run / "checkpoints" / "step-000004" / "adapter.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    log = watched(run)
    trained(changed(wanted, save={"keep": 1}), run, log)
    assert not log.of(SaveFailed)
    assert [e.step for e in log.of(Resumed)] == [3]
    assert checkpoints.complete(run) == [6]
    found = checkpoints.find(run)
    assert (found.newest and found.newest.step, found.skipped) == (6, ())
    assert (run / "checkpoints" / "step-000004.broken").is_dir()


def test_a_run_that_saved_nothing_forgets_what_it_did(bundle: Bundle, tmp_path: Path) -> None:
    run = tmp_path / "run"
    sample = {"every": 2, "prompts": ["a robot"], "steps": 1}
    wanted = changed(bundle, save={"every": 0}, sample=sample, train={"steps": 5})
    first = watched(run)

    def end(event: Event) -> None:
        if isinstance(event, Sampled) and event.step == 4:
            raise KeyboardInterrupt  # as good as a kill: nothing is written after it

    first.reactions.append(end)
    with pytest.raises(KeyboardInterrupt):
        trained(wanted, run, first)
    assert (run / "samples" / "000004-1.png").is_file()
    log = watched(run)
    gone: list[bool] = []
    log.reactions.append(
        lambda e: (
            gone.append((run / "samples" / "000004-1.png").exists())
            if isinstance(e, Sampled) and e.step == 0
            else None
        )
    )
    trained(wanted, run, log)
    assert [e.step for e in log.of(Resumed)] == [0]
    assert gone == [False]
    assert replay([*first.events, *log.events]).course.counted == 5


def test_other_prompts_do_not_stand_under_old_pictures(bundle: Bundle, finished: Ended) -> None:
    _, run, _ = finished
    log = watched(run)
    more = changed(bundle, train={"steps": 9}, sample={"prompts": ["a robot", "a yellow circle"]})
    trained(more, run, log)
    assert [e.step for e in log.of(Sampled)] == [6, 9]
    assert not (run / "samples" / "000000-1.png").exists()


def test_what_came_out_before_stays_until_something_better_is_there(
    bundle: Bundle, finished: Ended, monkeypatch: pytest.MonkeyPatch, shared_cache: Path
) -> None:
    first, run, _ = finished
    before = {name: (run / name).read_bytes() for name in first.files[:2]}
    real = files.write

    def write(path: Path, *rest: Any) -> int:
        if path.name == "tiny.diffusers.safetensors":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, *rest)

    monkeypatch.setattr(files, "write", write)
    with pytest.raises(LorakitError, match="No space left on device"):
        trained(changed(bundle, train={"steps": 9}), run, watched(run))
    assert {name: (run / name).read_bytes() for name in before} == before
    assert draw.newest_adapter(run, "tiny").parent.name == "step-000009"
    monkeypatch.undo()
    monkeypatch.setenv("LORAKIT_CACHE", str(shared_cache))
    trained(changed(bundle, train={"steps": 9}), run, watched(run))
    assert draw.newest_adapter(run, "tiny") == run / "tiny.safetensors"
    assert not durable.leftovers(run)


def test_a_stop_before_anything_shows_is_a_stop(
    bundle: Bundle, tmp_path: Path, recorder: Recorder
) -> None:
    """In bf16 a first small step may change no answer: that is no failure of the run."""
    run = tmp_path / "run"
    recorder.stop_after[1] = run
    train = {"precision": "bf16", "learning_rate": 1e-6, "warmup_steps": 100, "steps": 200}
    log = watched(run)
    ended = trained(changed(bundle, train=train, sample={"prompts": []}), run, log)
    assert (ended.outcome, ended.step) == ("stopped", 1)
    assert checkpoints.complete(run) == [1]
    assert ended.files == [] or (run / "tiny.safetensors").is_file()


def test_what_killed_writes_left_is_swept(
    drawing: Bundle, finished: Ended, fresh_cache: Path
) -> None:
    """In the run, and in the cache, where somebody else may be writing."""
    _, run, _ = finished
    entries = fresh_cache / "latents" / "0123456789abcdef"
    entries.mkdir(parents=True)
    old, young = (entries / f".{n}.part" for n in ("0123", "4567"))
    folders = [run, run / "checkpoints", run / "samples"]
    swept = [*(folder / ".step-000009.part" for folder in folders), old]
    for path in (*swept, young):
        path.write_bytes(b"half")
    os.utime(old, (1e9, 1e9))
    trained(drawing, run, watched(run))
    assert [path for path in swept if path.exists()] == []
    assert young.exists()


def test_a_learning_rate_that_is_changed_on_the_way(bundle: Bundle, tmp_path: Path) -> None:
    """The run is another than a straight one from there on, and its lock and its log say so; a
    precision that scales the loss begins to only now."""
    run = Run(tmp_path / "run")
    quick = changed(
        bundle,
        train={"steps": 2, "schedule": "constant"},
        sample={"prompts": []},
        save={"every": 2},
    )
    log = watched(run.path)
    write(run.bundle, quick)
    trained(quick, run.path, log)
    then = read(run.bundle).lock
    settings = ["train.learning_rate=1e-3", "train.steps=4", "train.precision=fp16"]
    wanted = parse(run.bundle.read_text(), settings)
    adopt(run, wanted, settings, 2)
    log = watched(run.path)
    trained(read(run.bundle), run.path, log)
    lock = read(run.bundle).lock
    assert then is not None
    assert lock is not None
    assert (lock.determinism, lock.why) == (then.determinism, then.why)
    assert lock.changed == (
        "train.learning_rate  0.01 -> 0.001, after step 2",
        'train.precision  "fp32" -> "fp16", after step 2',
    )
    said = [e.text for e in log.of(Noted)]
    assert f"not as a straight run: {lock.changed[0]}" in said
    assert not any("not as this run began" in text for text in said)
    assert {e.learning_rate for e in log.of(Stepped)} == {1e-3}
    state = json.loads((run.path / "checkpoints" / "step-000004" / "state.json").read_text())
    assert state["scaler"]["scale"] > 0
    assert not promise(lock, then, [])[0]


def test_blocks_that_recompute_from_the_middle_on_change_nothing(
    bundle: Bundle, tmp_path: Path
) -> None:
    """As after a memory that was full: the rest is a straight run's, and so is the promise."""
    run = Run(tmp_path / "run")
    train = {"steps": 3, "schedule": "constant"}
    straight = changed(bundle, train=train, sample={"prompts": []}, save={"every": 2})
    alone = tmp_path / "straight"
    finished = trained(straight, alone, watched(alone))
    short = changed(straight, train={"steps": 2})
    log = watched(run.path)
    write(run.bundle, short)
    trained(short, run.path, log)
    settings = ["memory.checkpointing=full", "train.steps=3"]
    said = adopt(run, parse(run.bundle.read_text(), settings), settings, 2)
    assert not any("straight run" in line for line in said)
    assert trained(read(run.bundle), run.path, watched(run.path)).digest == finished.digest
    lock = read(run.bundle).lock
    assert lock is not None
    assert lock.changed == ()
    assert lock.determinism == "bytes"
