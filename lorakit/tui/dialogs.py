"""What lies over a step for a moment."""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static

from lorakit.errors import LorakitError
from lorakit.tui.field import Field, Line
from lorakit.tui.menu import Menu
from lorakit.tui.words import plain
from lorakit.wizard.draft import Draft
from lorakit.wizard.outcome import file_for
from lorakit.wizard.steps import NAMES, STEPS

WIDTH, HEIGHT = 80, 24
"""The least that a step needs, in cells."""


class TooSmall(ModalScreen[None]):
    """The terminal has less than 80 x 24 cells. The step below keeps all that is typed."""

    def compose(self) -> ComposeResult:
        """One sentence."""
        yield Static(id="small")

    def on_resize(self, event: events.Resize) -> None:
        """Say how small it is."""
        width, height = event.size
        text = f"Terminal too small: {width}x{height}. {WIDTH}x{HEIGHT} needed."
        self.query_one("#small", Static).update(plain(text))


class Help(ModalScreen[None]):
    """A text to read. Any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,f1,question_mark,q", "close", "close", id="help.close")
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._heading = title
        self._text = text

    def compose(self) -> ComposeResult:
        """Title, text, key."""
        with Vertical(classes="dialog tall"):
            yield Static(plain(self._heading), classes="title")
            with VerticalScroll():
                yield Static(plain(self._text))
            yield Static(plain("up and down scroll   esc close"), classes="dialog-keys")

    def action_close(self) -> None:
        """Back to the step."""
        self.dismiss()


class Resume(ModalScreen[bool | None]):
    """Asks whether to go on with the answers of an earlier time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.quit", "leave", id="resume.leave")
    ]

    def __init__(self, found: Draft, instead: str) -> None:
        super().__init__()
        self._draft = found
        self._instead = instead

    def compose(self) -> ComposeResult:
        """When it was, what about, and what to do."""
        found = self._draft
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.saved_at))
        pictures = found.answers.folders[0].path or "none yet"
        title = STEPS[NAMES.index(found.step)].title
        with Vertical(classes="dialog"):
            yield Static(plain("There are answers of an earlier time."), classes="title")
            yield Static(
                plain(f"kept at    {when}\nname       {found.answers.run_name}\n")
                + plain(
                    f"base       {found.answers.base}\npictures   {pictures}\nup to      {title}"
                )
            )
            yield Menu(id="resume")
            yield Static(plain("enter choose   esc leave"), classes="dialog-keys")

    def on_mount(self) -> None:
        """Going on is what is usually meant."""
        menu = self.query_one(Menu)
        menu.show([("on", "Go on with them"), ("new", self._instead)])
        menu.focus()

    @on(OptionList.OptionSelected)
    def _chosen(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(message.option_id == "on")


class SaveAs(ModalScreen[Path | None]):
    """Asks for the name of a file, and again before one is overwritten."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "back", id="save.back")]

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__()
        self._file = name
        self._folder = folder
        self._warned: Path | None = None

    def compose(self) -> ComposeResult:
        """The file's name, and the folder it goes to."""
        with Vertical(classes="dialog"):
            yield Static(plain("Save the bundle as"), classes="title")
            yield Field("file", Line(self._file, id="file"))
            yield Static(plain(f"in {self._folder}"), id="into")
            yield Static(id="save-said")
            yield Static(plain("enter save   esc back"), classes="dialog-keys")

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one("#file").focus()

    def action_close(self) -> None:
        """Back to the review."""
        self.dismiss(None)

    @on(Input.Changed)
    def _changed(self) -> None:
        self._warned = None
        self.query_one("#save-said", Static).update("")

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        said = self.query_one("#save-said", Static)
        try:
            path = file_for(message.value, self._folder)
            if not path.parent.is_dir():
                raise LorakitError(f"The folder {path.parent} does not exist.", "Choose another.")
        except LorakitError as error:
            said.update(plain(f"{error.message}\n{error.hint}"))
            return
        if path.exists() and self._warned != path:
            self._warned = path
            said.update(plain(f"{path.name} is there already. Enter again overwrites it."))
            return
        self.dismiss(path)
