"""A list with a mark at the line under the cursor, so that nothing depends on colour."""

from __future__ import annotations

from collections.abc import Sequence

from textual.widgets import OptionList
from textual.widgets.option_list import Option

from lorakit.tui.words import plain


class Menu(OptionList):
    """Lines to choose from, each one row high. `>` stands at the line that keys go to."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, markup=False)
        self._texts: list[str] = []

    def show(self, lines: Sequence[tuple[str, str]], at: str | None = None) -> None:
        """Other lines, by id; the cursor goes to `at`, or stays where it is."""
        before = self.highlighted_option
        wanted = at or (before.id if before else None)
        top = self.scroll_offset.y
        self._texts = [text for _, text in lines]
        ids = [name for name, _ in lines]
        with self.prevent(OptionList.OptionHighlighted):
            self.set_options([Option(plain(f"  {text}"), id=name) for name, text in lines])
            self.highlighted = ids.index(wanted) if wanted in ids else 0 if ids else None
        self.scroll_to(y=top, animate=False, immediate=True)
        if self.highlighted is not None:
            self.call_after_refresh(self.scroll_to_highlight)
        self._mark()

    @property
    def chosen(self) -> str:
        """The id of the line under the cursor."""
        option = self.highlighted_option
        return (option.id or "") if option else ""

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Move the mark with the cursor."""
        super().watch_highlighted(highlighted)
        self._mark()

    def watch_has_focus(self, focused: bool) -> None:
        """The mark is where keys go."""
        super().watch_has_focus(focused)
        self._mark()

    def _mark(self) -> None:
        for index, line in enumerate(self._texts):
            here = index == self.highlighted and self.has_focus
            text = plain(f"{'>' if here else ' '} {line}")
            if index < self.option_count and self.options[index].prompt != text:
                self.replace_option_prompt_at_index(index, text)
