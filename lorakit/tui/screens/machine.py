"""Step 1: what this machine is."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from lorakit.hardware.facts import Hardware
from lorakit.tui.frame import StepScreen
from lorakit.tui.words import lines, plain, problems
from lorakit.wizard import look, summary


class MachineScreen(StepScreen):
    """Nothing to answer; the machine in words and what is doubtful about it."""

    STEP = "machine"
    KEYS = "enter next   ? help   ctrl+q leave, answers are kept"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "next", "next", id="machine.next", show=False)
    ]

    def body(self) -> list[Widget]:
        """One text."""
        return [
            VerticalScroll(Static(plain("Looking at this machine .."), id="found", classes="facts"))
        ]

    def on_mount(self) -> None:
        """Look, unless that was done."""
        if self.state.known.hardware:
            self._show(self.state.known.hardware)
        else:
            self.look(lambda progress: look.machine())

    @on(StepScreen.Found)
    def _found(self, message: StepScreen.Found) -> None:
        if isinstance(message.result, Hardware):
            self.state = self.state.knowing(hardware=message.result)
            self._show(message.result)

    def _show(self, hardware: Hardware) -> None:
        found = [*summary.of_machine(hardware)]
        if hardware.findings:
            found += [("", ""), *problems(hardware.findings)]
        self.query_one("#found", Static).update(lines(found))

    def action_next(self) -> None:
        """Go on once the machine is known."""
        if self.state.known.hardware:
            super().action_next()
