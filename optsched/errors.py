"""What bad input raises: one line that names the op, the buffer and the value."""

from __future__ import annotations

from types import NoneType


class OptschedError(Exception):
    """Base of every error a user can cause; its text is one line, fit to print as it is."""


class GraphError(OptschedError):
    """The graph is not one that can be planned: a cycle, a duplicate name, a negative size."""


class FormatError(OptschedError):
    """A file is malformed, truncated, hostile, or of no known format."""


class PlanError(OptschedError):
    """A plan breaks a rule of its graph: an order, an overlap, an alignment, a pin."""


class UsageError(OptschedError):
    """An option or argument makes no sense, alone or beside another."""


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
        super().__init__(f"{module} is not installed; run: pip install 'optsched[{extra}]'")


def expect(what: str, value: object, *kinds: type) -> None:
    """Refuse an argument of none of these kinds; public functions say so before they begin."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
        raise UsageError(f"{what} wants a {wanted}, got {type(value).__name__}")


def expect_function(what: str, value: object) -> None:
    """Refuse what is to be called later and can not be; None is for nobody to be called."""
    if value is not None and not callable(value):
        raise UsageError(f"{what} wants a function, got {type(value).__name__}")
