"""Step 5: all of it once more, and what to do with it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import OptionList, Rule, Static

from lorakit.bundle.write import dump
from lorakit.errors import LorakitError
from lorakit.runs.words import plural
from lorakit.tui.dialogs import SaveAs
from lorakit.tui.frame import StepScreen
from lorakit.tui.menu import Menu
from lorakit.tui.words import cells, lines, plain, problems
from lorakit.wizard import look, outcome, summary
from lorakit.wizard.look import Reviewed
from lorakit.wizard.outcome import Outcome
from lorakit.wizard.state import State
from lorakit.wizard.steps import NAMES

ACTIONS = {
    "save": ("Save the bundle", "a TOML file, to train or share later"),
    "train": ("Train now", "and follow it here; ctrl+c there stops and saves"),
    "detach": ("Train detached", "and return to the shell; lorakit watch shows it"),
    "leave": ("Leave", "the answers are kept for the next time"),
}


class ReviewScreen(StepScreen):
    """Problems first, then a line for each section, or the file; below, what to do."""

    STEP = "review"
    KEYS = "enter choose   v the file   pgup/pgdn read   1-4 go to   ? help   esc back"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "file", "the file", id="review.file"),
        Binding("pagedown", "read(1)", "read on", id="review.down", priority=True),
        Binding("pageup", "read(-1)", "read back", id="review.up", priority=True),
        *(
            Binding(str(n), f"visit('{name}')", name, id=f"review.{name}", show=False)
            for n, name in enumerate(NAMES[:-1], 1)
        ),
    ]

    class Ended(Message):
        """The person has chosen what to do."""

        def __init__(self, outcome: Outcome) -> None:
            super().__init__()
            self.outcome = outcome

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._reviewed: Reviewed | None = None
        self._as_file = False

    def body(self) -> list[Widget]:
        """A text to read and four things to do."""
        text = VerticalScroll(Static(id="text", classes="facts"), id="text-scroll", can_focus=False)
        return [text, Rule(line_style="ascii"), Menu(id="actions")]

    def on_mount(self) -> None:
        """Check it as `lorakit train` would."""
        self._show_actions()
        self.query_one(Menu).focus()
        state, bundle = self.state, self.state.proposal.bundle
        if bundle is None:
            self._show()
            return
        self.query_one("#text", Static).update(plain("Checking .."))
        self.look(lambda progress: look.review(bundle, state, progress))

    @on(StepScreen.Progressed)
    def _progressed(self, message: StepScreen.Progressed) -> None:
        text = f"Checking: picture {message.done} of {message.total}"
        self.query_one("#text", Static).update(plain(text))

    @on(StepScreen.Found)
    def _found(self, message: StepScreen.Found) -> None:
        if isinstance(message.result, Reviewed):
            self._reviewed = message.result
            self._show()
            self._show_actions()

    def _show_actions(self) -> None:
        rows = []
        for name, (title, about) in ACTIONS.items():
            if name in ("train", "detach") and (waits := self._waits()):
                about = waits
            rows.append((name, cells(title, 20) + about))
        self.query_one(Menu).show(rows)

    def _waits(self) -> str:
        """Why training cannot start; empty where it can."""
        if self.state.proposal.bundle is None:
            return "waits: the settings are not complete"
        if self._reviewed is None:
            return "waits until all is checked"
        errors = self._reviewed.errors
        return f"waits: {plural(errors, 'error')} to mend first" if errors else ""

    def _show(self) -> None:
        text = self.query_one("#text", Static)
        bundle, proposal = self.state.proposal.bundle, self.state.proposal
        if bundle is None:
            text.update(lines(problems(proposal.problems)))
            self.say("These have to be mended first.", "esc goes back to the settings.")
        elif self._as_file:
            text.update(plain(self._written()))
        elif self._reviewed:
            facts, found = self._reviewed.facts, self._reviewed.problems
            rows = [*problems(found)]
            if rows:
                rows.append(("", ""))
            for section, words in summary.of_bundle(bundle, facts):
                verdict = summary.verdict(section, found)
                rows.append((section, words if verdict == "ok" else f"{words}  ({verdict})"))
            text.update(lines(rows))
            said = summary.of_problems(found)
            self.say(f"{bundle.name}: {said}.")

    def _written(self) -> str:
        bundle = self.state.proposal.bundle
        try:
            return dump(bundle, self.state.proposal.reasons) if bundle else ""
        except LorakitError as error:
            return error.message

    def action_file(self) -> None:
        """Show the file as it would be written, or the summary again."""
        self._as_file = not self._as_file
        self._show()
        self.query_one("#text-scroll").scroll_home(animate=False)
        shown = self.KEYS.replace("v the file", "v summary") if self._as_file else self.KEYS
        self.say_keys(shown)

    def action_read(self, by: int) -> None:
        """Scroll the text by a page."""
        self.read(self.query_one("#text-scroll"), by)

    def action_visit(self, step: str) -> None:
        """Go to a step."""
        self.move(step)

    def action_next(self) -> None:
        """There is no next step: choose what to do."""
        self.say("This is the last step.", "Choose below what to do with it.")

    @on(OptionList.OptionSelected)
    def _selected(self, message: OptionList.OptionSelected) -> None:
        what, bundle = message.option_id, self.state.proposal.bundle
        waits = self._waits()
        if what == "leave":
            self.app.call_later(self.app.action_quit)
        elif bundle is None or (waits and what != "save"):
            self.say(f"{ACTIONS[what or 'train'][0]} {waits}.", "1 to 4 go to the steps.")
        elif what == "save":
            self.app.push_screen(SaveAs(f"{bundle.name}.toml", self.state.folder), self._save)
        else:
            self.post_message(
                self.Ended(
                    Outcome(
                        what="detach" if what == "detach" else "train",
                        bundle=bundle,
                        reasons=self.state.proposal.reasons,
                        folder=self.state.folder,
                        estimate=self._reviewed.facts.estimate if self._reviewed else None,
                    )
                )
            )

    def _save(self, path: object) -> None:
        proposal = self.state.proposal
        if path is None or proposal.bundle is None:
            return
        from pathlib import Path

        assert isinstance(path, Path)
        try:
            ended = outcome.save(proposal.bundle, proposal.reasons, path, self.state.folder)
        except LorakitError as error:
            self.say(error.message, error.hint)
        else:
            self.post_message(self.Ended(ended))
