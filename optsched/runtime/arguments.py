"""Arguments of a wrong type, found by comparing them with annotations after a function has failed.

A public function accepts anything that works (NumPy integers, lists instead of tuples), so its
annotations are not enforced. If the function fails with one of Python's own errors, the first
argument that is of no class that its annotation names is the likely cause, and is reported in one
line. Members of containers are not looked at: Python's message names what went wrong with them.
"""

from __future__ import annotations

import builtins
import inspect
import re
import reprlib
import sys
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any, SupportsFloat, SupportsIndex, get_origin

import numpy as np

_ACCEPTED: dict[Any, Any] = {
    # NumPy scalars are numbers as well, and any iterable does where a list is annotated.
    int: SupportsIndex,
    float: SupportsFloat,
    tuple: Iterable,
    list: Iterable,
}
_INSIDE = re.compile(r"\[[^\[\]]*\]")


def wrong_argument(
    function: FunctionType, args: tuple[Any, ...], named: Mapping[str, Any]
) -> str | None:
    """Return one line about the first argument that does not match its annotation, or None.

    `function`: a function whose annotations are text, as with `from __future__ import annotations`.
    `args`, `named`: arguments of the call that failed.
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
        kinds = _without_members(wanted).split(" | ")
        if not any(_is_a(value, _named(kind, function.__globals__)) for kind in kinds):
            label = function.__qualname__.removesuffix(".__init__")
            return f"{label}(): {name} must be {wanted}, got {reprlib.repr(value)}"
    return None


def _without_members(wanted: str) -> str:
    """Return an annotation without its brackets."""
    while "[" in wanted:
        wanted = _INSIDE.sub("", wanted)
    return wanted


def _named(name: str, names: Mapping[str, Any]) -> Any:
    """Return the named object; names that only type checkers import are taken from `optsched`."""
    if name == "None":
        return type(None)
    known = names.get(name, getattr(builtins, name, None))
    # Importing the public package here would be a cycle; by the time a call fails it is loaded.
    public = sys.modules["optsched"]
    return getattr(public, name, None) if known is None and name in public.__all__ else known


def _is_a(value: Any, kind: Any) -> bool:
    # An alias, such as `NDArray` or `Callable`, stands for its class.
    kind = get_origin(kind) or kind
    if kind is Any or not isinstance(kind, type):
        return True
    # A text is an iterable of characters, but nobody who passes one means that.
    if isinstance(value, str | bytes):
        return issubclass(kind, str | bytes) and isinstance(value, kind)
    # NumPy converts an array of one element to a number.
    if kind in (int, float) and isinstance(value, np.ndarray) and value.ndim:
        return False
    return isinstance(value, _ACCEPTED.get(kind, kind))
