"""A live line on a terminal: time, incumbent, bound, gap."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Event, optimality_gap
from optsched.runtime.text import readable

if TYPE_CHECKING:
    from optsched.compare import Standing


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
        self.say(event_text(event))

    def say(self, text: str) -> None:
        """Show a text in place of the line before."""
        if self.stream.isatty():
            # A longer line would wrap, and could not be rewritten.
            line = readable(f"{self.prefix}{text}")[: shutil.get_terminal_size().columns - 1]
            self.stream.write("\r" + line.ljust(self._width))
            self.stream.flush()
            self._width = len(line)

    def clear(self) -> None:
        """Wipe the line."""
        if self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()
            self._width = 0


def event_text(event: Event) -> str:
    """Return incumbent, bound and gap in a line."""
    gap = ""
    if event.incumbent is not None:
        gap = f"  gap {100 * optimality_gap(event.incumbent, event.bound):.2f} %"
    return (
        f"{event.seconds:7.2f} s  best {format_bytes(event.incumbent)}"
        f"  bound {format_bytes(event.bound)}{gap}  {event.source}"
    )


class StudyProgress:
    """Where a comparison of many graphs is: a live line on a terminal, else a line now and then.

    Parameters
    ----------
    stream
        Where to write; standard error by default.
    """

    PAUSE = 30.0
    """Seconds between two lines where there is no terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.line = ProgressLine(stream)
        self.last = time.monotonic()

    def __enter__(self) -> StudyProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.line.clear()

    def __call__(self, standing: Standing) -> None:
        """Show where the run is."""
        text = f"[{standing.done}/{standing.total} done] {_stem(standing.instance)}"
        if standing.method:
            text += f"  {standing.method}"
        if standing.event is not None:
            text += f"  {event_text(standing.event)}"
        if self.line.stream.isatty():
            self.line.say(text)
        elif time.monotonic() - self.last >= self.PAUSE:
            self.last = time.monotonic()
            print(readable(text), file=self.line.stream, flush=True)


def _stem(path: str) -> str:
    return Path(path).name.removesuffix(".gz").removesuffix(".json")
