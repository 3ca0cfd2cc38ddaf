"""Views of results for people in Python: as text, HTML, a picture, a file or a data frame.

The classes that inherit from :class:`Shown` lie below the reports that draw them. So the package
`optsched` itself, which is above both, says where the drawing is done (:func:`show_by`); it is
loaded when a view is first asked for, so that a result can be made without any report.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

# Imported with the package, before an interrupt can be borne: nothing that takes time.
_loaders: list[Callable[[], Any]] = []


def show_by(load: Callable[[], Any]) -> None:
    """Let views be made by the module that a function loads (:mod:`optsched.reports.notebook`)."""
    _loaders[:] = [load]


class Told:
    """A thing that says in words what it is, which is all there is to show."""

    # Without it, subclasses with slots would have a dictionary after all.
    __slots__ = ()

    # Type checkers would take every name for known.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            # Tools look for private names, for which a suggestion would only cost time.
            if not name.startswith("_"):
                from optsched.runtime.text import nearest_word

                near = nearest_word(name, [x for x in dir(self) if x[0] != "_"])
                text += f": did you mean {near!r}?" if near else ""
            raise AttributeError(text, name=name, obj=self)

    def summary(self) -> str:
        """Return the text that the command prints for it."""
        return str(_views().summary(self))

    def _repr_html_(self) -> str:
        return str(_views().html(self))


class Shown(Told):
    """A result that can show itself."""

    __slots__ = ()

    def save(self, path: str | Path) -> None:
        """Write the result to a file; its ending chooses a plan, a page, a picture or a table.

        Raise `UsageError` if the ending is not one of those known, or there is nothing to write.
        Raise `MissingDependencyError` if a package that draws is not installed.
        """
        _views().save(self, path)

    def plot(self) -> Any:
        """Return a figure of Matplotlib, which notebooks show.

        Raise `UsageError` if there is nothing to draw. Raise `MissingDependencyError` if Matplotlib
        is not installed.
        """
        return _views().plot(self)

    def to_dataframe(self) -> Any:
        """Return a data frame of Pandas: one row per buffer, method or computation.

        Raise `MissingDependencyError` if Pandas is not installed.
        """
        return _views().dataframe(self)


def _views() -> Any:
    return _loaders[0]()
