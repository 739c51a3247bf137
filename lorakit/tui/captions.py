"""Changes to captions from within the wizard: what, the difference, and only then the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static

from lorakit.dataset import difference, edits, journal
from lorakit.dataset.edits import Plan
from lorakit.dataset.journal import Entry
from lorakit.errors import LorakitError
from lorakit.runs.words import clean, plural
from lorakit.tui.field import Field, Line
from lorakit.tui.menu import Menu
from lorakit.tui.words import plain

SHOWN = 50
"""Captions whose difference is shown; of more, the rest is counted."""

WIDTH = 70


@dataclass(frozen=True, slots=True)
class _Action:
    """One line of the menu."""

    name: str
    title: str
    fields: tuple[str, ...]
    """What has to be typed first."""


_ACTIONS = (
    _Action("trigger", "Put a trigger before every caption", ("trigger",)),
    _Action("replace", "Find and replace", ("find", "replace by")),
    _Action("remove", "Leave out a tag", ("tag",)),
    _Action("fill", "Write missing captions from the folder's name", ()),
    _Action("count", "Count tags", ()),
    _Action("undo", "Take back the last change", ()),
)


class EditCaptions(ModalScreen[bool]):
    """Gives whether a file was changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", id="captions.back"),
        Binding("pagedown", "read(1)", "read on", id="captions.read", priority=True),
        Binding("pageup", "read(-1)", "read back", id="captions.unread", priority=True),
        Binding("enter", "agree", "write", id="captions.write"),
    ]

    @dataclass
    class Shown(Message):
        """There is a text to read, and perhaps something to agree to."""

        text: str
        said: str
        agreed: Callable[[], str] | None = None
        """Writes, and says what was written."""

    def __init__(self, folders: Sequence[Path], trigger: str) -> None:
        super().__init__()
        self._folders = tuple(edits.outermost(folders))
        self._trigger = trigger
        self._action: _Action | None = None
        self._agreed: Callable[[], str] | None = None
        self._changed = False

    def compose(self) -> ComposeResult:
        """What to do, what has to be typed for it, the difference."""
        with Vertical(classes="dialog tall"):
            yield Static(plain("Captions"), classes="title", id="captions-title")
            yield Menu(id="captions-menu")
            yield Vertical(id="captions-fields")
            yield VerticalScroll(Static(id="captions-text"), id="captions-scroll", can_focus=False)
            yield Static(id="captions-said")
            yield Static(id="captions-keys", classes="dialog-keys")

    def on_mount(self) -> None:
        """Choose first."""
        self.query_one(Menu).show([(a.name, a.title) for a in _ACTIONS])
        self._choose()

    def _choose(self, said: str = "") -> None:
        self._action = self._agreed = None
        self.query_one("#captions-title", Static).update(plain("Captions"))
        self.query_one("#captions-fields").remove_children()
        self._show("", said, "enter choose   esc close")
        menu = self.query_one(Menu)
        menu.display = True
        menu.focus()

    def _show(self, text: str, said: str, keys: str) -> None:
        self.query_one("#captions-text", Static).update(plain(text))
        self.query_one("#captions-scroll").scroll_home(animate=False)
        self.query_one("#captions-said", Static).update(plain(said))
        self.query_one("#captions-keys", Static).update(plain(keys))

    @on(OptionList.OptionSelected)
    async def _chosen(self, message: OptionList.OptionSelected) -> None:
        action = next(a for a in _ACTIONS if a.name == message.option_id)
        self._action = action
        self.query_one(Menu).display = False
        self.query_one("#captions-title", Static).update(plain(action.title))
        if not action.fields:
            self._look(action, [])
            return
        fields = self.query_one("#captions-fields")
        for number, label in enumerate(action.fields):
            value = self._trigger if label == "trigger" else ""
            await fields.mount(Field(label, Line(value, id=f"captions-{number}")))
        self._show("", "", "enter next, then the difference is shown   esc back")
        fields.query(Line).first().focus()

    @on(Input.Submitted)
    def _typed(self, message: Input.Submitted) -> None:
        message.stop()
        lines = list(self.query_one("#captions-fields").query(Line))
        at = lines.index(message.input)  # type: ignore[arg-type]
        if at + 1 < len(lines):
            lines[at + 1].focus()
        elif self._action and self._agreed is None:
            self._look(self._action, [line.value for line in lines])
        else:
            self.action_agree()

    @on(Input.Changed)
    def _retyped(self) -> None:
        if self._agreed:
            self._agreed = None
            self._show("", "", "enter show the difference   esc back")

    def action_agree(self) -> None:
        """Write what was shown."""
        if self._agreed:
            agreed, self._agreed = self._agreed, None
            self._write(agreed)

    def action_read(self, by: int) -> None:
        """Scroll the difference by a page."""
        text = self.query_one("#captions-scroll")
        text.scroll_relative(y=by * max(text.size.height - 1, 1), animate=False)

    def action_back(self) -> None:
        """Back to the menu, and from there to the pictures."""
        if self._action is None:
            self.dismiss(self._changed)
        else:
            self._choose()

    @work(thread=True, exclusive=True)
    def _look(self, action: _Action, typed: list[str]) -> None:
        try:
            self.post_message(_look(action, typed, self._folders))
        except LorakitError as error:
            self.post_message(self.Shown("", f"{error.message} {error.hint}"))

    @work(thread=True, exclusive=True)
    def _write(self, agreed: Callable[[], str]) -> None:
        try:
            said = agreed()
        except LorakitError as error:
            said = f"{error.message} {error.hint}"
        self._changed = True
        self.app.call_from_thread(self._choose, said)

    @on(Shown)
    def _found(self, message: Shown) -> None:
        if self._action is None:  # somebody went back while it was looked for
            return
        self._agreed = message.agreed
        keys = "enter write   pgup/pgdn read   esc back" if message.agreed else "esc back"
        self._show(message.text, message.said, keys)
        if not self._action.fields:
            self.set_focus(None)


def _look(action: _Action, typed: list[str], folders: Sequence[Path]) -> EditCaptions.Shown:
    """What an action would do, or what it says. Raises LorakitError."""
    if action.name == "count":
        counts = sum((edits.tags(folder) for folder in folders), start=Counter[str]())
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        text = "\n".join(f"{number:>6}  {clean(tag)}" for tag, number in ranked[:500])
        return EditCaptions.Shown(text, plural(len(ranked), "different tag") + ".")
    if action.name == "undo":
        return _undoing(journal.newest(folders))
    plans = [_plan(action.name, typed, folder) for folder in folders]
    for plan in plans:
        for error in plan.refused:
            raise error
    rows = [(e.name, e.old, e.new) for plan in plans for e in plan.edits]
    elsewhere = sum(plan.elsewhere for plan in plans)
    more = (
        f" {plural(elsewhere, 'picture')} with captions in .json files or tables stay as they are."
        if elsewhere
        else ""
    )
    if not rows:
        return EditCaptions.Shown("", f"No caption would change.{more}")

    def write() -> str:
        journal.apply(*plans)
        return f"{plural(len(rows), 'caption')} changed; the old texts are kept."

    return EditCaptions.Shown(
        _listed(rows), f"{plural(len(rows), 'caption')} would change. Enter writes.{more}", write
    )


def _undoing(entries: Sequence[Entry]) -> EditCaptions.Shown:
    if not entries:
        return EditCaptions.Shown("", "There is no change to take back.")
    rows = [(e.name, e.new, e.old) for entry in entries for e in entry.edits]

    def back() -> str:
        return f"{plural(journal.undo(*entries), 'caption')} as before."

    what = "; ".join(dict.fromkeys(clean(entry.what) for entry in entries))
    return EditCaptions.Shown(_listed(rows), f"This takes back: {what}.", back)


def _plan(name: str, typed: list[str], folder: Path) -> Plan:
    if name == "fill":
        return edits.fill(folder)
    if name == "trigger":
        return edits.plan(folder, f"put {typed[0]} before captions", edits.trigger(typed[0]))
    if name == "remove":
        return edits.plan(folder, f"leave out {typed[0]}", edits.remove(typed[0].split(",")))
    found = edits.replace(typed[0], typed[1])
    return edits.plan(folder, f"replace {typed[0]} by {typed[1] or 'nothing'}", found)


def _listed(rows: list[tuple[str, str, str]]) -> str:
    lines = []
    for name, old, new in rows[:SHOWN]:
        lines += [clean(name), *difference.lines(old, new, WIDTH)]
    if len(rows) > SHOWN:
        lines.append(f"and {len(rows) - SHOWN:,} more")
    return "\n".join(lines)
