from __future__ import annotations

from pathlib import Path

import place
import pytest
import single_files
from driven import ANSWERS, Drive, Driven
from textual.widgets import Input

from lorakit.bundle.models import PICO
from lorakit.bundle.read import read
from lorakit.interop import places
from lorakit.planner.check import check
from lorakit.survey import survey
from lorakit.wizard import draft
from lorakit.wizard.answers import of_bundle
from lorakit.wizard.state import begin


async def to(it: Driven, step: str) -> None:
    """Go on from the first step, with answers given before, up to this one."""
    for _ in range(5):
        if step in it.step:
            return
        await it.press("ctrl+n")
    raise AssertionError(it.text)


def test_from_nothing_to_a_bundle_by_keys_alone(drive: Drive, here: Path) -> None:
    async def script(it: Driven) -> None:
        assert it.step == "1 Machine"
        assert "trains on" in it.text
        await it.press("enter")
        assert it.step == "2 Base"
        await it.pick("other")
        await it.press("enter")
        await it.type("./ba")
        await it.press("tab", "enter")
        assert "Stable Diffusion 1.x" in it.text
        await it.press("enter")
        assert it.step == "3 Pictures"
        await it.type(f"'{place.PICTURES}/' ")
        await it.press("enter")
        await it.type("ohwx")
        await it.press("enter")
        assert "3 pictures" in it.text
        await it.press("enter")
        assert it.step == "4 Settings"
        await it.pick("train.steps")
        await it.press("enter")
        await it.type("120")
        await it.press("enter")
        assert "yours; recommended: 200" in it.text
        await it.press("ctrl+n")
        assert it.step == "5 Review"
        assert "120 steps" in it.text
        await it.press("enter")
        await it.press("enter")

    outcome = drive(script)
    assert outcome
    assert outcome.what == "saved"
    assert outcome.path == here / "my-dog-pictures.toml"
    bundle = read(outcome.path)
    assert bundle == outcome.bundle
    assert bundle.train.steps == 120
    assert bundle.dataset.sources[0].path == place.PICTURES
    found = check(bundle, survey(bundle, here, hardware=place.machine()))
    assert [p for p in found if p.severity == "error"] == []
    assert draft.load() is None
    again = begin(here, of_bundle(bundle, here, here)).knowing(hardware=place.machine())
    assert again.proposal.bundle == bundle


def test_training_is_an_outcome_and_keeps_the_draft_until_it_runs(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await to(it, "Review")
        await it.pick("detach")
        await it.press("enter")

    outcome = drive(script, ANSWERS)
    assert outcome
    assert outcome.what == "detach"
    assert outcome.bundle
    assert outcome.bundle.name == "my-dog-pictures"
    assert draft.load()


def test_errors_hold_training_up_and_warnings_do_not(drive: Drive, here: Path) -> None:
    (here / place.PICTURES / "cut [red]x.png").write_bytes(b"")

    async def script(it: Driven) -> None:
        await to(it, "Pictures")
        assert "cut [red]x.png" in it.text
        assert "Training waits" in it.text
        await to(it, "Review")
        await it.pick("train")
        await it.press("enter")
        assert it.app.return_value is None
        assert "1 error to mend first" in it.text
        (here / place.PICTURES / "cut [red]x.png").unlink()
        await it.press("3")
        assert it.step == "3 Pictures"
        await it.type(" ")
        await it.press("ctrl+n")
        await it.press("ctrl+n")
        assert "1 error" not in it.text

    drive(script, ANSWERS)


def test_a_base_that_is_on_this_machine_is_chosen_from_the_list(
    drive: Drive, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "ROOTS", ())
    folder = clean_home / "ComfyUI" / "models" / "checkpoints"
    folder.mkdir(parents=True)
    file = single_files.write_header(
        folder / "a model [v2].safetensors", single_files.small_shapes()
    )

    async def script(it: Driven) -> None:
        await it.press("enter")
        assert "a model [v2].safetensors" in it.text
        assert "ComfyUI, 4.9 MiB" in it.text
        await it.pick(str(file))
        await it.settle()
        assert "Stable Diffusion 1.x" in it.text
        await it.press("enter")
        assert it.step == "3 Pictures"
        assert it.app.state.answers.base == str(file)

    drive(script)


def test_a_base_that_is_none_is_not_passed(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await it.press("enter")
        await it.pick("other")
        await it.press("ctrl+n")
        assert "No base is given." in it.text
        await it.type("./nowhere")
        await it.press("enter")
        assert "no file or folder here, and no Hub id" in it.text
        await it.press("ctrl+n")
        assert it.step == "2 Base"

    drive(script)


def test_a_folder_that_is_none_is_said_at_once(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await to(it, "Pictures")
        await it.type("nowhere")
        await it.press("enter")
        assert "The folder nowhere does not exist." in it.text
        assert it.app.focused is it.app.screen.query_one("#folder")

    drive(script, ANSWERS)


@pytest.mark.parametrize("key", ["ctrl+n", "enter"])
def test_a_bad_value_stays_in_its_place_and_says_what_is_allowed(drive: Drive, key: str) -> None:
    async def script(it: Driven) -> None:
        await to(it, "Pictures")
        await it.press("ctrl+n")
        await to(it, "Settings")
        await it.pick("adapter.rank")
        await it.press("enter")
        await it.type("0")
        await it.press(key)
        assert it.step == "4 Settings"
        assert "1 to 1024" in it.text
        await it.press("escape")
        assert it.step == "4 Settings"
        assert it.app.screen.query_one("#settings").has_focus

    drive(script, ANSWERS)


def test_choices_are_gone_through_by_arrow_keys_and_r_takes_the_recommended_back(
    drive: Drive,
) -> None:
    async def script(it: Driven) -> None:
        await to(it, "Pictures")
        await it.press("ctrl+n")
        await to(it, "Settings")
        await it.pick("adapter.targets")
        await it.press("enter", "down")
        editor = it.app.screen.query_one("#editor", Input)
        assert editor.value == "attention"
        await it.press("enter")
        assert "yours; recommended: linear" in it.text
        await it.press("r")
        assert "yours" not in it.text

    drive(script, ANSWERS)


def test_going_back_keeps_what_was_typed(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await to(it, "Pictures")
        await it.type("half a pa")
        await it.press("escape")
        assert it.step == "2 Base"
        await it.press("enter")
        await it.press("enter")
        assert it.step == "3 Pictures"
        assert it.app.screen.query_one("#folder", Input).value == "half a pa"

    drive(script, ANSWERS)


def test_leaving_keeps_the_answers_and_the_next_start_goes_on(drive: Drive) -> None:
    async def first(it: Driven) -> None:
        await to(it, "Pictures")
        await it.press("ctrl+n")
        await to(it, "Settings")
        await it.pick("adapter.rank")
        await it.press("enter")
        await it.type("24")
        await it.press("enter")
        await it.press("ctrl+q")

    outcome = drive(first, ANSWERS)
    assert outcome
    assert outcome.what == "kept"

    async def second(it: Driven) -> None:
        assert "Go on with them" in it.text
        await it.press("enter")
        assert it.step == "4 Settings"
        assert "24" in it.text

    drive(second)


def test_half_typed_answers_are_kept_too(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await to(it, "Pictures")
        await it.type("~/pict")
        it.app.leave()

    drive(script, ANSWERS)
    found = draft.load()
    assert found
    assert found.step == "pictures"
    assert found.answers.folders[0].path == "~/pict"


def test_beginning_anew_has_no_old_answers(drive: Drive, here: Path) -> None:
    draft.save(ANSWERS, "settings", here)

    async def script(it: Driven) -> None:
        await it.press("down", "enter")
        assert it.step == "1 Machine"
        assert it.app.state.answers.base == PICO

    drive(script)


def test_nothing_answered_leaves_nothing_behind(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await it.press("ctrl+c")

    outcome = drive(script)
    assert outcome
    assert outcome.what == "left"
    assert draft.load() is None


def test_a_file_is_overwritten_only_when_asked_twice(drive: Drive, here: Path) -> None:
    there = here / "my-dog-pictures.toml"
    there.write_text("mine")

    async def script(it: Driven) -> None:
        await to(it, "Pictures")
        await it.press("ctrl+n")
        await to(it, "Review")
        await it.press("enter")
        await it.press("enter")
        assert "is there already" in it.text
        assert there.read_text() == "mine"
        await it.press("escape")
        assert it.step == "5 Review"
        await it.press("enter", "enter", "enter")

    outcome = drive(script, ANSWERS)
    assert outcome
    assert outcome.what == "saved"
    assert read(there) == outcome.bundle


def test_the_file_is_shown_as_it_will_be_written(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await to(it, "Pictures")
        await it.press("ctrl+n")
        await to(it, "Review")
        await it.size(80, 50)
        await it.press("v")
        assert 'name = "my-dog-pictures"' in it.text
        assert 'trigger = "ohwx"' in it.text

    drive(script, ANSWERS)


def test_a_bug_is_raised_and_the_answers_are_kept(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **named: object) -> None:
        raise ZeroDivisionError

    async def script(it: Driven) -> None:
        await to(it, "Base")
        monkeypatch.setattr("lorakit.wizard.look.scan", broken)
        await it.press("ctrl+n")

    with pytest.raises(Exception, match="ZeroDivisionError"):
        drive(script, ANSWERS)
    found = draft.load()
    assert found
    assert found.step == "pictures"
