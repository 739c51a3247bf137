"""`lorakit train --resume`: what it goes on from, what it says first, and what it refuses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lorakit.bundle.diff import settings_digest
from lorakit.bundle.lock import Lock
from lorakit.bundle.read import parse, read
from lorakit.bundle.write import write_lock
from lorakit.cli import train
from lorakit.errors import LorakitError
from lorakit.planner.estimate import Estimate, Span
from lorakit.runs import checkpoints
from lorakit.runs.directory import Run, every, runs_root
from lorakit.runs.resume import adopt

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def put(run: Run, step: int) -> Path:
    folder = run.path / checkpoints.FOLDER / f"step-{step:06d}"
    folder.mkdir()
    for name in (checkpoints.ADAPTER, checkpoints.OPTIMIZER):
        (folder / name).write_bytes(b"12345678")
    (folder / checkpoints.STATE).write_text(json.dumps({"step": step}))
    checkpoints.write_manifest(folder)
    return folder


@pytest.fixture
def dead(bundle: Path, lorakit: Command, the_run: Callable[[], Run]) -> Run:
    """A run of 30 steps whose trainer died."""
    assert lorakit("train", bundle, env={"STAND_IN": "die"}).returncode == 1
    return the_run()


@pytest.mark.parametrize("named", ["run", "name", "bundle", "folder", "copy"])
def test_a_run_is_found_by_itself_and_by_its_bundle(
    bundle: Path, dead: Run, lorakit: Command, named: str
) -> None:
    put(dead, 9)
    put(dead, 10)
    (put(dead, 20) / checkpoints.MANIFEST).unlink()
    what = {"run": dead.name, "name": "dog", "bundle": bundle, "folder": dead.path}
    ended = lorakit("train", "--resume", what.get(named, dead.bundle))
    assert ended.returncode == 0
    assert "skipped step-000020: manifest.json is missing\n" in ended.stderr
    assert f"{dead.name} goes on after step 10\n" in ended.stderr
    assert [run.name for run in every(runs_root())] == [dead.name]
    assert dead.status() == "done"


def test_only_a_whole_run_is_predicted_in_all(
    bundle: Path, dead: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of one would be another number."""
    told: list[Estimate | None] = []
    spans = [Span(low=1.0, high=2.0), Span(low=30.0, high=60.0)]
    whole = Estimate(step_seconds=spans[0], total_seconds=spans[1])
    real = train.examine
    monkeypatch.setattr(train, "examine", lambda *a: replace(real(*a), estimate=whole))
    monkeypatch.setattr(train, "start", lambda run, estimate: told.append(estimate) or 0)
    train.resume(dead.path, [], None, False)
    put(dead, 10)
    train.resume(dead.path, [], None, False)
    assert told == [whole, Estimate(step_seconds=spans[0])]


def test_a_run_that_saved_nothing_begins_again_and_says_so(dead: Run, lorakit: Command) -> None:
    ended = lorakit("train", "--resume", dead.name)
    assert ended.returncode == 0
    assert "has no checkpoint yet: it begins at its first step again" in ended.stderr


def test_a_run_whose_checkpoints_are_all_broken_is_not_begun_again(
    dead: Run, lorakit: Command
) -> None:
    (put(dead, 20) / checkpoints.STATE).write_text("{")
    ended = lorakit("train", "--resume", dead.name)
    assert ended.returncode == 5
    assert f"lorakit: error: No checkpoint of {dead.name} is complete.\n" in ended.stderr
    assert "  step-000020: state.json has 1 of 12 bytes\n" in ended.stderr
    assert f"lorakit train {dead.bundle}" in ended.stderr
    assert dead.status() == "lost"


def test_a_complete_run_is_said_to_be_complete(
    bundle: Path, lorakit: Command, the_run: Callable[[], Run]
) -> None:
    lorakit("train", bundle)
    run = the_run()
    events = run.events.read_bytes()
    ended = lorakit("train", "--resume", run.name)
    assert ended.returncode == 0
    assert f"{run.name} is already complete: step 30 of 30." in ended.stderr
    assert str(run.path / "dog.safetensors") in ended.stdout
    assert run.events.read_bytes() == events

    put(run, 30)
    more = lorakit(
        "train", "--resume", run.name, "--set", "train.steps=40", env={"STAND_IN": "train 40"}
    )
    assert more.returncode == 0
    assert "train.steps  30 -> 40\n" in more.stderr
    assert f"{run.name} goes on after step 30\n" in more.stderr
    assert read(run.bundle).train.steps == 40


def test_room_is_asked_for_what_is_still_to_come(
    dead: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that has room for the rest and not for the whole run again."""
    from lorakit import survey
    from lorakit.planner.disk import Written, needed_bytes

    put(dead, 20)
    put(dead, 30)
    save = ["save.every=10", "save.keep=2", "train.steps=40"]
    wanted = parse(dead.bundle.read_text(), save)
    rest, whole = (
        needed_bytes(wanted, None, w) for w in (Written(step=30, checkpoints=2), Written())
    )
    assert rest < whole
    asked: list[Path] = []

    def free(folder: Path) -> int:
        asked.append(folder)
        return rest if len(asked) == 1 else rest - 1

    monkeypatch.setattr(survey, "free_bytes", free)
    monkeypatch.setattr(train, "start", lambda run, estimate=None: 0)
    assert train.resume(dead.path, save, None, detach=False) == 0
    assert train.resume(dead.path, save, None, detach=False) == 5
    said = capsys.readouterr().err
    assert f"more after step 30, and {(rest - 1) / 2**30:.2f} GiB are free in {dead.path}" in said
    assert asked == [dead.path, dead.path]


def test_what_a_run_was_begun_with_stays(bundle: Path, dead: Run, lorakit: Command) -> None:
    """Settings that make it another training are refused, all of them, and nothing is changed."""
    put(dead, 10)
    before = dead.bundle.read_bytes()
    bundle.write_text(
        bundle.read_text().replace("steps = 30", "steps = 50\nlearning_rate = 2e-4\nseed = 7")
    )
    ended = lorakit("train", "--resume", bundle)
    assert ended.returncode == 2
    told = "train.learning_rate  1e-4 -> 2e-4; train.seed  42 -> 7."
    assert f"{dead.name} was begun with other settings: {told}\n" in ended.stderr
    assert "train.steps" not in ended.stderr
    assert "has to be named: --set train.learning_rate=2e-4\n" in ended.stderr
    assert dead.bundle.read_bytes() == before

    bundle.write_text(bundle.read_text().replace("learning_rate = 2e-4\nseed = 7\n", ""))
    comment = dead.bundle.read_text() + "\n# mine\n"
    dead.bundle.write_text(comment)
    assert lorakit("train", "--resume", bundle).returncode == 0
    assert dead.bundle.read_text() == comment.replace("steps = 30", "steps = 50", 1)


def test_what_is_named_is_changed_on_the_way_and_locked(dead: Run, lorakit: Command) -> None:
    """The rest is another run's, and nobody may take the whole for a straight run's later."""
    lock = Lock(
        lorakit="0.1.0",
        settings=settings_digest(read(dead.bundle)),
        threads=1,
        attention="sdpa",
        determinism="bytes",
    )
    write_lock(dead.bundle, lock)
    settings = ["train.learning_rate=5e-5", "loss.snr_gamma=5", "train.optimizer_options.beta2=0.9"]
    words = [word for setting in settings for word in ("--set", setting)]
    begun = lorakit("train", "--resume", dead.name, *words, env={"STAND_IN": "die"})
    assert "train.learning_rate  1e-4 -> 5e-5\n" in begun.stderr
    assert "straight run" not in begun.stderr  # it begins again, and has them from the start
    locked = read(dead.bundle).lock
    assert locked is not None
    assert (locked.changed, locked.settings) == ((), settings_digest(read(dead.bundle)))

    put(dead, 20)
    words = ["--set", "train.learning_rate=1e-5", "--set", "train.clip_norm=0.5"]
    ended = lorakit("train", "--resume", dead.name, *words, env={"STAND_IN": "die"})
    told = "train.learning_rate  5e-5 -> 1e-5; train.clip_norm  1.0 -> 0.5"
    assert f"from step 21 on it differs from a straight run: {told}\n" in ended.stderr
    more = ["--set", "train.steps=50", "--set", "save.keep=1"]
    lorakit("train", "--resume", dead.name, *more, env={"STAND_IN": "die"})
    bundle = read(dead.bundle)
    assert (bundle.train.learning_rate, bundle.train.clip_norm) == (1e-5, 0.5)
    assert bundle.train.optimizer_options.beta2 == 0.9
    assert bundle.lock == lock.model_copy(
        update={
            "settings": settings_digest(bundle),
            "changed": (
                "train.learning_rate  5e-5 -> 1e-5, after step 20",
                "train.clip_norm  1.0 -> 0.5, after step 20",
                "train.steps  30 -> 50, after step 20",  # of a cosine
            ),
        }
    )


@pytest.mark.parametrize(
    "setting",
    [
        "adapter.rank=4", "adapter.alpha=4", "adapter.targets=linear", "train.seed=1",
        "train.batch_size=2", "train.accumulation=2", "train.optimizer=adafactor",
        "dataset.resolution=128", "dataset.sources[0].repeats=2",
    ],
)  # fmt: skip
def test_what_changes_weights_or_counters_is_refused_by_name_too(dead: Run, setting: str) -> None:
    """What else would mean something else than it did before."""
    wanted = parse(dead.bundle.read_text(), [setting])
    with pytest.raises(LorakitError, match="was begun with other settings") as refused:
        adopt(dead, wanted, [setting], 0)
    assert "has to be named" not in refused.value.hint


def test_pictures_that_have_moved_are_found_where_they_are_now(
    dead: Run, bundle: Path, lorakit: Command
) -> None:
    put(dead, 10)
    old = bundle.parent / "my [dog] pictures"
    new = old.rename(bundle.parent / "moved")
    gone = lorakit("train", "--resume", dead.name)
    assert gone.returncode == 5
    assert "my [dog] pictures" in gone.stderr
    there = lorakit("train", "--resume", dead.name, "--set", f"dataset.sources[0].path={new}")
    assert there.returncode == 0
    assert read(dead.bundle).dataset.sources[0].path == str(new)


def test_a_run_that_runs_is_not_started_twice(
    bundle: Path, lorakit: Command, the_run: Callable[[], Run]
) -> None:
    lorakit("train", bundle, "--detach", env={"STAND_IN": "wait"})
    ended = lorakit("train", "--resume", the_run().name)
    assert ended.returncode == 2
    assert "is already being trained" in ended.stderr


@pytest.mark.parametrize("detach", [False, True])
def test_the_end_of_before_is_not_taken_for_the_end_of_now(
    dead: Run, lorakit: Command, detach: bool
) -> None:
    """A run that failed and is gone on with is followed to its new end."""
    put(dead, 10)
    assert lorakit("train", "--resume", dead.name, env={"STAND_IN": "fail"}).returncode == 5
    words = ["train", "--resume", dead.name, *(["--detach"] if detach else [])]
    ended = lorakit(*words)
    assert ended.returncode == 0
    assert "IMG_1.jpg" not in ended.stderr + ended.stdout
    if detach:
        assert lorakit("watch", dead.name).returncode == 0
    assert dead.status() == "done"


def test_a_refusal_changes_nothing(
    bundle: Path, dead: Run, lorakit: Command, the_run: Callable[[], Run]
) -> None:
    put(dead, 20)
    before = dead.bundle.read_bytes()
    fewer = lorakit("train", "--resume", dead.name, "--set", "train.steps=10")
    assert fewer.returncode == 2
    assert "is at step 20 already, and 10 are asked for" in fewer.stderr
    assert dead.bundle.read_bytes() == before

    lorakit("train", "--resume", dead.name, "--detach", env={"STAND_IN": "wait"})
    again = lorakit("train", "--resume", dead.name, "--set", "train.steps=5000")
    assert again.returncode == 2
    assert "is already being trained" in again.stderr
    assert dead.bundle.read_bytes() == before


def test_two_that_go_on_at_once_start_one_trainer(dead: Run, process: Command) -> None:
    put(dead, 10)
    with ThreadPoolExecutor(3) as pool:
        words = ("train", "--resume", dead.name, "--detach")
        started = [pool.submit(process, *words, env={"STAND_IN": "wait"}) for _ in range(3)]
        ended = [s.result() for s in started]
    assert sorted(e.returncode for e in ended) == [0, 2, 2]
    assert sum("is already being trained" in e.stderr for e in ended) == 2


def test_a_bundle_without_a_run_is_not_mistaken_for_another(
    dead: Run, bundle: Path, lorakit: Command
) -> None:
    other = bundle.with_name("do.toml")
    other.write_text(bundle.read_text().replace('name = "dog"', 'name = "do"'))
    ended = lorakit("train", "--resume", other)
    assert ended.returncode == 2
    assert "do.toml has no run in" in ended.stderr
