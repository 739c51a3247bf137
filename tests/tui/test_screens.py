from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import place
import pytest
from driven import ANSWERS, Drive, Driven
from textual.events import Paste
from textual.widgets import Input

from lorakit.dataset.report import DatasetReport
from lorakit.families.base_model import usual
from lorakit.tui.app import SCREENS
from lorakit.tui.words import cells, plain
from lorakit.wizard import look, settings
from lorakit.wizard.answers import Answers, Folder
from lorakit.wizard.steps import STEPS

STEP_NAMES = [step.name for step in STEPS]


async def at(it: Driven, step: str) -> None:
    """Open a step with everything before it known."""
    from lorakit.wizard.look import again

    it.app.state, reached = again(it.app.state, step, lambda done, total: None)
    assert reached == step
    screen = SCREENS[step](it.app.state)
    await it.app.switch_screen(screen)
    await it.settle()


@pytest.mark.parametrize("step", STEP_NAMES)
def test_at_80x24_each_step_shows_title_question_and_keys(drive: Drive, step: str) -> None:
    async def script(it: Driven) -> None:
        await at(it, step)
        shown = it.text.splitlines()
        number = STEP_NAMES.index(step)
        assert f"[{number + 1} {STEPS[number].title}]" in shown[0]
        assert shown[2].strip() == STEPS[number].question
        assert shown[-1].strip() == it.app.screen.KEYS  # type: ignore[attr-defined]
        assert "esc" in shown[-1] or step == "machine"
        assert max(map(len, shown)) <= 80
        assert step in ("machine", "review") or ">" in it.text or "|" in it.text

    drive(script, ANSWERS)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=() if step == "settings" else pytest.mark.slow)
        for step in STEP_NAMES
    ],
)
def test_a_terminal_that_is_too_small_says_so_and_the_form_comes_back(
    drive: Drive, step: str
) -> None:
    async def script(it: Driven) -> None:
        await at(it, step)
        before = it.text
        focused = it.app.focused
        for width, height in ((20, 5), (60, 20), (1, 1), (79, 24), (80, 23)):
            await it.size(width, height)
            if width > 50:
                assert f"{width}x{height}. 80x24 needed" in it.text
        await it.press("enter")
        assert it.app.return_value is None
        await it.size(80, 24)
        assert it.text == before
        assert it.app.focused is focused
        await it.size(200, 60)
        assert STEPS[STEP_NAMES.index(step)].question in it.text

    drive(script, ANSWERS)


def test_it_starts_in_a_small_terminal_too(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        assert "80x24 needed" in it.text
        await it.size(80, 24)
        assert it.step == "1 Machine"

    drive(script, size=(40, 10))


def test_the_whole_reason_of_a_setting_is_to_be_read_at_80x24(drive: Drive) -> None:
    """Though its column is narrow, and what the setting does takes three lines."""
    model = "stabilityai/stable-diffusion-xl-base-1.0"

    async def script(it: Driven) -> None:
        state = it.app.state.answering(Answers(base=model))
        state = state.knowing(base=usual("sdxl", model), hardware=place.machine("rtx3060"))
        await it.app.switch_screen(SCREENS["settings"](state))
        await it.settle()
        await it.press(*["down"] * settings.FIRST.index("memory.checkpointing"), "down", "down")
        about = " ".join(" ".join(it.text.splitlines()[-8:]).split())
        reason = state.proposal.reasons["memory.checkpointing"]
        assert f"{reason[0].upper()}{reason[1:]}. You can choose: none, full" in about
        assert "Why not none: it takes" in about

    drive(script)


@pytest.mark.parametrize("step", STEP_NAMES)
def test_help_is_one_key_away_and_esc_closes_it(drive: Drive, step: str) -> None:
    async def script(it: Driven) -> None:
        await at(it, step)
        await it.press("f1")
        assert STEPS[STEP_NAMES.index(step)].about.split(".")[0][:40] in " ".join(it.text.split())
        await it.press("escape")
        assert "close" not in it.text

    drive(script, ANSWERS)


def test_what_people_call_things_is_never_markup(drive: Drive, here: Path) -> None:
    folder = Folder(path="[red]x[-red] [-old] :smile:", trigger="[b]ohwx[/]")
    odd = (here / place.PICTURES).rename(here / folder.path)
    (odd / "[bold] \x1b[2J.png").write_bytes(b"no picture")

    async def script(it: Driven) -> None:
        await at(it, "pictures")
        assert folder.path in it.text
        assert "[b]ohwx[/]" in it.text
        assert r"[bold] \x1b[2J.png" in it.text
        await it.press("ctrl+n")
        assert "[b]ohwx[/]" in it.text  # the prompt
        await it.press("ctrl+n")
        await it.size(80, 50)
        await it.press("v")
        assert "[b]ohwx[/]" in it.text
        assert "\x1b" not in it.text

    drive(script, replace(ANSWERS, folders=(folder,), name="odd"))


def test_what_has_been_seen_is_shown_while_the_rest_is_looked_at(
    drive: Drive, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / place.PICTURES / "0 [cut] \x1b[2J.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    shown, real = threading.Event(), look.scan

    def held(*given: Any, partly: look.Partly, **named: Any) -> DatasetReport:
        """A scan that waits behind its second picture until that has been shown."""
        calls = itertools.count(1)

        def seen(report: Callable[[], DatasetReport]) -> None:
            if next(calls) == 2:
                partly(report)
                shown.wait(20)

        return real(*given, partly=seen, **named)

    async def script(it: Driven) -> None:
        monkeypatch.setattr("lorakit.wizard.look.scan", held)
        await it.app.switch_screen(SCREENS["pictures"](it.app.state))
        while "used" not in it.text:
            await it.pilot.pause(0.01)
        part = it.text
        shown.set()
        await it.settle()
        assert "looked at" in part
        assert "1 picture\n" in part
        assert r"error       0 [cut] \x1b[2J.png begins like PNG" in part
        assert "looked at" not in it.text
        assert "3 pictures" in it.text

    drive(script, ANSWERS)


def test_the_family_of_an_unknown_hub_id_can_be_changed(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await at(it, "base")
        assert "taken for Stable Diffusion 1.x" in it.text
        assert max(map(len, it.text.splitlines())) <= 80
        assert "F2 other family" in it.text
        await it.press("f2", "f2")
        assert "taken for Stable Diffusion XL" in it.text
        assert "1024 x 1024" in it.text
        await it.press("enter")
        assert it.step == "3 Pictures"
        assert it.app.state.proposal.value("base.family") == "sdxl"
        assert it.app.state.proposal.preset.name == "sdxl-standard"

    drive(script, Answers(base="someone/some-model"))


def test_a_pasted_path_may_have_quotes_and_line_ends(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await at(it, "pictures")
        line = it.app.screen.query_one("#folder", Input)
        line.post_message(Paste(f"\n'{place.PICTURES}/'\n"))
        await it.settle()
        await it.press("enter")
        assert line.value == place.PICTURES
        assert it.app.screen.query_one("#trigger").has_focus

    drive(script, Answers(base="base"))


def test_tab_completes_and_shows_what_there_is(drive: Drive, here: Path) -> None:
    for name in ("set a", "set b"):
        (here / name).mkdir()

    async def script(it: Driven) -> None:
        await at(it, "pictures")
        await it.type("s")
        await it.press("tab")
        line = it.app.screen.query_one("#folder", Input)
        assert line.value == "set "
        assert "set a  set b" in it.text
        await it.type("b")
        await it.press("tab")
        assert line.value == "set b/"
        await it.press("tab")
        assert it.app.screen.query_one("#trigger").has_focus

    drive(script, Answers(base="base"))


def test_an_answer_to_an_older_question_is_not_taken(drive: Drive) -> None:
    async def script(it: Driven) -> None:
        await at(it, "base")
        await it.pilot.press("up", "up", "up", "down", "up")
        await it.settle()
        known = it.app.screen.state.known  # type: ignore[attr-defined]
        answers = it.app.screen.state.answers  # type: ignore[attr-defined]
        assert known.base is None or known.base.model == answers.base

    drive(script, ANSWERS)


def test_nothing_is_lost_where_many_problems_are_found(drive: Drive, here: Path) -> None:
    for n in range(30):
        (here / place.PICTURES / f"broken-{n:02}.png").write_bytes(b"")

    async def script(it: Driven) -> None:
        await at(it, "pictures")
        assert "30 errors" in it.text
        for _ in range(8):
            await it.press("pagedown")
        assert "broken-29.png" in it.text
        assert it.text.splitlines()[-1].strip().startswith("enter")

    drive(script, ANSWERS)


def test_cut_texts_are_as_wide_as_they_should_be() -> None:
    assert cells("abc", 5) == "abc  "
    assert cells("abcdef", 5) == "abc.."
    assert cells("漢字漢字", 5) == "漢 .."
    assert cells("\x1b[2J", 9) == r"\x1b[2J  "
    assert plain("[red]\x07\n").plain == "[red]\\x07\n"
