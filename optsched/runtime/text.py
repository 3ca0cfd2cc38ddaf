"""Names and texts fit for a terminal: what a file calls an op can not move its cursor.

Escape sequences, line ends and marks that turn the direction of writing are shown as what they
are. JSON is left alone: there names stay exact.
"""

from __future__ import annotations

LONGEST = 160
"""Characters of a name that are shown."""


def readable(name: str, longest: int = LONGEST) -> str:
    """Return a name fit to be shown: on one line, nothing invisible in it, not too long."""
    shown = plain(name[: longest + 1].replace("\n", "\\n"))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def plain(text: str) -> str:
    r"""Return a text with its lines as they are, and nothing else in it that can not be seen.

    Examples
    --------
    >>> plain("a" + chr(27) + "[2J")
    'a\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )
