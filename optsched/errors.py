"""Errors raised for bad input; each is one line that names the op, the buffer and the value."""

from __future__ import annotations

from types import NoneType


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


class MissingDependencyError(OptschedError):
    """An optional package is not installed.

    Parameters
    ----------
    module
        Name of the package that could not be imported.
    extra
        The extra of this project that installs it.
    """

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed; run: pip install '.[{extra}]'")


class UnsupportedVersionError(OptschedError):
    """An installed package has a version that was not tested, so that nothing may run with it."""


def expect(what: str, value: object, *kinds: type) -> None:
    """Raise UsageError if an argument is not of one of these types."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
        raise UsageError(f"{what} wants a {wanted}, got {type(value).__name__}")


def expect_function(what: str, value: object) -> None:
    """Raise UsageError if an argument is not callable and not None."""
    if value is not None and not callable(value):
        raise UsageError(f"{what} wants a function, got {type(value).__name__}")
