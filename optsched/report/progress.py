"""A live line on a terminal: time, incumbent, bound, gap."""

from __future__ import annotations

import sys
from typing import TextIO

from optsched.report.bytes import format_bytes
from optsched.result import Event, optimality_gap


class ProgressLine:
    """Rewrites one line of a terminal; says nothing where the stream is none.

    Parameters
    ----------
    stream
        Where to write; standard error by default.
    prefix
        Put before every line.
    """

    def __init__(self, stream: TextIO | None = None, prefix: str = "") -> None:
        self.stream = stream or sys.stderr
        self.prefix = prefix
        self._width = 0

    def __call__(self, event: Event) -> None:
        """Show an event."""
        gap = ""
        if event.incumbent is not None:
            gap = f"  gap {100 * optimality_gap(event.incumbent, event.bound):.2f} %"
        self.say(
            f"{event.seconds:7.2f} s  best {format_bytes(event.incumbent)}"
            f"  bound {format_bytes(event.bound)}{gap}  {event.source}"
        )

    def say(self, text: str) -> None:
        """Show a text in place of the line before."""
        if self.stream.isatty():
            line = f"{self.prefix}{text}"
            self.stream.write("\r" + line.ljust(self._width))
            self.stream.flush()
            self._width = len(line)

    def clear(self) -> None:
        """Wipe the line."""
        if self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()
            self._width = 0
