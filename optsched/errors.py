"""Errors raised for bad input; each is one line that names the op, the buffer and the value."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType

READERS = {"Graph": "read_graph", "Module": "read_module", "PackingProblem": "read_packing"}
"""Functions that read what other functions want."""


class OptschedError(Exception):
    """Base class of all errors that a user can cause; its text is one line that can be printed.

    Examples
    --------
    >>> import optsched
    >>> try:
    ...     optsched.read_graph("no-such-file.json")
    ... except optsched.OptschedError as error:
    ...     print(type(error).__name__)
    FormatError
    """


class GraphError(OptschedError):
    """The graph cannot be planned: it has a cycle, a duplicate name, or a negative size."""


class FormatError(OptschedError):
    """A file is malformed, truncated, hostile, or in an unknown format."""


class PlanError(OptschedError):
    """A plan breaks a rule of its graph: an order, an overlap, an alignment, a pin."""


class UsageError(OptschedError):
    """An option or argument is invalid, alone or together with another."""


class UnknownDimensionError(UsageError):
    """A size was given for a dimension that the file does not leave open."""

    dimension: str = ""
    """Its name, as given."""


class OpenDimensionsError(FormatError):
    """A model leaves dimensions open, and no sizes were given."""

    sizes: Mapping[str, int] | None = None
    """Sizes of all open dimensions with which the model can probably be planned, if known."""


class MissingDependencyError(OptschedError):
    """An optional package is not installed.

    `module`: name of the package that could not be imported. `extra`: the extra of this project
    that installs it.
    """

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed; run: pip install {packages_of(extra)}")


class UnsupportedVersionError(OptschedError):
    """An installed package has a version that was not tested, so that nothing may run with it."""


def packages_of(extra: str) -> str:
    """Return the packages of an extra as arguments of pip, which work from any folder."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        stated = requires("optsched") or []
    except PackageNotFoundError:
        return extra
    marker = f"extra == '{extra}'"
    named = [text.partition(";")[0].strip() for text in stated if marker in text]
    # A lower bound is met by a new installation; an upper bound has to be said.
    return " ".join(f"'{x}'" if "<" in x or "==" in x else x.partition(">")[0] for x in named)


def expect(what: str, value: object, *kinds: type) -> None:
    """Raise UsageError if an argument is not of one of these types."""
    if not isinstance(value, kinds):
        names = [kind.__name__ for kind in kinds if kind is not NoneType]
        got = type(value).__name__
        # Commands take the path of a file, functions what a reader makes of it.
        reader = next((READERS[name] for name in names if name in READERS), None)
        if reader and (isinstance(value, str) or hasattr(value, "__fspath__")):
            got = f"{str(value)[:200]!r}: read the file with {reader}"
        raise UsageError(f"{what} wants a {' or '.join(names)}, got {got}")


def expect_function(what: str, value: object) -> None:
    """Raise UsageError if an argument is not callable and not None."""
    if value is not None and not callable(value):
        raise UsageError(f"{what} wants a function, got {type(value).__name__}")
