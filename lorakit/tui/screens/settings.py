"""Step 4: the settings, recommended with reasons, and changed in place."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Input, OptionList, Rule, Static

from lorakit.errors import LorakitError
from lorakit.tui.field import Line
from lorakit.tui.frame import StepScreen
from lorakit.tui.menu import Menu
from lorakit.tui.words import cells, plain
from lorakit.wizard import settings
from lorakit.wizard.settings import Row
from lorakit.wizard.state import State

SECTION, LABEL, VALUE = 10, 20, 16
"""Widths of the columns, in cells; the reason takes what is left."""

MARK = 2
MARGIN = 3
"""Left and right of the list, and its scrollbar."""

ALL = "all"


class Editor(Line):
    """A value in its place in the list. Up and down go through the values there are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", "leave it", id="editor.give-up"),
        Binding("up", "choose(-1)", "before", id="editor.up", show=False),
        Binding("down", "choose(1)", "after", id="editor.down", show=False),
    ]

    def __init__(self) -> None:
        super().__init__("", id="editor")
        self.row: Row | None = None

    def action_give_up(self) -> None:
        """Leave the value as it was. The list takes the focus back."""
        self.row = None
        self.display = False

    def action_choose(self, by: int) -> None:
        """The next or the last of the values to choose from."""
        choices = self.row.choices if self.row else ()
        if choices:
            at = choices.index(self.value) + by if self.value in choices else 0
            self.value = choices[at % len(choices)]
            self.select_all()


class SettingsScreen(StepScreen):
    """One row for each setting, and three lines about the one under the cursor."""

    STEP = "settings"
    KEYS = "enter change   r recommended   a all   ctrl+n next   esc back   ? help"
    EDITING = "enter take it   up/down choose   esc leave it as it was   ctrl+n take it, next"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "recommended", "recommended", id="settings.recommended"),
        Binding("a", "all", "all", id="settings.all"),
    ]

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._every = False
        self._rows: dict[str, Row] = {}

    def body(self) -> list[Widget]:
        """The list with the editor over it, and the lines about a setting."""
        return [
            Container(Menu(id="settings"), Editor(), id="sheet"),
            Rule(line_style="ascii"),
            Static(id="about"),
        ]

    def on_mount(self) -> None:
        """The cursor is at the first row."""
        self.query_one(Editor).display = False
        self.query_one(Menu).focus()
        self._show()

    def on_resize(self) -> None:
        """Reasons take the width there is."""
        if self.is_mounted:
            self._show()
            self._place()

    def _show(self, at: str | None = None) -> None:
        rows = settings.rows(self.state, every=self._every)
        self._rows = {row.key: row for row in rows}
        width = self.size.width - MARGIN - MARK
        shown, before = [], ""
        for row in rows:
            section = "" if row.section == before else row.section
            before = row.section
            shown.append((row.key, _line(row, section, width)))
        words = "fewer settings" if self._every else f"all {settings.count()} settings"
        shown.append((ALL, cells("", SECTION) + words))
        menu = self.query_one(Menu)
        menu.show(shown, at)
        self._explain(menu.chosen)
        if self.state.proposal.problems:
            problem = self.state.proposal.problems[0]
            self.say(problem.what, problem.fix)

    def _explain(self, key: str) -> None:
        row = self._rows.get(key)
        text = ""
        if row:
            why = f"{row.why[0].upper()}{row.why[1:]}. " if row.why else ""
            allowed = f"You can choose: {row.allowed}." if row.allowed else ""
            # The reason first: its column is too narrow for it, and four lines hold no more.
            text = f"{why}{allowed}\n{row.doc}".strip()
        self.query_one("#about", Static).update(plain(text))

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, message: OptionList.OptionHighlighted) -> None:
        self.say("")
        self._explain(message.option_id or "")

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        key = message.option_id or ""
        if key == ALL:
            self.action_all()
        else:
            self._edit(self._rows[key])

    def _edit(self, row: Row) -> None:
        editor = self.query_one(Editor)
        editor.row = row
        editor.value = row.value
        editor.display = True
        self._place()
        editor.focus()
        editor.select_all()
        self.say_keys(self.EDITING)

    def _place(self) -> None:
        """Put the editor over the value it edits."""
        editor, menu = self.query_one(Editor), self.query_one(Menu)
        if editor.row is None or menu.highlighted is None:
            return
        x = MARK + SECTION + LABEL
        wide = editor.row.key == settings.NAME or editor.row.key.startswith(settings.PROMPTS)
        editor.styles.offset = (x, menu.highlighted - menu.scroll_offset.y)
        editor.styles.width = self.size.width - MARGIN - x if wide else VALUE - 1

    @on(Input.Submitted, "#editor")
    def _submitted(self) -> None:
        self._commit()

    @on(Input.Changed, "#editor")
    def _typed(self) -> None:
        self.say("")

    @on(Editor.Blurred, "#editor")
    def _left(self) -> None:
        editor = self.query_one(Editor)
        editor.action_give_up()
        self.say("")
        self.say_keys(self.KEYS)
        self.query_one(Menu).focus()

    def _commit(self) -> bool:
        """Take what is in the editor. False where the value may not be."""
        editor = self.query_one(Editor)
        row = editor.row
        if row is None:
            return True
        try:
            if editor.value.strip() != row.value:
                self.state = settings.enter(self.state, row.key, editor.value)
        except LorakitError as error:
            self.say(error.message, error.hint)
            return False
        editor.action_give_up()
        self._show(row.key)
        return True

    def action_recommended(self) -> None:
        """Take the recommended value back."""
        key = self.query_one(Menu).chosen
        if key in self._rows:
            self.state = settings.reset(self.state, key)
            self._show(key)

    def action_all(self) -> None:
        """Show every setting, or those most people look at."""
        self._every = not self._every
        self._show()

    def action_next(self) -> None:
        """Go on with what is in the editor taken."""
        if self._commit():
            super().action_next()


def _line(row: Row, section: str, width: int) -> str:
    left = cells(section, SECTION) + cells(row.label, LABEL - 1) + " "
    rest = width - SECTION - LABEL
    if row.key.startswith(settings.PROMPTS):
        return left + cells(row.value or row.why, rest)
    return left + cells(row.value, VALUE - 1) + " " + cells(row.why, rest - VALUE)
