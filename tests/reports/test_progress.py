"""Progress of a long run: redrawn on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import re

import pytest

from optsched.compare import Standing
from optsched.reports.progress import ProgressLine, StudyProgress, event_text, rate_text
from optsched.runtime import kernel as kernel_module
from optsched.runtime.limits import Event
from optsched.solver.warmup import count_compiled


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


EVENT = Event(1.5, 2048, 1024, "order search")
STANDING = Standing(3, 9, "some/net.json.gz", "optsched", EVENT)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def test_a_terminal_sees_graphs_done_rate_time_left_incumbent_and_bound() -> None:
    stream = Terminal()
    with StudyProgress(stream=stream) as progress:
        progress._begin -= 6.0
        progress.show(STANDING)
        shown = plain(stream.getvalue())
        progress.show(Standing(4, 9, "other.json"))
    assert re.search(r"3/9, \d\d\.\d/min, 0:00:1\d left net", shown)
    assert "net  optsched  best 2.0 KiB  bound 1.0 KiB  gap 50.0 %" in shown
    # At the end the line is erased.
    assert stream.getvalue().endswith("\x1b[1A\x1b[2K")


def test_a_search_shows_the_time_that_its_limit_leaves() -> None:
    stream = Terminal()
    with ProgressLine(stream=stream, seconds=600.0) as line:
        line(EVENT)
    assert re.search(r"0:00:00, 0:09:\d\d left", plain(stream.getvalue()))
    stream = Terminal()
    with ProgressLine(stream=stream, seconds=float("inf")) as line:
        line(EVENT)
    assert " left" not in plain(stream.getvalue())


def test_the_rate_is_per_second_or_per_minute() -> None:
    assert rate_text(3, 9, 6.0) == ", 30.0/min, 0:00:12 left"
    assert rate_text(300, 900, 6.0) == ", 50.0/s, 0:00:12 left"
    assert rate_text(0, 9, 6.0) == ""
    # The first parts of many wait for compilers, and say little about the others.
    assert rate_text(1, 157, 6.0) == ", 10.0/min"
    assert rate_text(8, 157, 8.0) == ", 60.0/min, 0:02:29 left"


def test_kernels_are_counted_while_they_are_compiled() -> None:
    done, total = count_compiled()
    assert 0 <= done <= total
    assert total > 20
    stream = Terminal()
    with ProgressLine(stream=stream, count=lambda: (5, 20)) as line:
        line._begin -= 5.0
        line.show_text("bounds")
    assert re.search(r"5/20, \d\d\.\d/min, 0:00:1\d left bounds", plain(stream.getvalue()))


def test_without_a_bound_there_is_no_gap() -> None:
    """Nothing was worked out yet, which says nothing of the plan."""
    assert "best 2.0 KiB  no bound yet  bfs" in event_text(Event(0.0, 2048, 0, "bfs"))
    assert "best 0 B  bound 0 B  gap 0 %  bfs" in event_text(Event(0.0, 0, 0, "bfs"))
    assert "best -  bound 4 B  bfs" in event_text(Event(0.0, None, 4, "bfs"))


def test_a_line_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    with ProgressLine(stream=stream) as line:
        line(EVENT)
    lines = plain(stream.getvalue()).replace("\r", "\n").split("\n")
    assert any("best 2.0 KiB" in line for line in lines)
    assert max(map(len, lines)) <= 40


def test_names_are_not_markup() -> None:
    stream = Terminal()
    with ProgressLine(stream=stream) as line:
        line.show_text("[red]x[/] \x1b[31m")
    assert "[red]x[/] \\x1b[31m" in plain(stream.getvalue())


def test_elsewhere_the_first_plan_is_printed_once_when_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_module, "_on_first", [])
    stream = io.StringIO()
    with ProgressLine(stream=stream) as line:
        line(Event(0.1, None, 512, "simple bound"))
        kernel_module._tell()
        # Nothing is planned yet: the first plan is printed when it comes.
        assert stream.getvalue() == ""
        line(EVENT)
        line(Event(2.0, 1024, 1024, "order search"))
    assert stream.getvalue() == f"optsched: {event_text(EVENT)}; Ctrl-C keeps the best plan\n"
    stream = io.StringIO()
    with ProgressLine(stream=stream) as line:
        line(EVENT)
    # What is compiled after the search is not about its plan.
    kernel_module._tell()
    assert stream.getvalue() == ""


def test_elsewhere_a_short_run_is_silent_and_a_long_one_is_not() -> None:
    stream = io.StringIO()
    with StudyProgress(stream=stream) as progress:
        progress.show(STANDING)
        assert stream.getvalue() == ""
        progress.last -= progress.PAUSE
        progress.show(STANDING)
        progress.show(STANDING)
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().startswith("[3/9, ")
    assert "best 2.0 KiB  bound 1.0 KiB  gap 50.0 %  order search" in stream.getvalue()
