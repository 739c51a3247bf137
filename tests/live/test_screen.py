from __future__ import annotations

import io
from collections.abc import Callable

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Group
from rich.text import Text

from lorakit.live.screen import Screen


class Terminal(io.StringIO):
    """A stream that a terminal stands behind."""

    def __init__(self, width: int = 20, height: int = 4) -> None:
        super().__init__()
        self.shown = pyte.Screen(width, height)
        self._feed = pyte.Stream(self.shown)
        self.sent = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.sent += text
        self._feed.feed(text)
        return len(text)

    def take(self) -> str:
        sent, self.sent = self.sent, ""
        return sent


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def size(width: int, height: int) -> None:
        monkeypatch.setattr(Screen, "size", property(lambda self: (width, height)))

    size(20, 4)
    return size


def test_only_what_has_changed_is_sent(sized: Callable[[int, int], None]) -> None:
    terminal = Terminal()
    screen = Screen(terminal)
    screen.enter()
    screen.draw(Group(Text("step 10 of 100"), Text("loss 0.5")))
    assert terminal.shown.display[0].rstrip() == "step 10 of 100"
    terminal.take()
    screen.draw(Group(Text("step 11 of 100"), Text("loss 0.5")))
    assert terminal.shown.display[0].rstrip() == "step 11 of 100"
    assert terminal.take() == "\x1b[1;7H1"
    screen.draw(Group(Text("step 11 of 100"), Text("loss 0.5")))
    assert terminal.take() == ""


def test_what_was_longer_is_wiped(sized: Callable[[int, int], None]) -> None:
    terminal = Terminal()
    screen = Screen(terminal)
    screen.enter()
    screen.draw(Group(Text("a long line"), Text("second")))
    screen.draw(Text("short"))
    assert [line.rstrip() for line in terminal.shown.display] == ["short", "", "", ""]


def test_a_new_size_is_drawn_anew(sized: Callable[[int, int], None]) -> None:
    terminal = Terminal()
    screen = Screen(terminal)
    screen.enter()
    screen.draw(Text("0123456789"))
    sized(8, 2)
    terminal.shown.resize(2, 8)
    screen.redraw()
    screen.draw(Group(*[Text("abcdefghij", no_wrap=True, overflow="crop")] * 5))
    assert terminal.shown.display == ["abcdefgh"] * 2


def test_leaving_undoes_what_entering_did_and_only_once(sized: Callable[[int, int], None]) -> None:
    terminal = Terminal()
    screen = Screen(terminal)
    screen.enter()
    entered = terminal.take()
    screen.leave()
    left = terminal.take()
    for mode in ("?1049", "?25", "?7"):
        assert f"{mode}h" in entered + left
        assert f"{mode}l" in entered + left
    screen.leave()
    assert terminal.take() == ""


def test_no_colour_means_no_colour(
    sized: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, expected in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", value)
        terminal = Terminal()
        screen = Screen(terminal)
        screen.draw(Text("failed", style="red"))
        assert ("\x1b[31m" in terminal.take()) is expected


WORDS = st.lists(st.text(st.sampled_from("ab猫é\u0301█ "), max_size=24), min_size=1, max_size=5)


@settings(max_examples=80)
@given(frames=st.lists(WORDS, min_size=2, max_size=4))
def test_after_any_sequence_of_frames_the_last_one_is_shown(frames: list[list[str]]) -> None:
    """What is left on a terminal is what a terminal shows that got the last frame alone."""

    def shown(sequence: list[list[str]]) -> list[str]:
        terminal = Terminal()
        screen = Screen(terminal)
        type(screen).size = property(lambda self: (20, 4))  # type: ignore[method-assign,assignment]
        screen.enter()
        for frame in sequence:
            screen.draw(Group(*[Text(w, no_wrap=True, overflow="crop") for w in frame]))
        return terminal.shown.display

    original = Screen.size
    try:
        assert shown(frames) == shown(frames[-1:])
    finally:
        Screen.size = original  # type: ignore[method-assign]
