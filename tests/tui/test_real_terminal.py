from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import place
import pytest
from driven import ANSWERS
from hypothesis import given
from hypothesis import strategies as st
from terminal import Terminal

from lorakit.wizard import draft

WIZARD = ("-m", "lorakit")

COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|[34]8;[25])[;m]")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    it = Terminal(*WIZARD)
    yield it
    it.close()


def test_a_kill_gives_the_terminal_back(terminal: Terminal) -> None:
    terminal.until("trains on")
    started = time.monotonic()
    terminal.child.kill(signal.SIGTERM)
    assert terminal.end() == 0
    assert time.monotonic() - started < terminal.soon
    for reset in (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?2004l"):
        assert reset in terminal.sent
    assert b"\x1b[?1000h" not in terminal.sent  # the mouse stays the terminal's own


@pytest.mark.parametrize("how", ["line", "signal"])
def test_a_dropped_line_ends_it_and_keeps_what_was_typed(
    terminal: Terminal, here: Path, how: str
) -> None:
    terminal.until("trains on")
    terminal.child.send("\r")
    terminal.until("comes with lorakit")
    terminal.child.send("\x1b[B\x1b[B\x1b[B\r")
    terminal.until("> other")
    terminal.child.send("./bas")
    terminal.until("./bas")
    if how == "line":
        assert terminal.hang_up() < terminal.soon
    else:
        terminal.child.kill(signal.SIGHUP)
        assert terminal.end() == 0
    found = draft.load()
    assert found
    assert found.answers.base == "./bas"
    assert found.step == "base"


@pytest.mark.slow
def test_bytes_of_an_old_mouse_do_no_harm(terminal: Terminal) -> None:
    terminal.until("trains on")
    terminal.child.send(b"\x1b[M#\x98%" + b"\xff\xfe" + b"\x1b[M \xc0\xc1")
    terminal.child.send("\r")
    terminal.until("Which model is the LoRA for?")
    terminal.child.send("\x11")
    assert terminal.end() == 0


@pytest.mark.slow
def test_a_read_of_many_pictures_does_not_hold_leaving_up(terminal: Terminal, here: Path) -> None:
    first = here / place.PICTURES / "0.png"
    for n in range(3000):
        (here / place.PICTURES / f"more-{n}.png").hardlink_to(first)
    draft.save(ANSWERS, "settings", here)
    terminal.until("Go on with them")
    terminal.child.send("\r")
    terminal.until("Looking at the pictures again")
    started = time.monotonic()
    terminal.child.send("\x11")
    terminal.end()
    assert time.monotonic() - started < terminal.soon


@given(st.lists(st.binary(max_size=12), max_size=6))
def test_no_bytes_break_the_reading_of_keys(parts: list[bytes]) -> None:
    from textual._xterm_parser import XTermParser

    from lorakit.tui.driver import Reader

    reader, parser = Reader(), XTermParser()
    for part in parts:
        for text in reader.texts(part):
            list(parser.feed(text))


@pytest.mark.slow
def test_no_color_means_none(here: Path) -> None:
    it = Terminal(*WIZARD, NO_COLOR="1")
    it.until("trains on")
    it.child.send("\r")
    it.until("comes with lorakit")
    it.child.send("\x03")
    assert it.end() == 0
    assert COLOUR.findall(it.sent) == []


@pytest.mark.slow
def test_it_draws_in_a_locale_without_utf8(here: Path) -> None:
    it = Terminal(*WIZARD, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    text = it.until("trains on")
    assert all(ord(c) < 128 for c in text)
    it.child.send("\x11")
    assert it.end() == 0
