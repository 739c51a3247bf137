"""Textual's driver for a terminal at the far end of a line, which may send anything or vanish."""

from __future__ import annotations

import os
import re
import selectors
from codecs import getincrementaldecoder
from collections.abc import Iterator

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

_OLD_MOUSE = re.compile(rb"\x1b\[M[\x20-\xff]{3}")
"""A mouse report of the oldest kind: three raw bytes, which are often no UTF-8.

A terminal that was left with its mouse on by another program sends them, after tmux attaches again
for one.
"""


class Reader:
    """Turns what a terminal sends into text, without what is none."""

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")("ignore").decode

    def texts(self, received: bytes) -> Iterator[str]:
        """The text in some bytes, if any: an empty one would tell the parser that it is over."""
        if text := self._decode(_OLD_MOUSE.sub(b"", received)):
            yield text


class Driver(LinuxDriver):
    """Drops bytes that are no UTF-8, where Textual's own driver ends the app, and leaves at the
    end of input, where that one spins."""

    def run_input_thread(self) -> None:
        """Read and dispatch input until the app ends or the terminal is gone."""
        parser, reader = XTermParser(self._debug), Reader()
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    try:
                        received = os.read(self.fileno, 4096)
                    except OSError:
                        received = b""
                    if not received:
                        self._app.call_later(self._app.action_quit)
                        return
                    for text in reader.texts(received):
                        for event in parser.feed(text):
                            self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
