"""Kernels that only other kernels call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ParamSpec, TypeVar, cast

from optsched.jit import Kernel

P = ParamSpec("P")
R = TypeVar("R")


class Inner(Kernel[P, R]):
    """A kernel without an entry for Python: a quarter less to compile, and nothing to cache.

    Compiled, it becomes part of the kernels that call it; Python runs its plain form.
    """

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The form that compiled kernels call."""
        from numba.core.caching import NullCache

        dispatcher = cast(Any, super().compiled)
        dispatcher.targetoptions.update(no_cpython_wrapper=True, no_cfunc_wrapper=True)
        dispatcher._cache = NullCache()
        return cast("Callable[P, R]", dispatcher)


def inner(function: Callable[P, R]) -> Inner[P, R]:
    """Make a kernel that is called by kernels only (decorator)."""
    return Inner(function)
