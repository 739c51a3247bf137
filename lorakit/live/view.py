"""The panel as a view of a run: what the loop of `follow` draws on."""

from __future__ import annotations

import time
from typing import TextIO

from lorakit.live.bars import can_draw
from lorakit.live.panel import Surroundings, render
from lorakit.live.screen import Screen
from lorakit.runs.events import Event
from lorakit.runs.state import RunState
from lorakit.runs.status import Status

OWNER_KEYS = "Ctrl-C stop and save   d detach   s save   p pictures"
WATCHER_KEYS = "Ctrl-C or q leave, it goes on   x stop   s save   p pictures"


class PanelView:
    """Draws the panel on a terminal, once a second and when something is said."""

    takes_keys = True

    def __init__(self, stream: TextIO, owner: bool, title: str) -> None:
        self._screen = Screen(stream)
        self._around = Surroundings(
            title=title,
            footer=OWNER_KEYS if owner else WATCHER_KEYS,
            ascii_only=not can_draw(stream.encoding or "ascii"),
        )
        self._shown: tuple[RunState, Status] | None = None

    def open(self) -> None:
        """Take the terminal and draw what is known."""
        self._screen.enter()
        self._draw()

    def close(self) -> None:
        """Give the terminal back as it was."""
        self._screen.leave()

    def redraw(self) -> None:
        """Draw everything anew, at the size that the terminal has now."""
        self._screen.redraw()
        self._draw()

    def show(self, fresh: list[tuple[Event, RunState]], state: RunState, status: Status) -> None:
        """Draw the state. Events matter only by what they changed in it."""
        self._shown = state, status
        self._draw()

    def say(self, text: str) -> None:
        """Put a line above the keys."""
        self._around = self._around._replace(message=text)
        self._draw()

    def _draw(self) -> None:
        if self._shown is None:
            return
        state, status = self._shown
        width, height = self._screen.size
        self._screen.draw(render(state, width, height, time.time(), status, self._around))
