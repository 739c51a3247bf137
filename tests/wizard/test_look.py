from __future__ import annotations

import json
import re
from pathlib import Path

import place
import pytest
import single_files

from lorakit.bundle.problems import Problem
from lorakit.bundle.read import read
from lorakit.errors import LorakitError
from lorakit.interop import places
from lorakit.wizard import draft, look, outcome, summary
from lorakit.wizard.answers import Answers, Folder, of_bundle
from lorakit.wizard.state import begin
from lorakit.wizard.steps import STEPS, step_of

ANSWERS = Answers(base="base", folders=(Folder(path=place.PICTURES, trigger="ohwx"),))


def silent(done: int, total: int) -> None:
    """Nobody asks how far it is."""


def test_what_the_steps_found_out_is_found_out_again(tmp_path: Path) -> None:
    state, step = look.again(begin(place.make(tmp_path), ANSWERS), "settings", silent)
    assert step == "settings"
    assert state.known.hardware
    assert state.known.base
    assert state.known.report
    assert len(state.known.report.pictures) == 3


def test_going_on_stops_where_an_answer_is_no_good_any_more(tmp_path: Path) -> None:
    gone = ANSWERS.with_base("./gone")
    assert look.again(begin(place.make(tmp_path), gone), "review", silent)[1] == "base"
    none = Answers(base="base")
    assert look.again(begin(tmp_path, none), "review", silent)[1] == "pictures"


def test_a_review_says_what_train_would_say(tmp_path: Path) -> None:
    (place.make(tmp_path) / place.PICTURES / "cut [x].png").write_bytes(b"")
    state, _ = look.again(begin(tmp_path, ANSWERS), "review", silent)
    assert state.proposal.bundle
    reviewed = look.review(state.proposal.bundle, state, silent)
    assert reviewed.errors == 1
    assert {step_of(p) for p in reviewed.problems if p.severity == "error"} == {"pictures"}
    sections = summary.of_bundle(state.proposal.bundle, reviewed.facts)
    verdicts = {name: summary.verdict(name, reviewed.problems) for name, _ in sections}
    assert verdicts["dataset"] == "1 error"
    assert verdicts["train"] == "ok"
    assert re.fullmatch(r"[\d.]+ to [\d.]+ s a step, .+ in all", dict(sections)["takes"])


def with_file(tmp_path: Path, *marks: str) -> Answers:
    place.make(tmp_path)
    shapes = {**single_files.small_shapes(), **dict.fromkeys(marks, (0,))}
    single_files.write_header(tmp_path / "noob.safetensors", shapes)
    return ANSWERS.with_base("noob.safetensors")


@pytest.mark.parametrize(
    ("marks", "prediction", "zero_snr", "words"),
    [
        ((), "epsilon", False, "the noise"),
        (("v_pred", "ztsnr"), "v_prediction", True, "v, with noise up to SNR 0"),
    ],
)
def test_a_bundle_for_one_file_says_what_was_found_in_it(
    tmp_path: Path, marks: tuple[str, ...], prediction: str, zero_snr: bool, words: str
) -> None:
    state, step = look.again(begin(tmp_path, with_file(tmp_path, *marks)), "review", silent)
    assert step == "review"
    assert state.known.base
    assert dict(summary.of_base(state.known.base))["predicts"] == words
    bundle = state.proposal.bundle
    assert bundle
    assert bundle.base.model == "noob.safetensors"
    assert (bundle.base.prediction, bundle.base.zero_snr) == (prediction, zero_snr)
    reviewed = look.review(bundle, state, silent)
    assert [p.what for p in reviewed.problems if p.severity == "error"] == []
    assert reviewed.facts.prompt_tokens == (4,) * len(bundle.sample.prompts)  # letters of ohwx


def test_what_is_said_of_a_base_goes_with_it(tmp_path: Path) -> None:
    answers = with_file(tmp_path).with_change("base.prediction", "v_prediction")
    state, _ = look.again(begin(tmp_path, answers), "review", silent)
    assert state.proposal.bundle
    assert state.proposal.bundle.base.prediction == "v_prediction"
    assert state.proposal.recommends("base.prediction") == "epsilon"
    assert answers.with_base("base").changes == {}
    again = of_bundle(state.proposal.bundle, tmp_path, tmp_path)
    assert again.changes["base.prediction"] == "v_prediction"
    assert "base.pickle" not in again.changes


@pytest.mark.parametrize("said", ["", "sdxl"])
def test_the_family_is_what_the_folder_has(tmp_path: Path, said: str) -> None:
    place.make(tmp_path)
    assert look.base(Answers(base="base", family=said), tmp_path).family == "sd1"
    unet = tmp_path / "base" / "unet" / "config.json"
    unet.write_text(json.dumps({**json.loads(unet.read_text()), "use_linear_projection": True}))
    assert look.base(Answers(base="base", family=said), tmp_path).family == "sd2"


def test_the_family_of_what_is_not_here_is_well_known_or_can_be_said(tmp_path: Path) -> None:
    known = look.base(Answers(base="stabilityai/stable-diffusion-xl-base-1.0"), tmp_path)
    assert (known.family, known.guessed) == ("sdxl", False)
    unknown = Answers(base="someone/some-model")
    guess = look.base(unknown, tmp_path)
    assert (guess.family, guess.guessed) == ("sd1", True)
    assert dict(summary.of_base(guess))["family"].startswith("taken for Stable Diffusion 1.x")
    said = look.base(unknown.with_family("sdxl"), tmp_path)
    assert (said.family, said.resolution) == ("sdxl", 1024)


@pytest.mark.parametrize("path", ["", "a\nb", "\udcff"])
def test_a_path_that_no_bundle_holds_is_refused_in_words(tmp_path: Path, path: str) -> None:
    with pytest.raises(LorakitError):
        look.folder(path, tmp_path)
    with pytest.raises(LorakitError):
        look.base(Answers(base=path), tmp_path)


def test_a_folder_that_is_not_there_names_the_nearest_one(tmp_path: Path) -> None:
    place.make(tmp_path)
    with pytest.raises(LorakitError, match="does not exist") as refused:
        look.folder("photos/dog", tmp_path)
    assert place.PICTURES in refused.value.hint


@pytest.mark.parametrize(
    ("where", "step"),
    [
        ("", "machine"),
        ("base.model", "base"),
        ("dataset.sources[0].trigger", "pictures"),
        ("dataset.sources", "pictures"),
        ("IMG [1].jpg", "pictures"),
        ("dataset.resolution", "settings"),
        ("train.optimizer_options.eps", "settings"),
        ("name", "settings"),
    ],
)
def test_a_problem_belongs_to_a_step(where: str, step: str) -> None:
    assert step_of(Problem(where=where, what="")) == step


def test_every_step_explains_itself() -> None:
    assert all(step.question and len(step.help) > 40 for step in STEPS)
    assert "diffusers folder" in STEPS[1].help


def test_a_saved_bundle_reads_back_and_ends_the_draft(tmp_path: Path) -> None:
    state, _ = look.again(begin(place.make(tmp_path), ANSWERS), "review", silent)
    proposal = state.proposal
    assert proposal.bundle
    draft.save(state.answers, "review", tmp_path)
    path = outcome.file_for("dog", tmp_path)
    assert path == tmp_path / "dog.toml"
    ended = outcome.save(proposal.bundle, proposal.reasons, path, tmp_path)
    assert ended.what == "saved"
    assert read(path) == proposal.bundle
    assert draft.load() is None
    assert "# 3 pictures, each seen about" in path.read_text()


def test_a_bundle_saved_elsewhere_has_absolute_paths(tmp_path: Path) -> None:
    state, _ = look.again(begin(place.make(tmp_path), ANSWERS), "review", silent)
    (tmp_path / "bundles").mkdir()
    assert state.proposal.bundle
    path = outcome.file_for("bundles/dog.toml", tmp_path)
    outcome.save(state.proposal.bundle, {}, path, tmp_path)
    assert read(path).dataset.sources[0].path == str(tmp_path / place.PICTURES)


@pytest.mark.parametrize("text", ["", " ", ".", "/"])
def test_a_file_needs_a_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(LorakitError):
        outcome.file_for(text, tmp_path)


def test_the_bases_of_this_machine_are_those_that_an_answer_can_name(
    clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "ROOTS", ())
    folder = clean_home / "ComfyUI" / "models" / "checkpoints"
    folder.mkdir(parents=True)
    good = single_files.write_header(folder / "good.safetensors", single_files.small_shapes())
    (folder / "broken.safetensors").write_bytes(b"")
    assert [model.base for model in look.models()] == [str(good)]
