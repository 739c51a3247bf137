"""What a run really used, on a small real model: gathered, written, and compared when repeated."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from lorakit.bundle.diff import Difference, of_locks, promise
from lorakit.bundle.lock import Lock, LockedPicture
from lorakit.bundle.models import Bundle
from lorakit.bundle.read import read
from lorakit.bundle.write import write
from lorakit.families import digests
from lorakit.families.base_model import inspect
from lorakit.families.locate import revision
from lorakit.runs.events import FILE, Doing, Event, Finished, Log, Noted
from lorakit.runs.events import Tail as Reader
from lorakit.train import device, prepare
from lorakit.train.control import Control
from lorakit.train.lock import begin, main, present
from lorakit.train.loop import train

CPU = torch.device("cpu")


def changed(bundle: Bundle, **sections: dict) -> Bundle:
    whole = bundle.model_dump(by_alias=True, exclude_none=True)
    for name, values in sections.items():
        whole[name].update(values)
    return Bundle.model_validate(whole)


@pytest.fixture
def own(bundle: Bundle, drawn: Path, tmp_path: Path) -> Bundle:
    """The bundle with pictures that a test may change."""
    shutil.copytree(drawn, tmp_path / "photos")
    source = {"path": str(tmp_path / "photos")}
    quick = {"steps": 2, "warmup_steps": 0}
    return changed(
        bundle,
        dataset={"sources": [source]},
        train=quick,
        sample={"prompts": []},
        save={"every": 0},
    )


def locked(bundle: Bundle) -> Lock:
    base, report = prepare.look(bundle, Path("/"))
    return present(bundle, base, report, CPU)


def trained(bundle: Bundle, run: Path) -> tuple[Finished, list[Event]]:
    run.mkdir()
    write(run / "bundle.toml", bundle)
    log = Log(run / FILE)
    finished = train(bundle, run, log, Control(run, log), CPU)
    return finished, list(Reader(run / FILE).read())


def test_a_run_locks_its_bundle_and_a_second_one_is_the_same(own: Bundle, tmp_path: Path) -> None:
    finished, _ = trained(own, tmp_path / "first")
    text = (tmp_path / "first" / "bundle.toml").read_text()
    then = read(tmp_path / "first" / "bundle.toml").lock
    assert then is not None
    assert then.result is not None
    assert (then.result.digest, then.result.step) == (finished.digest, 2)
    assert then.run == "first"
    assert then.versions["torch"] == torch.__version__
    assert then.threads == torch.get_num_threads()
    assert (then.determinism, then.hardware.device, then.attention) == ("bytes", "CPU", "sdpa")
    assert then.kernel == "flash"
    assert [LockedPicture.read(line).name for line in then.dataset.pictures] == [
        f"{n}.png" for n in range(5)
    ]
    assert text.index("[lock]") > text.index("keep = 2")

    again = read(tmp_path / "first" / "bundle.toml")
    repeated, _ = trained(again, tmp_path / "second")
    now = read(tmp_path / "second" / "bundle.toml").lock
    assert now is not None
    assert of_locks(then, now) == []
    assert promise(then, now, [])[0]
    assert repeated.digest == finished.digest


def test_a_lock_that_cannot_be_written_ends_no_training(own: Bundle, tmp_path: Path) -> None:
    """A bundle's file that is gone stands for a full disk: the run goes on and says so."""
    run = tmp_path / "run"
    run.mkdir()
    log = Log(run / FILE)
    finished = train(own, run, log, Control(run, log), CPU)
    assert finished.outcome == "done"
    noted = [e.text for e in Reader(run / FILE).read() if isinstance(e, Noted)]
    assert sum("the lock was not written" in text for text in noted) == 2


class Stopping(Log):
    """A log that has the run stopped as soon as it trains."""

    def append(self, event: Event) -> None:
        super().append(event)
        if isinstance(event, Doing) and event.phase == "training":
            self.stop.write_text("{}")


def test_a_run_that_was_stopped_has_a_lock_without_a_result(own: Bundle, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "control").mkdir(parents=True)
    write(run / "bundle.toml", own)
    log = Stopping(run / FILE)
    log.stop = run / "control" / "stop"
    finished = train(own, run, log, Control(run, log), CPU)
    assert (finished.outcome, finished.step) == ("stopped", 1)
    assert finished.digest
    lock = read(run / "bundle.toml").lock
    assert lock is not None
    assert lock.result is None


def test_a_run_that_goes_on_elsewhere_says_so_and_promises_less(
    own: Bundle, tmp_path: Path
) -> None:
    trained(own, tmp_path / "run")
    began = read(tmp_path / "run" / "bundle.toml")
    assert began.lock is not None
    log = Log(tmp_path / "again.jsonl")
    base, report = prepare.look(own, tmp_path)
    assert begin(began, base, report, CPU, tmp_path / "run", log, 2).determinism == "bytes"
    assert not list(Reader(tmp_path / "again.jsonl").read())
    versions = {**began.lock.versions, "torch": "1.2.3"}
    older = began.model_copy(update={"lock": began.lock.model_copy(update={"versions": versions})})
    now = begin(older, base, report, CPU, tmp_path / "run", log, 2)
    assert (now.determinism, now.why) == (
        "statistics",
        "the run was resumed under other conditions",
    )
    assert now.changed == (f'torch  "1.2.3" -> "{torch.__version__}", after step 2',)
    (note,) = Reader(tmp_path / "again.jsonl").read()
    assert isinstance(note, Noted)
    assert note.text.startswith('not as this run began: torch  "1.2.3" -> ')


def test_each_picture_and_caption_that_changed_is_named(own: Bundle, tmp_path: Path) -> None:
    then = locked(own)
    photos = tmp_path / "photos"
    Image.new("RGB", (40, 40), "red").save(photos / "0.png")
    (photos / "1.txt").write_text("another caption")
    (photos / "2.png").rename(photos / "new one.png")
    (photos / "2.txt").rename(photos / "new one.txt")
    now = locked(own)
    found = of_locks(then, now)
    assert [(d.what, d.then is None, d.now is None) for d in found] == [
        ("picture 0.png", False, False),
        ("caption of 1.png", False, False),
        ("picture 2.png", False, True),
        ("picture new one.png", True, False),
    ]
    assert not promise(then, now, found)[0]


def test_repeats_settings_and_threads_are_named(
    own: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = locked(own)
    source = {"path": own.dataset.sources[0].path, "repeats": 2}
    repeated = locked(changed(own, dataset={"sources": [source]}))
    assert {d.what for d in of_locks(then, repeated)} == {
        "settings",
        "repeats, boxes or masks of the pictures",
    }
    masked = changed(own, dataset={"masks": "files"})
    mask = tmp_path / "photos" / "0-mask.png"
    Image.new("L", (8, 8), 255).save(mask)
    before = locked(masked)
    Image.new("L", (8, 8), 99).save(mask)
    [remasked] = of_locks(before, locked(masked))
    assert remasked.what == "repeats, boxes or masks of the pictures"
    mask.unlink()
    slower = locked(changed(own, train={"learning_rate": 1e-3}))
    assert [d.what for d in of_locks(then, slower)] == ["settings"]
    named = changed(own, sample={"every": 9}, save={"keep": 1}).model_copy(update={"name": "x"})
    assert of_locks(then, locked(named)) == []

    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(own.dataset.sources[0].path, elsewhere)
    moved = changed(own, dataset={"sources": [{"path": str(elsewhere)}]})
    assert of_locks(then, locked(moved)) == []

    wider = then.model_copy(update={"threads": then.threads + 1})
    assert of_locks(then, wider) == [Difference("threads", then.threads, then.threads + 1)]


def test_threads_come_from_the_environment_then_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert device.threads(7) == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert device.threads(7) == 7
    assert 1 <= device.threads() <= 4096


def test_several_sources_are_told_apart_and_any_name_is_kept(own: Bundle, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    Image.new("RGB", (40, 40)).save(odd / "a b.png")
    os.rename(odd / "a b.png", bytes(odd) + b"/caf\xe9.png")
    sources = [{"path": own.dataset.sources[0].path}, {"path": str(odd), "trigger": "odd"}]
    two = changed(own, dataset={"sources": sources})
    lock = locked(two)
    names = [LockedPicture.read(line).name for line in lock.dataset.pictures]
    assert names[0] == "0/0.png"
    assert names[-1] == "1/caf\\udce9.png"
    write(tmp_path / "b.toml", two.model_copy(update={"lock": lock}))
    assert read(tmp_path / "b.toml").lock == lock


def test_the_commit_of_a_hub_base_is_found(tiny_base: Path, tmp_path: Path) -> None:
    from lorakit.bundle.models import Base

    base = inspect(Base(model=str(tiny_base)), Path("/"))
    assert revision(base.model, base.folder) == ""
    cached = tmp_path / "models--a--b" / "snapshots" / ("4" * 40)
    assert revision("a/b", cached) == "4" * 40
    assert revision("a/b", None) == ""


def test_the_lock_is_told_as_json(
    own: Bundle,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path / "b.toml", own)
    threads = torch.get_num_threads()
    assert main([str(tmp_path / "b.toml")]) == 0
    assert Lock.model_validate_json(capsys.readouterr().out) == locked(own)
    assert torch.get_num_threads() == threads

    monkeypatch.setattr(digests, "_sha256", lambda file, anew: ("00" if anew else "11") * 32)
    assert main([str(tmp_path / "b.toml"), "--anew"]) == 0
    anew = Lock.model_validate_json(capsys.readouterr().out)
    monkeypatch.setattr(digests, "_sha256", lambda file, anew: "00" * 32)
    assert anew.base.digest == locked(own).base.digest
    assert main([str(tmp_path / "none.toml")]) == 2
    assert "does not exist" in capsys.readouterr().err
