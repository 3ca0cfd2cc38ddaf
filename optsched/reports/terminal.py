"""The console for tables and results: verdicts in color on a terminal, plain text elsewhere.

Green stands for a proved minimum, yellow for a gap, red for a missing plan. Short codes
of proofs are grey. Colors are found in the finished text, so that it is the same without them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.highlighter import RegexHighlighter

NON_TTY_WIDTH = 120
"""Columns of tables in a file or a pipe."""
COLORS = (
    r"(?P<green>smallest possible[^;(\n]*)",
    r"^ *(?P<green>optimal|valid)\b",
    r"(?P<yellow>at most \S+ % less is possible)",
    r"(?P<yellow>gap \S+ %)",
    r"^ *(?P<yellow>feasible)\b",
    r"^ *(?P<red>infeasible|unknown)\b",
    r"(?P<red>no plan found|none found)",
    r"(?P<bright_black>\(?\bL[1-6]\b\)?)",
)
"""Expressions whose groups are named after the color of what they match."""


def console(*, stderr: bool = False) -> Console:
    """Return the console for a standard stream; NO_COLOR and a pipe make it plain."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            # Rich would exit with 1, which says that a check failed.
            raise BrokenPipeError

    # COLUMNS lets tests and pipes ask for a width.
    has_width = (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ
    return Piped(
        stderr=stderr,
        width=None if has_width else NON_TTY_WIDTH,
        highlighter=_highlighter(),
        emoji=False,
        # Without a color system bold and dim are left out, too.
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def _highlighter() -> RegexHighlighter:
    from rich.highlighter import RegexHighlighter

    class Verdicts(RegexHighlighter):
        highlights = [f"(?m){expression}" for expression in COLORS]  # noqa: RUF012 - Rich's form

    return Verdicts()
