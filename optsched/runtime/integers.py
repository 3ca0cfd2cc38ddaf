"""Integers of any type, as arguments of public functions."""

from __future__ import annotations

from operator import index


def as_integer(value: object) -> int | None:
    """Return an integer, such as one of NumPy's, as `int`; None for anything else.

    True and False are not accepted: Python counts them as 1 and 0, but no caller means an id or a
    number of bytes by them.

    >>> import numpy as np
    >>> as_integer(np.int64(3)), as_integer(3.0), as_integer(True)
    (3, None, None)
    """
    if isinstance(value, bool):
        return None
    # Testing `isinstance(value, SupportsIndex)` would take fifty times as long.
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
