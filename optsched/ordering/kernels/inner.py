"""Kernels that only other kernels call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ParamSpec, TypeVar, cast

from optsched.jit import Kernel

P = ParamSpec("P")
R = TypeVar("R")


class Inner(Kernel[P, R]):
    """A kernel whose compiled form can be called by compiled code only.

    The code that would take apart Python's arguments is left out: with dozens of arrays per call it
    is a good part of what there is to compile.
    """

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The compiled function, without the wrappers for calls from Python."""
        dispatcher: Any = super().compiled
        dispatcher.targetoptions.update(no_cpython_wrapper=True, no_cfunc_wrapper=True)
        return cast("Callable[P, R]", dispatcher)


def inner(function: Callable[P, R]) -> Inner[P, R]:
    """Make an inner kernel of a function (decorator)."""
    return Inner(function)
