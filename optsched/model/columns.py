"""Conversion of the columns of a packing problem, which callers give as lists, tuples or arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optsched.errors import GraphError
from optsched.model.arrays import IntArray, Integers


def integers(what: str, given: Integers) -> IntArray:
    """Return a column as an array, shape `(k,)`; `what` names it in error messages.

    Raise `GraphError` if the column is not a list of integers of at most 64 bits.
    """
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise GraphError(f"{what}: expected a list of integers: {error}") from None
    if values.ndim != 1:
        raise GraphError(f"{what}: expected a list of integers, got shape {values.shape}")
    if values.dtype.kind not in "iu" and len(values):
        raise GraphError(f"{what}: expected integers of at most 64 bits, got {values.dtype}")
    # Values above 2**63 - 1 would turn negative here; those above the limit of their column are
    # refused with the rest of the problem.
    if values.dtype.kind == "u" and values.max(initial=0) >= 2**63:
        limit = "2**63 - 1" if what == "pin" else "2**62"
        raise GraphError(f"{what}: {values.max()} is above the limit of {limit}")
    return values.astype(np.int64, copy=False)


def unique_names(given: Iterable[str], count: int) -> tuple[str, ...]:
    """Return unique names of `count` buffers, by default `b0`, `b1`, and so on.

    Raise `GraphError` if a name is given twice, or the number of names is not `count`.
    """
    # A single string is a sequence of letters.
    if isinstance(given, str):
        raise GraphError(f"names must be a list of names: write [{given!r}]")
    names = tuple(given) or tuple(f"b{i}" for i in range(count))
    if len(names) != count:
        raise GraphError(f"expected {count} names, one per size, got {len(names)}")
    if len(set(names)) != count:
        twice = next(x for i, x in enumerate(names) if x in names[:i])
        raise GraphError(f"buffer {twice!r} is defined twice")
    return names
