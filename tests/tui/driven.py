"""A wizard driven by keys, in a terminal that is only thought of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import place
from textual.pilot import Pilot
from textual.widgets import OptionList

from lorakit.tui.app import WizardApp
from lorakit.wizard import draft
from lorakit.wizard.answers import Answers, Folder
from lorakit.wizard.outcome import Outcome
from lorakit.wizard.state import begin

ANSWERS = Answers(base="base", folders=(Folder(path=place.PICTURES, trigger="ohwx"),))


class Driven:
    """A wizard in a terminal of its own, driven by keys."""

    def __init__(self, pilot: Pilot[Outcome]) -> None:
        self.pilot = pilot
        self.app: WizardApp = pilot.app  # type: ignore[assignment]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def type(self, text: str) -> None:
        await self.pilot.press(*text)

    async def settle(self) -> None:
        """Wait until nothing is being looked at and nothing on screen moves any more."""
        before = None
        while before != (before := self.text) or self._looks:
            await self.pilot.pause(0.01)
            await self.pilot.pause()

    @property
    def _looks(self) -> bool:
        return any(not worker.is_finished for worker in self.app.workers)

    async def size(self, width: int, height: int) -> None:
        await self.pilot.resize_terminal(width, height)
        await self.settle()

    async def pick(self, name: str) -> None:
        """Move the cursor of the list to a line, by keys."""
        menu = self.app.screen.query_one(OptionList)
        for _ in range(menu.option_count):
            option = menu.highlighted_option
            if option and option.id == name:
                return
            await self.pilot.press("down")
        raise AssertionError(f"no line {name}")

    @property
    def text(self) -> str:
        """What the terminal shows."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    @property
    def step(self) -> str:
        """The title of the step in brackets."""
        first = self.text.splitlines()[0]
        return first.partition("[")[2].partition("]")[0]


Drive = Callable[..., Outcome | None]


def drive_in(
    folder: Path,
    script: Callable[[Driven], Awaitable[Any]],
    answers: Answers | None,
    size: tuple[int, int],
) -> Outcome | None:
    """Run a wizard in a folder with a script of keys; returns how it ended."""
    app = WizardApp(begin(folder, answers), draft.load())

    async def play() -> None:
        async with app.run_test(size=size) as pilot:
            driven = Driven(pilot)
            await driven.settle()
            await script(driven)

    asyncio.run(play())
    return app.return_value
