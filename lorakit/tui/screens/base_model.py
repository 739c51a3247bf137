"""Step 2: the model that the LoRA is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from lorakit.bundle.models import PICO
from lorakit.families.base_model import BaseFacts
from lorakit.families.families import FAMILIES
from lorakit.interop.models import Model
from lorakit.runs.words import size
from lorakit.tui.field import Field, Line, PathLine
from lorakit.tui.frame import StepScreen
from lorakit.tui.menu import Menu
from lorakit.tui.words import cells, lines, plain
from lorakit.wizard import look, summary
from lorakit.wizard.paths import tidy
from lorakit.wizard.state import State

OTHER = "other"


class BaseScreen(StepScreen):
    """Bases that are known by name, and a line for any other."""

    STEP = "base"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "names", "names", id="base.names", show=False),
        Binding("f2", "family", "family", id="base.family", show=False, priority=True),
    ]
    KEYS = "enter next   up/down choose   tab complete   esc back   F1 help   ctrl+q leave"

    GUESSED = "enter next   F2 other family   tab complete   esc back   F1 help   ctrl+q leave"

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._going_on = False
        self._here: tuple[Model, ...] = ()

    @dataclass
    class Here(Message):
        """The base models of this machine are known."""

        models: tuple[Model, ...]

    def body(self) -> list[Widget]:
        """Names, a line, and what the base says about itself."""
        other = "" if self.state.answers.base in self._names() else self.state.answers.base
        hint = "file, folder, or owner/name"
        line = PathLine(
            other, self.state.folder, id="other", placeholder=hint, files=(".safetensors",)
        )
        facts = VerticalScroll(Static(id="facts", classes="facts"), can_focus=False)
        return [Menu(id="bases"), Field("other", line), facts]

    def _names(self) -> list[str]:
        """pico, the bases that presets are made for, and those that are on this machine."""
        models = [p.settings.get("base", {}).get("model", "") for p in self.state.presets]
        here = [model.base for model in self._here]
        return list(dict.fromkeys([PICO, *filter(None, models), *here]))

    def _rows(self) -> list[tuple[str, str]]:
        """A line for each name, and one for any other base."""
        about = {m.base: f"{m.where}, {size(m.told.size_bytes)}" for m in self._here}
        about[PICO] = "comes with lorakit"
        short = {m.base: m.path.name for m in self._here if m.base == str(m.path)}
        names = self._names()
        rows = [(n, f"{cells(short.get(n, n), 44)}  {about.get(n, '')}") for n in names]
        return [*rows, (OTHER, "another one: a file or folder here, or a Hub id")]

    @work(thread=True, exclusive=True, group="models")
    def _find(self) -> None:
        self.post_message(self.Here(look.models()))

    @on(Here)
    def _found_here(self, message: Here) -> None:
        self._here = message.models
        self.query_one(Menu).show(self._rows())

    def on_mount(self) -> None:
        """The cursor is at the base chosen before."""
        known = self.state.answers.base in self._names()
        menu = self.query_one(Menu)
        menu.show(self._rows(), at=self.state.answers.base if known else OTHER)
        (menu if known else self.query_one("#other")).focus()
        self._take(self.state.answers.base)
        self._find()

    def gathered(self) -> State:
        """With the name under the cursor, or what is typed."""
        chosen = self.query_one(Menu).chosen
        typed = tidy(self.query_one("#other", Line).value, self.state.folder)
        return self.state.answering(
            self.state.answers.with_base(typed if chosen == OTHER else chosen)
        )

    def _take(self, model: str) -> None:
        """Make this the base, and look at it."""
        self.state = self.state.answering(self.state.answers.with_base(model))
        self.say("")
        if not model:
            self._show(None)
        elif self.state.known.base:
            self._show(self.state.known.base)
        else:
            self._show(None)
            asked = self.state
            self.look(lambda progress: look.base(asked.answers, asked.folder))

    @on(StepScreen.Found)
    def _found(self, message: StepScreen.Found) -> None:
        if message.asked is self.state and isinstance(message.result, BaseFacts):
            self.state = self.state.knowing(base=message.result)
            self._show(message.result)
            if self._going_on:
                self.action_next()

    @on(StepScreen.NotFound)
    def _nothing(self) -> None:
        self._going_on = False

    def _show(self, base: BaseFacts | None) -> None:
        found = lines(summary.of_base(base)) if base else plain("")
        self.query_one("#facts", Static).update(found)
        self.say_keys(self.GUESSED if base and base.guessed else self.KEYS)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, message: OptionList.OptionHighlighted) -> None:
        self._going_on = False
        self._take(self.gathered().answers.base)

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        if message.option_id == OTHER:
            self.query_one("#other").focus()
        else:
            self.action_next()

    @on(Input.Changed, "#other")
    def _typed(self) -> None:
        self._going_on = False
        if self.query_one("#other").has_focus:
            with self.prevent(OptionList.OptionHighlighted):  # half a path is not looked at
                self.query_one(Menu).highlighted = len(self._names())
        self.say("")

    def action_names(self) -> None:
        """From the line up to the names."""
        self.query_one(Menu).focus()

    def action_family(self) -> None:
        """Take a base that nobody knows for one of the next family."""
        base = self.state.known.base
        if base and base.guessed:
            names = list(FAMILIES)
            name = names[(names.index(base.family) + 1) % len(names)]
            self.state = self.state.answering(self.state.answers.with_family(name))
            self._take(base.model)

    @on(PathLine.Offered)
    def _offered(self, message: PathLine.Offered) -> None:
        self.say(message.value)

    @on(Input.Submitted, "#other")
    def _submitted(self) -> None:
        before = self.state.known.base
        self._take(self.gathered().answers.base)
        if before and self.state.known.base:
            self.action_next()

    def action_next(self) -> None:
        """Go on once the base is known to be one."""
        wanted = self.gathered()
        if not wanted.answers.base:
            self.say("No base is given.", "Type a file, a folder, or a Hub id such as owner/name.")
            self.query_one("#other").focus()
        elif wanted.known.base:
            super().action_next()
        else:
            self._going_on = True
            self._take(wanted.answers.base)
