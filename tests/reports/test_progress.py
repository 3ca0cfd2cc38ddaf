"""Progress of a long run: rewritten on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io

import pytest

from optsched.compare import Standing
from optsched.reports.progress import ProgressLine, StudyProgress, event_text
from optsched.runtime.limits import Event


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


STANDING = Standing(3, 9, "some/net.json.gz", "optsched", Event(1.5, 2048, 1024, "order search"))


def test_a_terminal_sees_graphs_done_incumbent_and_bound() -> None:
    stream = Terminal()
    with StudyProgress(stream=stream) as progress:
        progress.show(STANDING)
        shown = stream.getvalue()
        progress.show(Standing(4, 9, "other.json"))
    assert "[3/9 done] net  optsched" in shown
    for part in ("1.50 s", "best 2.0 KiB", "bound 1.0 KiB", "gap 50.00 %")[: 1 + len(shown) // 70]:
        assert part in shown
    # At the end the line is gone.
    last = stream.getvalue().split("\r")[-2:]
    assert last[0].strip() == last[1] == ""


def test_without_a_bound_there_is_no_gap() -> None:
    """Nothing was worked out yet, which says nothing of the plan."""
    assert "best 2.0 KiB  no bound yet  bfs" in event_text(Event(0.0, 2048, 0, "bfs"))
    assert "best 0 B  bound 0 B  gap 0.00 %  bfs" in event_text(Event(0.0, 0, 0, "bfs"))
    assert "best -  bound 4 B  bfs" in event_text(Event(0.0, None, 4, "bfs"))


def test_a_line_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    with ProgressLine(stream=stream) as line:
        line(Event(1.5, 2048, 1024, "order search"))
    shown = stream.getvalue().split("\r")
    assert shown[1].startswith("   1.50 s  best 2.0 KiB")
    assert max(map(len, shown)) == 29


def test_elsewhere_a_short_run_is_silent_and_a_long_one_is_not() -> None:
    stream = io.StringIO()
    with StudyProgress(stream=stream) as progress:
        progress.show(STANDING)
        assert stream.getvalue() == ""
        progress.last -= progress.PAUSE
        progress.show(STANDING)
        progress.show(STANDING)
    assert stream.getvalue().count("\n") == 1
    assert "best 2.0 KiB  bound 1.0 KiB  gap 50.00 %  order search" in stream.getvalue()
