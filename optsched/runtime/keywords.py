"""Errors for wrong arguments of public functions: misspelled keywords, and wrong types.

Arguments that a function can use are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from optsched.errors import OptschedError, UsageError
from optsched.runtime.text import nearest

Called = TypeVar("Called", bound=Callable[..., Any])


class KeywordError(UsageError, TypeError):
    """Error for an unknown keyword argument; also a TypeError, as Python's own error is."""


def keywords(called: Called) -> Called:
    """Report wrong arguments of a public function, or of a class's public methods, in one line.

    An unknown keyword is reported with the nearest parameter. If the function fails, an argument
    that does not match its annotation is reported (:mod:`optsched.runtime.arguments`). Signature and type stay the same for type checkers and `inspect`.

    Examples
    --------
    >>> @keywords
    ... def plan(graph, objective="slab"):
    ...     return objective
    >>> plan("g", objectiv="peak")
    Traceback (most recent call last):
    optsched.runtime.keywords.KeywordError: plan() has no argument 'objectiv': did you mean 'objective'?
    """  # noqa: E501 - a message is one line
    if isinstance(called, FunctionType):
        return _checked(called)  # type: ignore[return-value]
    # A copy, as the loop replaces members.
    for name, member in list(vars(called).items()):
        if isinstance(member, FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(called, name, _checked(member))
    return called


def _checked(function: FunctionType) -> FunctionType:
    known = _known(function)

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        # Names are compared before the call: Python's message does not name the nearest one.
        if known and not known.issuperset(named):
            name = next(name for name in named if name not in known)
            shown = sorted(x for x in known - {"self"} if not x.startswith("_"))
            label = function.__qualname__.removesuffix(".__init__")
            raise KeywordError(f"{label}() has no argument {name!r}{nearest(name, shown)}")
        try:
            return function(*args, **named)
        # Our own errors say what is wrong already.
        except OptschedError:
            raise
        except (TypeError, AttributeError, ValueError, LookupError) as error:
            from optsched.runtime.arguments import wrong_argument

            wrong = wrong_argument(function, args, named)
            if wrong is None:
                raise
            raise UsageError(wrong) from error

    return called  # type: ignore[return-value]


def _known(function: FunctionType) -> frozenset[str]:
    """Return the names of a function's parameters, including keywords unpacked from a TypedDict.

    The set is empty if the function takes any keyword and checks them itself.
    """
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    known = frozenset(code.co_varnames[:count])
    # `**options: Any` is how a function says that it checks the names itself.
    if function.__annotations__.get("options") == "Any":
        return frozenset()
    for annotation in function.__annotations__.values():
        # Annotations are not evaluated; this one is the text `Unpack[LimitKeywords]`.
        unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(annotation))
        if unpacked is not None:
            known |= function.__globals__[unpacked[1]].__annotations__.keys()
    return known
