from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from lorakit.errors import LorakitError
from lorakit.runs.compare import Curves, Result, curves, losses, result_of, results, tensors
from lorakit.runs.directory import Run
from lorakit.runs.events import FILE, Event, Finished, Log, Resumed, Stepped, Tail
from lorakit.runs.state import replay

DATA = Path(__file__).parents[1] / "data" / "events"


def stepped(step: int, *found: float | None) -> Stepped:
    return Stepped(
        step=step, losses=[*found], learning_rate=1.0, seconds=1.0, wait_seconds=0.0, images=1
    )


def test_how_far_two_files_are_apart(tmp_path: Path) -> None:
    one = {"a": np.zeros((2, 2), "f4"), "b": np.ones(4, "f4"), "c": np.ones(1, "f4")}
    two = {"a": np.zeros((2, 2), "f4"), "b": np.array([1, 1, 1, 3], "f2"), "d": np.ones(1, "f4")}
    save_file(one, tmp_path / "1")
    save_file({**two, "c": np.ones(2, "f4")}, tmp_path / "2")
    apart = tensors(tmp_path / "1", tmp_path / "2")
    assert (apart.tensors, apart.differing, apart.alone) == (2, 1, 2)
    assert (apart.largest, apart.mean) == (2.0, 2 / 8)
    itself = tensors(tmp_path / "1", tmp_path / "1")
    assert (itself.tensors, itself.differing, itself.alone, itself.largest) == (3, 0, 0, 0.0)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    save_file({"a": np.zeros(1, "f4")}, tmp_path / "1")
    (tmp_path / "2").write_bytes(b"junk")
    for other in ("2", "none"):
        with pytest.raises(LorakitError, match=f"{other} cannot be compared"):
            tensors(tmp_path / "1", tmp_path / other)


def test_what_a_resume_went_back_over_is_not_compared() -> None:
    events: list[Event] = [stepped(3, 1.0, 2.0, 3.0), stepped(5, 4.0, 5.0), Resumed(step=2)]
    assert losses(events) == {1: 1.0, 2: 2.0}
    assert losses([*events, stepped(4, 9.0, None)]) == {1: 1.0, 2: 2.0, 3: 9.0, 4: None}


def test_losses_of_a_recorded_run_reach_its_last_step() -> None:
    for name in ("good", "resumed"):
        events = list(Tail(DATA / f"{name}.jsonl").read())
        assert list(losses(events)) == list(range(1, replay(events).step + 1)), name


def test_curves_are_compared_where_both_have_steps() -> None:
    then = {1: 1.0, 2: 2.0, 3: None, 4: 4.0}
    assert curves(then, then) == Curves(steps=4, first=None, largest=0.0, mean=0.0)
    found = curves(then, {1: 1.0, 2: 2.5, 3: 1.0, 9: 1.0})
    assert found == Curves(steps=3, first=2, largest=0.5, mean=0.25)
    assert curves(then, {}) == Curves(steps=0, first=None, largest=0.0, mean=0.0)


def test_a_result_is_that_of_a_run_that_is_done(tmp_path: Path) -> None:
    log = Log(tmp_path / FILE)
    files = ["tiny.diffusers.safetensors", "tiny.safetensors", "samples/sheet.png"]
    (tmp_path / "tiny.safetensors").touch()
    log.append(stepped(1, 1.0))
    assert result_of(Run(tmp_path)).digest == ""
    log.append(Finished(outcome="stopped", step=1, files=files, digest="aa"))
    assert result_of(Run(tmp_path)).digest == ""
    log.append(Finished(outcome="done", step=1, files=files, digest="bb"))
    assert result_of(Run(tmp_path)) == Result(
        digest="bb", adapter=tmp_path / "tiny.safetensors", losses={1: 1.0}
    )
    log.append(Resumed(step=1))  # for more steps
    assert result_of(Run(tmp_path)).digest == ""


def test_a_comparison_in_words(tmp_path: Path) -> None:
    save_file({"a": np.zeros(2, "f4")}, tmp_path / "1")
    save_file({"a": np.array([0, 1], "f4")}, tmp_path / "2")
    then = Result(digest="aa", adapter=tmp_path / "1", losses={1: 1.0, 2: 2.0})
    now = Result(digest="bb", adapter=tmp_path / "2", losses={1: 1.0, 2: 2.5})
    assert results(then, now).lines() == [
        "another LoRA: digest aa then, bb now",
        "  tensors  1 of 1 differ; largest difference 1.00e+00, mean 5.00e-01",
        "  losses   2 steps compared, the first that differs is 2; "
        "largest difference 5.00e-01, mean 2.50e-01",
    ]
    assert results(then, then).lines() == [
        "the same LoRA: digest aa",
        "  losses   2 steps compared, all equal",
    ]
    assert results(Result(digest="aa"), now).lines()[1].endswith("the file of then is not here")
    unfinished = results(then, Result(digest="", losses={1: 1.0}))
    assert unfinished.same is None
    assert unfinished.lines() == [
        "no result to compare: the second is not done",
        "  losses   1 step compared, all equal",
    ]
