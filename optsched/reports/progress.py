"""Live progress line on a terminal: time, incumbent, bound and gap."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Event, optimality_gap
from optsched.runtime.text import readable

if TYPE_CHECKING:
    from optsched.compare import Standing


class ProgressLine:
    """A terminal line that is rewritten, and erased at the end; silent without a terminal.

    `prefix` is printed before every text; `stream` is standard error by default.
    """

    def __init__(self, prefix: str = "", stream: TextIO | None = None) -> None:
        self.stream, self.prefix = stream or sys.stderr, prefix
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Only if something was written.
        if self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self.show_text(event_text(event))

    def show_text(self, text: str) -> None:
        """Show a text, replacing the previous one."""
        # A pipe gets no live line: its reader would see all of them.
        if self.stream.isatty():
            from shutil import get_terminal_size

            # A longer line would wrap and could not be rewritten.
            line = readable(f"{self.prefix}{text}")[: get_terminal_size().columns - 1]
            self.stream.write("\r" + line.ljust(self._width))
            self.stream.flush()
            self._width = len(line)


def event_text(event: Event) -> str:
    """Return incumbent, bound and gap as text; a bound of 0 stands for no bound yet."""
    best, bound = event.incumbent, f"bound {format_bytes(event.bound)}"
    # A bound of 0 stands for an unknown one, not for a gap of 100 %.
    if best and not event.bound:
        bound = "no bound yet"
    elif best is not None:
        bound += f"  gap {100 * optimality_gap(best, event.bound):.2f} %"
    return f"{event.seconds:7.2f} s  best {format_bytes(best)}  {bound}  {event.source}"


class PausedLine(ProgressLine):
    """A live line on a terminal, or periodic lines elsewhere."""

    PAUSE = 30.0
    """Minimum seconds between two lines without a terminal."""

    def __enter__(self) -> Self:
        self.last = time.monotonic()
        return self

    def show_or_pause(self, text: str) -> None:
        """Show a text on a terminal; elsewhere, print it if the last line is old enough."""
        self.show_text(text)
        if not self.stream.isatty() and time.monotonic() - self.last >= self.PAUSE:
            self.last = time.monotonic()
            print(readable(text), file=self.stream, flush=True)


class StudyProgress(PausedLine):
    """Progress of a comparison of many graphs."""

    def show(self, standing: Standing) -> None:
        """Show the progress of the run."""
        name = Path(standing.instance).name.removesuffix(".gz").removesuffix(".json")
        text = f"[{standing.done}/{standing.total} done] {name}"
        if standing.method:
            text += f"  {standing.method}"
        if standing.event is not None:
            text += f"  {event_text(standing.event)}"
        self.show_or_pause(text)
