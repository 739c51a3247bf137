from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from lorakit.errors import ExitCode, LorakitError
from lorakit.live.ending import conclude
from lorakit.live.follow import Seen
from lorakit.runs.course import Course
from lorakit.runs.directory import Run
from lorakit.runs.events import Predicted, Stepped

DATA = Path(__file__).parents[1] / "data" / "events"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = tmp_path / "my robots-20261130-120000"
    made.mkdir()
    (made / "bundle.toml").write_text('[base]\nmodel = "owner/model"\n')
    return Run(made)


def seen(run: Run, name: str, **more: object) -> Seen:
    run.events.write_bytes((DATA / f"{name}.jsonl").read_bytes())
    state = run.state()
    return Seen(state, run.status(state), "ended", **more)  # type: ignore[arg-type]


def test_checkpoints_that_could_not_be_written_are_in_the_end(run: Run) -> None:
    ended = seen(run, "good")
    state = replace(ended.state, course=replace(ended.state.course, unsaved_count=2))
    lines, _ = conclude(run, replace(ended, state=state))
    assert "  saves   2 checkpoints could not be written" in lines


def test_the_end_holds_what_was_predicted_against_what_it_took(run: Run) -> None:
    ended = seen(run, "good")
    told = Predicted(
        peak_gib=1.2, step_seconds_low=0.2, step_seconds_high=0.6, total_seconds_low=20,
        total_seconds_high=100,
    )  # fmt: skip
    state = replace(ended.state, predicted=told)
    lines, _ = conclude(run, replace(ended, state=state))
    assert lines[0].endswith("(predicted 20s to 1m 40s)")
    assert any(
        re.match(r"  speed   0\.\d+ s a step \(predicted 0\.20 to 0\.60\)", x) for x in lines
    )
    assert any(re.match(r"  memory  peak \d\.\d GiB \(predicted 1\.2\)", x) for x in lines)
    before, _ = conclude(run, ended)
    assert "predicted" not in "\n".join(before)


def test_a_good_end_says_what_came_out_and_what_to_do_with_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.9 22")
    (run.path / "robots.safetensors").write_bytes(b"x" * 2048)
    lines, code = conclude(run, seen(run, "good"))
    text = "\n".join(lines)
    assert code == 0
    assert lines[0].startswith("my robots-20261130-120000: done at step ")
    assert f"{run.path}/robots.safetensors  (2.0 KiB)" in text
    assert f"{run.path}/samples/before-after.png  (missing)" in text
    assert " -> " in text
    assert "5e" * 32 in text
    assert f"@10.0.0.9:{run.path}/robots.safetensors' ." in text
    assert "models/loras" in text
    assert "models/Lora" in text
    assert "DiffusionPipeline.from_pretrained('owner/model')" in text
    assert f"load_lora_weights('{run.path}/robots.diffusers.safetensors')" in text
    assert "lorakit sample 'my robots-20261130-120000' \"a prompt\"" in text


def test_a_base_in_one_file_is_loaded_as_one(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    run.bundle.write_text(f'[base]\nfamily = "sdxl"\nmodel = "{file}"\n')
    text = "\n".join(conclude(run, seen(run, "good"))[0])
    assert f"StableDiffusionXLPipeline.from_single_file('{file}')" in text


def test_an_address_of_six_is_put_in_brackets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "fe80::1 50000 fe80::2 22")
    assert "@[fe80::2]:/" in "\n".join(conclude(run, seen(run, "good"))[0])


@pytest.mark.parametrize(("by", "code"), [(None, 0), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_code_of_a_stopped_run_says_who_stopped_it(
    run: Run, by: signal.Signals | None, code: int
) -> None:
    lines, found = conclude(run, seen(run, "resumed", signal=by))
    assert found == code
    assert "stopped at step 60 of 120" in lines[0]
    assert f"  go on   lorakit train --resume '{run.path}'" in lines


def test_a_mean_of_few_losses_is_told_once(run: Run) -> None:
    ended = seen(run, "good")
    for count, said in [(4, "0.2500  (mean of 4 steps)"), (40, "0.2500 -> 0.2500  (means of the")]:
        losses = Stepped(step=count, losses=[0.25] * count, learning_rate=1e-4, seconds=1.0,
                         wait_seconds=0.0, images=count)  # fmt: skip
        state = replace(ended.state, course=Course().after(losses))
        lines, _ = conclude(run, replace(ended, state=state))
        assert any(line.startswith(f"  loss    {said}") for line in lines)


def test_a_failure_is_its_own_error_with_the_log(run: Run) -> None:
    with pytest.raises(LorakitError, match="not finite in 5 steps") as caught:
        conclude(run, seen(run, "nan"))
    assert caught.value.code == ExitCode.TRAINING_FAILED
    assert caught.value.hint.startswith("Lower train.learning_rate")
    assert str(run.log) in caught.value.hint


def test_a_lost_run_is_an_error_with_its_last_words(run: Run) -> None:
    run.log.write_text("one\ntwo\r\x1b[2Kthree\n\n")
    with pytest.raises(LorakitError, match="is gone") as caught:
        conclude(run, seen(run, "killed"))
    assert r"\x1b[2Kthree" in caught.value.hint


def test_an_aborted_run_names_its_last_checkpoint(run: Run) -> None:
    lines, code = conclude(run, seen(run, "killed", signal=signal.SIGINT))
    assert code == 130
    assert lines == [
        f"aborted at step 56; last checkpoint: {run.path}/checkpoints/step-000040",
        f"  go on   lorakit train --resume '{run.path}'",
    ]


def test_who_left_before_the_end_is_told_nothing(run: Run) -> None:
    state = seen(run, "killed").state
    assert conclude(run, Seen(state, "training", "viewer left")) == ([], 0)
