"""Arguments of a wrong type, found by comparing them with annotations after a function has failed.

A public function accepts anything that works (NumPy integers, lists instead of tuples), so its
annotations are not enforced. If the function fails with one of Python's own errors, the first
argument that does not match its annotation is the likely cause, and is reported in one line.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import repeat
from types import FunctionType
from typing import Any, SupportsFloat, SupportsIndex, get_origin

import numpy as np

_ARRAYS = {"NDArray", "ArrayLike"}
_NUMBERS: dict[Any, Any] = {
    int: SupportsIndex,
    float: SupportsFloat,
    SupportsIndex: SupportsIndex,
    SupportsFloat: SupportsFloat,
}
"""Accepted types per annotated number: NumPy scalars as well, but no arrays."""


def wrong_argument(
    function: FunctionType, args: tuple[Any, ...], named: Mapping[str, Any]
) -> str | None:
    """Return one line about the first argument that does not match its annotation, or None.

    Parameters
    ----------
    function
        A function whose annotations are text, as with `from __future__ import annotations`.
    args, named
        Arguments of the call that failed.
    """
    try:
        given = inspect.signature(function).bind(*args, **named).arguments
    # The number of arguments or a name is wrong: Python's own message says which.
    except TypeError:
        return None
    for name, value in given.items():
        wanted = function.__annotations__.get(name)
        # `Unpack[LimitKeywords]` is about all keywords together, and `choose_limits` checks them.
        if not isinstance(wanted, str) or wanted.startswith("Unpack["):
            continue
        if not _matches(value, ast.parse(wanted, mode="eval").body, function.__globals__):
            label = function.__qualname__.removesuffix(".__init__")
            return f"{label}(): {name} must be {wanted}, got {reprlib.repr(value)}"
    return None


def _matches(value: Any, wanted: ast.expr, names: Mapping[str, Any]) -> bool:
    """Return False if a value cannot be of an annotated type."""
    match wanted:
        case ast.BinOp(left, ast.BitOr(), right):
            return _matches(value, left, names) or _matches(value, right, names)
        case ast.Constant(None):
            return value is None
        case ast.Subscript(ast.Name() as kind, inner):
            return _matches(value, kind, names) and _holds(value, inner, names)
        case ast.Attribute(attr=attr) | ast.Subscript(ast.Attribute(attr=attr)):
            # Of NumPy's aliases only those of arrays say enough for a test; all others pass.
            return attr not in _ARRAYS or isinstance(value, np.ndarray)
        case ast.Name(name):
            return _is_a(value, _named(name, names))
    return True


def _named(name: str, names: Mapping[str, Any]) -> Any:
    """Return the named object; names that only type checkers import are taken from `optsched`."""
    # A name imported under TYPE_CHECKING is missing among the function's globals. Importing the
    # public package here would be a cycle; by the time a call fails it is loaded.
    public = sys.modules["optsched"]
    known = names.get(name, getattr(builtins, name, None))
    return getattr(public, name, None) if known is None and name in public.__all__ else known


def _is_a(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if get_origin(kind) is not None or not isinstance(kind, type):
        # An alias: only those for functions and arrays can be checked.
        known = {Callable: callable(value), np.ndarray: isinstance(value, np.ndarray)}
        return known.get(get_origin(kind), True)
    # A text is an iterable of characters, but nobody who passes one means that.
    if isinstance(value, str | bytes) and issubclass(kind, Iterable):
        return isinstance(value, kind) and kind in (str, bytes)
    # Any iterable does where a list is annotated. Its members are checked in _holds.
    if kind in (tuple, list):
        return isinstance(value, Iterable)
    # NumPy converts an array of one element to a number, so that only the number of dimensions
    # tells them apart.
    if kind in _NUMBERS and isinstance(value, np.ndarray) and value.ndim:
        return False
    return isinstance(value, _NUMBERS.get(kind, kind))


def _holds(value: Any, inner: ast.expr, names: Mapping[str, Any]) -> bool:
    """Return False if a member of a container cannot be of the type inside the brackets."""
    kinds = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if isinstance(value, Mapping):
        return all(
            _matches(x, kind, names)
            for pair in value.items()
            for x, kind in zip(pair, kinds, strict=False)
        )
    # An iterator is not looked at: its members would be gone afterwards.
    if not (isinstance(value, Sized) and isinstance(value, Iterable)) or callable(value):
        return True
    # `tuple[int, str]` gives a type for each member, `tuple[int, ...]` one for all.
    if len(kinds) > 1 and not isinstance(kinds[-1], ast.Constant):
        members = list(value)
        return len(members) == len(kinds) and all(map(_matches, members, kinds, repeat(names)))
    return all(_matches(held, kinds[0], names) for held in value)
