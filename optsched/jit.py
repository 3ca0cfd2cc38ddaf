"""Kernels: functions on flat arrays that run as plain Python or compiled by numba.

A kernel is written once. Called as it is, it is Python: the readable twin, used as the reference
in tests and for small inputs, where importing and compiling would take longer than the work.
`kernel.compiled` is the same code compiled, cached on disk.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property, update_wrapper
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

SMALL = 2_000
"""Up to this many elements of work the twin is quicker than a cold start of numba."""


class Kernel(Generic[P, R]):
    """A function of arrays and integers, and its compiled form.

    It may call other kernels by their global name; the compiled form calls their compiled forms.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run as Python."""
        return self.function(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The compiled function; compiles on its first call or loads from the disk cache."""
        numba = _numba()
        source = cast(FunctionType, self.function)
        names = dict(source.__globals__)
        for name in source.__code__.co_names:
            if isinstance(names.get(name), Kernel):
                names[name] = names[name].compiled
        copy = FunctionType(
            source.__code__, names, source.__name__, source.__defaults__, source.__closure__
        )
        copy.__qualname__, copy.__module__ = source.__qualname__, source.__module__
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(copy))

    def for_work(self, elements: int) -> Callable[P, R]:
        """Return the form that answers sooner for this many elements of work."""
        if elements <= SMALL and "compiled" not in self.__dict__:
            return self
        return self.compiled


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Make a kernel of a function (decorator)."""
    return Kernel(function)


def is_warm() -> bool:
    """Whether numba is loaded already, so that compiled kernels cost no import."""
    return "numba" in sys.modules


def _numba() -> Any:
    import numba

    return numba
