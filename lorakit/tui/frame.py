"""What every step looks like: where one is, the question, the answer, a line for trouble, keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Rule, Static
from textual.worker import get_current_worker

from lorakit.errors import LorakitError
from lorakit.tui.dialogs import Help
from lorakit.tui.words import Throttle, plain
from lorakit.wizard.state import State
from lorakit.wizard.steps import NAMES, STEPS


class StepScreen(Screen[None]):
    """One step. It holds the state, changes it, and says where to go on."""

    STEP: ClassVar[str]
    KEYS: ClassVar[str] = "enter next   esc back   ? help   ctrl+q leave, answers are kept"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+n", "next", "next", id="wizard.next", priority=True),
        Binding("escape", "back", "back", id="wizard.back"),
        Binding("f1", "about", "help", id="wizard.help", priority=True),
        Binding("question_mark", "about", "help", id="wizard.about", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The person goes to another step."""

        state: State
        step: str

    @dataclass
    class Found(Message):
        """A look that was started has an answer."""

        result: object
        asked: State
        """The state that it was started with: an answer to an older question is no answer."""

    @dataclass
    class NotFound(Message):
        """A look that was started came to nothing."""

        error: LorakitError
        asked: State

    @dataclass
    class Progressed(Message):
        """A look is so far."""

        done: int
        total: int

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state
        self.step = STEPS[NAMES.index(self.STEP)]

    def compose(self) -> ComposeResult:
        """The frame, with the step's own widgets in it."""
        yield Static(plain(_trail(self.STEP)), id="trail")
        yield Rule(line_style="ascii")
        yield Static(plain(self.step.question), id="question")
        yield Vertical(*self.body(), id="body")
        yield Rule(line_style="ascii")
        yield Static(id="said")
        yield Static(plain(self.KEYS), id="keys")

    def body(self) -> list[Widget]:
        """The step's own widgets."""
        raise NotImplementedError

    def gathered(self) -> State:
        """The state with what is typed at this moment."""
        return self.state

    def say(self, what: str, fix: str = "") -> None:
        """Two lines above the keys: what is the matter, and the way out."""
        self.query_one("#said", Static).update(plain(f"{what}\n{fix}" if fix else what))

    def say_keys(self, keys: str) -> None:
        """What the keys do now."""
        self.query_one("#keys", Static).update(plain(f"{keys}"))

    def read(self, text: Widget, pages: int) -> None:
        """Scroll a text by pages, with a line of the last one left in sight."""
        text.scroll_relative(y=pages * max(text.size.height - 1, 1), animate=False)

    def move(self, step: str) -> None:
        """Go to another step with all answers."""
        self.post_message(self.Moved(self.state, step))

    def action_next(self) -> None:
        """Go to the next step."""
        self.state = self.gathered()
        index = NAMES.index(self.STEP)
        if index + 1 < len(NAMES):
            self.move(NAMES[index + 1])

    def action_back(self) -> None:
        """Go to the step before."""
        self.state = self.gathered()
        index = NAMES.index(self.STEP)
        if index:
            self.move(NAMES[index - 1])

    def action_about(self) -> None:
        """Show what the step is for."""
        self.app.push_screen(Help(self.step.title, self.step.help))

    @work(thread=True, exclusive=True, group="look")
    def look(self, call: Callable[[Callable[[int, int], None]], object]) -> None:
        """Call something that blocks, with a function to report progress to."""
        worker, throttle, asked = get_current_worker(), Throttle(1.0), self.state

        def progress(done: int, total: int) -> None:
            if worker.is_cancelled:
                raise _Cancelled
            if throttle.lets_through():
                self.post_message(self.Progressed(done, total))

        try:
            result = call(progress)
        except _Cancelled:
            return
        except LorakitError as error:
            self.post_message(self.NotFound(error, asked))
        else:
            self.post_message(self.Found(result, asked))

    @on(NotFound)
    def _say_error(self, message: NotFound) -> None:
        if message.asked is self.state:
            self.say(message.error.message, message.error.hint)


class _Cancelled(Exception):
    """Nobody waits for the answer any more."""


def _trail(current: str) -> str:
    """All steps, the current one in brackets; nothing moves when another becomes current."""
    parts = (
        f"[{n} {step.title}]" if step.name == current else f" {n} {step.title} "
        for n, step in enumerate(STEPS, 1)
    )
    return " ".join(parts)
