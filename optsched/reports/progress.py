"""Live progress on a terminal, drawn by Rich: work done, rate, time left, and the latest result.

Without a terminal a short run is silent, and a long one prints a line from time to time. A search
that has to wait for the compiler prints the best plan so far, once: on a new machine the answer of
the heuristics comes long before the kernels of the exact searches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from optsched.runtime.bytes import format_bytes
from optsched.runtime.kernel import also_report_compiling
from optsched.runtime.limits import Event
from optsched.runtime.text import most_less, readable

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task

    from optsched.compare import Standing

BAR_COLUMNS = 10
"""Width of the bar."""


class ProgressLine:
    """A terminal line that is redrawn four times a second, and erased at the end.

    `prefix`: text before every text. `stream`: standard error by default; if it is not a terminal,
    the line is silent but for one event when kernels are compiled. `seconds`: time limit, which the
    bar and the time left refer to; None if the parts that :meth:`show_text` is given are counted.
    `count`: function that returns the numbers of parts done and of all parts, called at each
    redrawing.
    """

    def __init__(
        self,
        prefix: str = "",
        stream: TextIO | None = None,
        *,
        seconds: float | None = None,
        count: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self.stream, self.prefix, self.count = stream or sys.stderr, prefix, count
        self.seconds = seconds if seconds is not None and seconds < float("inf") else None
        self._begin = time.monotonic()
        self._bar: Progress | None = None
        self._task: Any = None
        self._stack = ExitStack()
        self._latest: Event | None = None
        self._is_waiting = False

    def __enter__(self) -> Self:
        self._stack.enter_context(also_report_compiling(self._show_answer))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self._latest = event
        self.show_text(event_text(event))
        if self._is_waiting:
            self._show_answer()

    def _show_answer(self) -> None:
        """Print the best plan so far where no line is drawn, or as soon as there is a plan."""
        self._is_waiting = self._latest is None or self._latest.incumbent is None
        if self._latest is not None and not self._is_waiting and not self.stream.isatty():
            text = readable(f"{self.prefix}{event_text(self._latest)}", 1000)
            print(f"optsched: {text}; Ctrl-C keeps the best plan", file=self.stream, flush=True)

    def show_text(self, text: str, done: int = 0, total: int | None = None) -> None:
        """Show a text, replacing the previous one, and the parts done so far if they are known."""
        if not self.stream.isatty():
            return
        line = readable(f"{self.prefix}{text}".strip(), 1000)
        if self._bar is None:
            # Not before there is something to show: importing Rich takes some 60 ms.
            self._bar = self._draw()
            self._task = self._bar.add_task(line, completed=done, total=total)
            self._bar.start()
        self._bar.update(self._task, description=line, completed=done, total=total, refresh=True)

    def _draw(self) -> Progress:
        from rich.console import Console
        from rich.progress import Progress, TextColumn
        from rich.table import Column

        # Names of ops may contain `:x:` or `[b]`, which Rich would take as an emoji or as markup.
        console = Console(file=self.stream, emoji=False)
        words = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        text = TextColumn("{task.description}", markup=False, table_column=words)
        return Progress(
            _pace_column(self),
            text,
            console=console,
            # Erased at the end: only results stay on the terminal.
            transient=True,
            expand=True,
            refresh_per_second=4,
            # Results on standard output are not part of this line.
            redirect_stdout=False,
        )

    def standing(self, done: float, total: float | None) -> tuple[float, float | None]:
        """Return the work done and all of it: parts, or seconds of the limit."""
        if self.count is not None:
            return self.count()
        return (time.monotonic() - self._begin, self.seconds) if total is None else (done, total)

    def pace(self, done: float, total: float | None) -> str:
        """Return parts done, rate and time left; with a time limit, time used and left."""
        elapsed = time.monotonic() - self._begin
        if total is None:
            return duration(elapsed)
        # `standing` gave seconds in place of parts: the bar runs with the time limit.
        if self.count is None and total == self.seconds:
            return f"{duration(elapsed)}, {duration(max(0.0, total - elapsed))} left"
        return f"{done:,.0f}/{total:,.0f}{rate_text(done, total, elapsed)}"


def _pace_column(line: ProgressLine) -> ProgressColumn:
    """Return the column with the bar and the pace of a line."""
    from rich.progress import ProgressColumn
    from rich.progress_bar import ProgressBar
    from rich.table import Column, Table

    class Pace(ProgressColumn):
        def render(self, task: Task) -> Table:
            done, total = line.standing(task.completed, task.total)
            grid = Table.grid(Column(no_wrap=True), Column(no_wrap=True), padding=(0, 1))
            bar = ProgressBar(total=total, completed=min(done, total or done), width=BAR_COLUMNS)
            grid.add_row(*([] if total is None else [bar]), line.pace(done, total))
            return grid

    return Pace(table_column=Column(no_wrap=True))


def rate_text(done: float, total: float, seconds: float) -> str:
    """Return the rate of parts, and the time left once a twentieth of them is done."""
    if not done or seconds <= 0:
        return ""
    # Slow work is told per minute, so that the rate is never "0.0/s".
    each = seconds / done
    rate = f"{1 / each:,.1f}/s" if each < 1 else f"{60 / each:,.1f}/min"
    # The first parts wait for compilers, so that they say little about the others.
    left = f", {duration(each * (total - done))} left" if 20 * done >= total else ""
    return f", {rate}{left}"


def duration(seconds: float) -> str:
    """Format seconds as hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def event_text(event: Event) -> str:
    """Return incumbent, bound and gap as text; a bound of 0 stands for no bound yet."""
    best, bound = event.incumbent, f"bound {format_bytes(event.bound)}"
    if best and not event.bound:
        bound = "no bound yet"
    elif best is not None:
        bound += f"  gap {most_less(best, event.bound)}"
    return f"best {format_bytes(best)}  {bound}  {event.source}  at {event.seconds:.2f} s"


class PausedLine(ProgressLine):
    """A live line on a terminal, or periodic lines elsewhere."""

    PAUSE = 30.0
    """Minimum seconds between two lines without a terminal."""

    def __enter__(self) -> Self:
        self.last = time.monotonic()
        return super().__enter__()

    def show_or_pause(self, text: str, done: int, total: int) -> None:
        """Show a text on a terminal; elsewhere, print it if the last line is old enough."""
        self.show_text(text, done, total)
        if not self.stream.isatty() and time.monotonic() - self.last >= self.PAUSE:
            self.last = time.monotonic()
            line = f"[{self.pace(done, total)}] {text}"
            print(readable(line, 1000), file=self.stream, flush=True)


class StudyProgress(PausedLine):
    """Progress of a comparison of many graphs."""

    def show(self, standing: Standing) -> None:
        """Show the progress of the run."""
        text = Path(standing.path).name.removesuffix(".gz").removesuffix(".json")
        if standing.method:
            text += f"  {standing.method}"
        if standing.event is not None:
            text += f"  {event_text(standing.event)}"
        self.show_or_pause(text, standing.done, standing.total)
