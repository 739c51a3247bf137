"""A label and a line to type in."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from lorakit.tui.words import LABEL, cells, plain
from lorakit.wizard.paths import complete


class Line(Input):
    """One line to type in. A pasted text of several lines becomes one."""

    cursor_blink = False

    def __init__(self, value: str, *, id: str, placeholder: str = "") -> None:
        super().__init__(value, id=id, placeholder=placeholder, compact=True)
        self.cursor_blink = False

    def _on_paste(self, event: events.Paste) -> None:
        event.text = " ".join(event.text.splitlines()).strip()  # Textual's own handler follows


class PathLine(Line):
    """A path: tab completes it, and goes on where there is nothing to complete."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "complete", id="path.complete", show=False)
    ]

    def __init__(
        self,
        value: str,
        folder: Path,
        *,
        id: str,
        placeholder: str = "",
        files: tuple[str, ...] = (),
    ) -> None:
        super().__init__(value, id=id, placeholder=placeholder)
        self.folder = folder
        self._files = files
        """Ends of the names of files that it may be."""

    class Offered(Input.Changed):
        """There are several names that the path may go on with."""

    def action_complete(self) -> None:
        """Complete the path as a shell does."""
        completed, names = (
            complete(self.value, self.folder, self._files) if self.value else ("", [])
        )
        if completed != self.value:
            self.value = completed
            self.cursor_position = len(completed)
        elif not names:
            self.screen.focus_next()
        if names:
            self.post_message(self.Offered(self, "  ".join(names)))


class Field(Horizontal):
    """A label with a line behind it; `>` stands at the one that keys go to."""

    def __init__(self, label: str, line: Line) -> None:
        super().__init__(classes="field")
        self._label = label
        self.line = line

    def compose(self) -> ComposeResult:
        """Label and line."""
        yield Static(classes="label")
        yield self.line

    def on_mount(self) -> None:
        """Without the mark, until the line has the focus."""
        self._mark(False)

    @on(events.DescendantFocus)
    def _focused(self) -> None:
        self._mark(True)

    @on(events.DescendantBlur)
    def _blurred(self) -> None:
        self._mark(False)

    def _mark(self, here: bool) -> None:
        mark = ">" if here else " "
        self.query_one(".label", Static).update(plain(cells(f"{mark} {self._label}", LABEL + 3)))
