"""Step 3: the pictures to learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from lorakit.dataset.report import DatasetReport
from lorakit.errors import LorakitError
from lorakit.runs.words import plural
from lorakit.tui.captions import EditCaptions
from lorakit.tui.field import Field, Line, PathLine
from lorakit.tui.frame import StepScreen
from lorakit.tui.words import Throttle, lines, plain, problems
from lorakit.wizard import look, summary
from lorakit.wizard.paths import tidy
from lorakit.wizard.state import State

NAMED = 5
"""So many files that cannot be used are named while others are still being looked at."""


class PicturesScreen(StepScreen):
    """A folder and a trigger, and below them what the folder holds."""

    @dataclass
    class SoFar(Message):
        """What has been seen by now."""

        report: DatasetReport
        asked: State

    STEP = "pictures"
    KEYS = "enter next   tab complete   pgup/pgdn read   F2 captions   esc back   F1 help"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", "field before", id="pictures.up", show=False),
        Binding("down", "app.focus_next", "next field", id="pictures.down", show=False),
        Binding("pagedown", "read(1)", "read on", id="pictures.read", priority=True),
        Binding("pageup", "read(-1)", "read back", id="pictures.back", priority=True),
        Binding("f2", "captions", "captions", id="pictures.captions", priority=True),
    ]

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._looked = ".."
        """How many pictures have been looked at."""
        self._seen: list[tuple[str, str]] = []
        """What they came to."""

    def body(self) -> list[Widget]:
        """Two lines and the report."""
        answers = self.state.answers
        first = answers.folders[0]
        folder = PathLine(
            answers.typed,
            self.state.folder,
            id="folder",
            placeholder="such as ~/photos/dog",
        )
        trigger = Line(first.trigger, id="trigger", placeholder="such as ohwx dog; may be empty")
        report = VerticalScroll(
            Static(id="report", classes="facts"), id="report-scroll", can_focus=False
        )
        return [Field("folder", folder), Field("trigger", trigger), report]

    def on_mount(self) -> None:
        """Show what is known, and look where there is something to look at."""
        self.query_one("#folder").focus()
        if self.state.known.report:
            self._show(self.state.known.report)
        elif self.state.answers.folders[0].path:
            self._look()
        else:
            self._hint()

    def _hint(self) -> None:
        more = len(self.state.answers.folders) - 1
        text = "Its pictures are read once, and what is wrong with them is shown here."
        if more:
            text += f"\nThe bundle names {plural(more, 'more folder')}, kept as they are."
        self.query_one("#report", Static).update(plain(text))

    def gathered(self) -> State:
        """With folder and trigger as typed."""
        folder = tidy(self.query_one("#folder", Line).value, self.state.folder)
        trigger = self.query_one("#trigger", Line).value.strip()
        return self.state.answering(self.state.answers.with_typed(folder, trigger))

    def _look(self) -> None:
        self.state = self.gathered()
        asked = self.state
        self._show_trigger()
        self.say("")
        self._looked, self._seen = "..", []
        self._show_seen()

        def see(progress: look.Progress) -> State:
            laid_out = look.laid_out(asked)
            throttle = Throttle(1.0)

            def partly(report: Callable[[], DatasetReport]) -> None:
                if throttle.lets_through():
                    self.post_message(self.SoFar(report(), asked))

            return laid_out.knowing(report=look.pictures(laid_out, progress, partly))

        self.look(see)

    def _show_trigger(self) -> None:
        field = self.query_one("#trigger", Line)
        with field.prevent(Input.Changed):
            field.value = self.state.answers.folders[0].trigger

    @on(StepScreen.Progressed)
    def _progressed(self, message: StepScreen.Progressed) -> None:
        self._looked = f"{message.done:,} of {plural(message.total, 'picture')}"
        self._show_seen()

    @on(SoFar)
    def _so_far(self, message: SoFar) -> None:
        if message.asked is self.state and self.state.known.report is None:
            self._seen = [*summary.of_pictures(message.report), *_broken(message.report)]
            self._show_seen()

    def _show_seen(self) -> None:
        found = [("looked at", self._looked), *self._seen]
        self.query_one("#report", Static).update(lines(found))

    @on(StepScreen.Found)
    def _found(self, message: StepScreen.Found) -> None:
        found = message.result
        if message.asked is self.state and isinstance(found, State) and found.known.report:
            typed = self.query_one("#trigger", Line).value.strip()
            kept = typed == self.state.answers.folders[0].trigger
            self.state = found
            if kept:
                self._show_trigger()
            self._show(found.known.report)

    def _show(self, report: DatasetReport) -> None:
        found = [*summary.of_folders(self.state.answers.folders), *summary.of_pictures(report)]
        if report.findings:
            found += [("", ""), *problems(report.findings)]
        self.query_one("#report", Static).update(lines(found))
        self.query_one("#report-scroll").scroll_home(animate=False)
        words = summary.of_problems(report.findings)
        if any(p.severity == "error" for p in report.findings):
            self.say(f"{words}. Training waits until errors are mended.", "Enter goes on anyway.")
        else:
            self.say(f"{words[0].upper()}{words[1:]}. Enter goes on.")

    @on(StepScreen.NotFound)
    def _nothing(self, message: StepScreen.NotFound) -> None:
        if message.asked is self.state:
            self._hint()

    @on(Input.Changed)
    def _typed(self, message: Input.Changed) -> None:
        if not isinstance(message, PathLine.Offered):
            self.say("")

    @on(PathLine.Offered)
    def _offered(self, message: PathLine.Offered) -> None:
        self.say(message.value)

    @on(Input.Submitted, "#folder")
    def _folder_given(self, message: Input.Submitted) -> None:
        wanted = self.gathered()
        path = wanted.answers.folders[0].path
        message.input.value = path
        try:
            look.folder(path, self.state.folder)
        except LorakitError as error:
            self.say(error.message, error.hint)
        else:
            self.query_one("#trigger").focus()

    @on(Input.Submitted, "#trigger")
    def _trigger_given(self) -> None:
        self.action_next()

    def action_read(self, by: int) -> None:
        """Scroll the report by a page."""
        self.read(self.query_one("#report-scroll"), by)

    def action_captions(self) -> None:
        """Change captions; what was changed is looked at again."""
        wanted = self.gathered()
        try:
            places = [
                look.folder(folder.path, wanted.folder)
                for folder in wanted.answers.folders
                if folder.path
            ]
        except LorakitError as error:
            self.say(error.message, error.hint)
            return
        if not places:
            self.say("There is no folder yet.", "Type where the pictures are.")
            return
        trigger = wanted.answers.folders[0].trigger
        self.app.push_screen(EditCaptions(places, trigger), self._edited)

    def _edited(self, changed: bool | None) -> None:
        if changed:
            self.state = self.gathered().knowing(report=None)
            self._look()

    def action_next(self) -> None:
        """Look at what is typed; go on where that has been done and there are pictures."""
        wanted = self.gathered()
        report = wanted.known.report
        if report is None:
            self._look()
        elif not report.pictures:
            first = report.findings[0]
            self.say(first.what, first.fix)
        else:
            super().action_next()


def _broken(report: DatasetReport) -> Iterator[tuple[str, str]]:
    """The first files that cannot be used."""
    for label, found in zip(["error", *[""] * (NAMED - 1)], report.unusable, strict=False):
        yield label, found.why
    if len(report.unusable) > NAMED:
        yield "", f"and {len(report.unusable) - NAMED:,} more"
