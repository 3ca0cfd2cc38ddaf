"""Views of results for people in Python: as text, HTML, a picture, a file or a data frame.

The drawing is done by :mod:`optsched.reports.notebook`, which is above the classes that inherit
from :class:`Shown`. It is loaded by name when a view is asked for, so that a result can be made
without any report.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


class Shown:
    """A result that can show itself."""

    # Without it, subclasses with slots would have a dictionary after all.
    __slots__ = ()

    def summary(self) -> str:
        """Return the text that the command prints for such a result, the saving first."""
        return str(_reports().summary(self))

    def save(self, path: str | Path) -> None:
        """Write the result to a file; its ending chooses a plan, a page, a picture or a table.

        Raises
        ------
        UsageError
            If the ending is not one of those known, or there is nothing to write.
        MissingDependencyError
            If a package that draws is not installed.
        """
        _reports().save(self, path)

    def plot(self) -> Any:
        """Return a figure of Matplotlib, which notebooks show.

        Raises
        ------
        UsageError
            If there is nothing to draw.
        MissingDependencyError
            If Matplotlib is not installed.
        """
        return _reports().plot(self)

    def to_dataframe(self) -> Any:
        """Return a data frame of Pandas: one row per buffer, method or computation.

        Raises
        ------
        MissingDependencyError
            If Pandas is not installed.
        """
        return _reports().dataframe(self)

    def _repr_html_(self) -> str:
        return str(_reports().html(self))


def _reports() -> Any:
    return import_module("optsched.reports.notebook")
