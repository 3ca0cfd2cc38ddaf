"""A live line on a terminal: time, incumbent, bound, gap."""

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
    """Rewrites one line of a terminal, and wipes it in the end; says nothing where there is none.

    The prefix is put before every line; standard error is written to by default.
    """

    def __init__(self, prefix: str = "", stream: TextIO | None = None) -> None:
        self.stream, self.prefix = stream or sys.stderr, prefix
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self.say(event_text(event))

    def say(self, text: str) -> None:
        """Show a text in place of the line before."""
        if self.stream.isatty():
            from shutil import get_terminal_size

            # A longer line would wrap, and could not be rewritten.
            line = readable(f"{self.prefix}{text}")[: get_terminal_size().columns - 1]
            self.stream.write("\r" + line.ljust(self._width))
            self.stream.flush()
            self._width = len(line)


def event_text(event: Event) -> str:
    """Return incumbent, bound and gap in a line; a bound of 0 is there before any is worked out."""
    best, bound = event.incumbent, f"bound {format_bytes(event.bound)}"
    if best and not event.bound:
        bound = "no bound yet"
    elif best is not None:
        bound += f"  gap {100 * optimality_gap(best, event.bound):.2f} %"
    return f"{event.seconds:7.2f} s  best {format_bytes(best)}  {bound}  {event.source}"


class PausedLine(ProgressLine):
    """A live line on a terminal, elsewhere a line now and then."""

    PAUSE = 30.0
    """Seconds between two lines where there is no terminal."""

    def __enter__(self) -> Self:
        self.last = time.monotonic()
        return self

    def say_or_pause(self, text: str) -> None:
        """Show a text, unless another went out not long ago and stays."""
        self.say(text)
        if not self.stream.isatty() and time.monotonic() - self.last >= self.PAUSE:
            self.last = time.monotonic()
            print(readable(text), file=self.stream, flush=True)


class StudyProgress(PausedLine):
    """Where a comparison of many graphs is."""

    def show(self, standing: Standing) -> None:
        """Show where the run is."""
        name = Path(standing.instance).name.removesuffix(".gz").removesuffix(".json")
        text = f"[{standing.done}/{standing.total} done] {name}"
        if standing.method:
            text += f"  {standing.method}"
        if standing.event is not None:
            text += f"  {event_text(standing.event)}"
        self.say_or_pause(text)
