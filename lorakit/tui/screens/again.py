"""Between a draft and its step: what the earlier steps found out is found out again."""

from __future__ import annotations

from textual import on
from textual.widget import Widget
from textual.widgets import Static

from lorakit.tui.frame import StepScreen
from lorakit.tui.words import plain
from lorakit.wizard import look
from lorakit.wizard.state import State


class AgainScreen(StepScreen):
    """Nothing to answer; it goes on by itself."""

    STEP = "machine"
    KEYS = "esc the first step   ctrl+q leave, answers are kept"

    def __init__(self, state: State, to: str) -> None:
        super().__init__(state)
        self._to = to

    def body(self) -> list[Widget]:
        """One line."""
        return [
            Static(
                plain("Looking at machine, base and pictures again .."), id="found", classes="facts"
            )
        ]

    def on_mount(self) -> None:
        """Look at all of it."""
        state, to = self.state, self._to
        self.look(lambda progress: look.again(state, to, progress))

    @on(StepScreen.Progressed)
    def _progressed(self, message: StepScreen.Progressed) -> None:
        text = f"Looking at the pictures again: {message.done} of {message.total}"
        self.query_one("#found", Static).update(plain(text))

    @on(StepScreen.Found)
    def _found(self, message: StepScreen.Found) -> None:
        if isinstance(message.result, tuple):
            state, step = message.result
            self.state = state
            self.move(step)

    def action_next(self) -> None:
        """It goes on by itself."""

    def action_back(self) -> None:
        """Do not wait."""
        self.move("machine")
