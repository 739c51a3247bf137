"""The wizard on a screen: which step is open, when answers are kept, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver as AnyDriver
from textual.geometry import Size

from lorakit.errors import LorakitError
from lorakit.hardware.facts import Hardware
from lorakit.tui.dialogs import HEIGHT, WIDTH, Resume, TooSmall
from lorakit.tui.frame import StepScreen
from lorakit.tui.screens.again import AgainScreen
from lorakit.tui.screens.base_model import BaseScreen
from lorakit.tui.screens.machine import MachineScreen
from lorakit.tui.screens.pictures import PicturesScreen
from lorakit.tui.screens.review import ReviewScreen
from lorakit.tui.screens.settings import SettingsScreen
from lorakit.wizard import draft
from lorakit.wizard.draft import Draft
from lorakit.wizard.outcome import Outcome
from lorakit.wizard.state import State, begin

SCREENS: dict[str, type[StepScreen]] = {
    screen.STEP: screen
    for screen in (MachineScreen, BaseScreen, PicturesScreen, SettingsScreen, ReviewScreen)
}


class WizardApp(App[Outcome]):
    """The steps one after the other. It returns how they ended and does nothing about it."""

    CSS_PATH = "lorakit.tcss"
    ENABLE_COMMAND_PALETTE = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q,ctrl+c", "quit", "leave", id="app.leave", priority=True),
    ]

    def __init__(
        self,
        state: State,
        found: Draft | None = None,
        instead: str = "Begin anew",
        driver_class: type[AnyDriver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class, ansi_color=True)
        self.animation_level = "none"  # a line over SSH pays for every frame
        self.theme = "ansi-dark"  # the terminal's own colours: half the bytes, none with NO_COLOR
        self.state = state
        self._draft = found
        self._instead = instead
        self.failure: Exception | None = None

    def on_mount(self) -> None:
        """Begin, or offer to go on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(RuntimeError, ValueError):  # not in a thread that is not main
                loop.add_signal_handler(number, self.leave)
        if self._draft is None:
            self.push_screen(SCREENS["machine"](self.state))
        else:
            self.push_screen(Resume(self._draft, self._instead), self._resume)
        self._fit(self.size)

    def _resume(self, go_on: bool | None) -> None:
        found = self._draft
        if go_on and found:
            answers = found.answers.moved(found.folder, self.state.folder)
            self.state = self.state.answering(answers)
            self.push_screen(AgainScreen(self.state, found.step))
        else:
            self.push_screen(SCREENS["machine"](self.state))

    @on(StepScreen.Moved)
    async def _moved(self, message: StepScreen.Moved) -> None:
        self.state = message.state
        draft.save(self.state.answers, message.step, self.state.folder)
        if isinstance(self.screen, TooSmall):
            await self.pop_screen()
        await self.switch_screen(SCREENS[message.step](self.state))
        self._fit(self.size)

    @on(ReviewScreen.Ended)
    def _ended(self, message: ReviewScreen.Ended) -> None:
        if message.outcome.what != "saved":  # a saved bundle has all answers
            self._keep()
        self.exit(message.outcome)

    def on_resize(self, event: events.Resize) -> None:
        """A terminal that is too small says so, and the step comes back as it was."""
        self._fit(event.size)

    def _fit(self, size: Size) -> None:
        small = size.width < WIDTH or size.height < HEIGHT
        if len(self.screen_stack) < 2:
            return  # nothing to cover yet
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    async def action_quit(self) -> None:
        """Leave with the answers kept."""
        self.leave()

    def leave(self) -> None:
        """Keep what is answered and typed, and end."""
        self.exit(Outcome(what="kept" if self._keep() else "left"))

    def _handle_exception(self, error: Exception) -> None:
        with contextlib.suppress(Exception):
            self._keep()
        self.failure = error
        super()._handle_exception(error)

    def _print_error_renderables(self) -> None:
        """Errors are printed once, by the command."""
        self._exit_renderables.clear()

    def _keep(self) -> bool:
        """Write the draft, unless nothing has been answered."""
        step = next((s for s in reversed(self.screen_stack) if isinstance(s, StepScreen)), None)
        if step is None:
            return self._draft is not None
        self.state = step.gathered()
        if step.STEP == "machine" and self._draft is None and not draft.path().exists():
            return False
        return draft.save(self.state.answers, step.STEP, self.state.folder)


def run(prefill: Path | None = None, hardware: Hardware | None = None) -> Outcome:
    """Ask all questions on this terminal; `prefill` is a bundle to start from, `hardware` a machine
    to ask for in the place of this one.

    The screen is closed when this returns. Raises LorakitError for a bundle that cannot be read.
    """
    from lorakit.tui.driver import Driver

    folder = _here()
    answers = None
    if prefill is not None:
        from lorakit.bundle.read import read
        from lorakit.wizard.answers import of_bundle

        answers = of_bundle(read(prefill), prefill.resolve().parent, folder)
    instead = f"Begin anew from {prefill.name}" if prefill else "Begin anew"
    state = begin(folder, answers).knowing(hardware=hardware)
    app = WizardApp(state, draft.load(), instead, Driver)
    outcome = app.run(mouse=False)
    if app.failure:
        raise app.failure
    return outcome or Outcome(what="left")


def _here() -> Path:
    try:
        return Path(os.getcwd())
    except OSError:
        raise LorakitError("The current folder is gone.", "Change to another one.") from None
