"""Columns of a packing problem as callers give them: lists, tuples, arrays of any integers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optsched.errors import GraphError
from optsched.model.arrays import IntArray, Integers


def integers(what: str, given: Integers) -> IntArray:
    """Return a column as an array, shape `(k,)`; `what` names it in messages.

    Raises
    ------
    GraphError
        If it does not hold integers of 64 bits.
    """
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise GraphError(f"{what}: a list of integers is wanted: {error}") from None
    if values.ndim != 1:
        raise GraphError(f"{what}: a list of integers is wanted, got the shape {values.shape}")
    if values.dtype.kind not in "iu" and len(values):
        raise GraphError(f"{what}: integers of at most 64 bits are needed, not {values.dtype}")
    if values.dtype.kind == "u" and values.max(initial=0) >= 2**63:
        raise GraphError(f"{what}: {values.max()} is above the limit of 2**63 - 1")
    return values.astype(np.int64, copy=False)


def unique_names(given: Iterable[str], count: int) -> tuple[str, ...]:
    """Return unique names of buffers, `b0`, `b1` and so on by default.

    Raises
    ------
    GraphError
        If a name is given twice, or there are more or fewer than `count`.
    """
    if isinstance(given, str):
        raise GraphError(f"names: a list of names is wanted: write [{given!r}]")
    names = tuple(given) or tuple(f"b{i}" for i in range(count))
    if len(names) != count:
        raise GraphError(f"there are {len(names)} names for {count} sizes")
    if len(set(names)) != count:
        twice = next(x for i, x in enumerate(names) if x in names[:i])
        raise GraphError(f"buffer {twice!r} is defined twice")
    return names
