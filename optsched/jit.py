"""Kernels: functions on flat arrays that run as plain Python or compiled by numba.

A kernel is written once. Called as it is, it is Python: the readable twin, used as the reference
in tests and for small inputs, where importing and compiling would take longer than the work.
`kernel.compiled` is the same code compiled, cached on disk.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from types import CodeType, FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from optsched.jit_compile import compiler

P = ParamSpec("P")
R = TypeVar("R")

SMALL = 2_000
"""Up to this many elements of work the twin is quicker than a cold start of numba."""

SMALL_WARM = 250
"""The same where numba is loaded already."""

SCALARS = {"int", "float", "bool", "None", "tuple"}
"""Names in annotations of what is no array."""


class Kernel(Generic[P, R]):
    """A function of arrays and integers, and its compiled form.

    It may call other kernels by their global name; the compiled form calls their compiled forms.
    """

    part = False

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
        # Numba's disk cache looks at the file of the function alone, and would go on using compiled
        # code into which an older version of a kernel from another file was built. The name is part
        # of the cache's key, so let it say what the code is made of.
        copy.__qualname__ = f"{source.__qualname__}_{self.fingerprint[:16]}"
        copy.__module__ = source.__module__
        options = {"pipeline_class": compiler(part=self.part), "_nrt": self.counts_references}
        dispatcher = numba.njit(cache=True, nogil=True, **options)(copy)
        dispatcher._cache = _lean_cache()(copy)
        return cast("Callable[P, R]", dispatcher)

    @cached_property
    def counts_references(self) -> bool:
        """Whether it may make or return arrays, itself or by others, and so counts references.

        Counting takes a third to half of the time of small loops over rows of arrays, each of
        which is a new array to numba. Whoever calls holds the arrays that are passed, so kernels
        that return numbers, of a module that does not import numpy as a whole, do without; an
        array that one of them makes all the same (`a + b`) is refused when it is compiled.
        """
        source = cast(FunctionType, self.function)
        returned = source.__annotations__.get("return", "unknown")
        named = [source.__globals__.get(name) for name in source.__code__.co_names]
        return (
            not set(re.findall(r"\w+", str(returned))) <= SCALARS
            or any(value is np for value in source.__globals__.values())
            or any(x.counts_references for x in named if isinstance(x, Kernel))
        )

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the code, of all it calls and refers to, and of the way it is compiled."""
        source = cast(FunctionType, self.function)
        digest = hashlib.sha256(_described_compiler().encode())
        if not self.counts_references:
            digest.update(b"counts no references")
        digest.update(repr(_described(source.__code__)).encode())
        for name in sorted(set(source.__code__.co_names)):
            value = source.__globals__.get(name)
            if isinstance(value, Kernel):
                digest.update(f"{name}={value.fingerprint}".encode())
            elif isinstance(value, int | float | str | tuple | frozenset):
                digest.update(f"{name}={value!r}".encode())
            elif isinstance(value, type):
                digest.update(f"{name}={getattr(value, '_fields', ())!r}".encode())
        return digest.hexdigest()

    def for_work(self, elements: int) -> Callable[P, R]:
        """Return the form that answers sooner for this many elements of work."""
        small = elements <= (SMALL_WARM if is_warm() else SMALL)
        if small and "compiled" not in self.__dict__:
            return self
        return self.compiled


class InnerKernel(Kernel[P, R]):
    """A kernel without an entry for Python: a quarter less to compile, and nothing to cache.

    Compiled, it becomes part of the kernels that call it; Python runs its plain form.
    """

    part = True

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The form that compiled kernels call."""
        from numba.core.caching import NullCache

        dispatcher = cast(Any, super().compiled)
        dispatcher.targetoptions.update(no_cpython_wrapper=True, no_cfunc_wrapper=True)
        dispatcher._cache = NullCache()
        return cast("Callable[P, R]", dispatcher)


def _described(code: CodeType) -> tuple[object, ...]:
    """What a code object does, without where it stands."""
    constants = [_described(x) if isinstance(x, CodeType) else repr(x) for x in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames


@cache
def _described_compiler() -> str:
    return repr(_described(cast(FunctionType, inspect.unwrap(compiler)).__code__))


def inner(function: Callable[P, R]) -> InnerKernel[P, R]:
    """Make a kernel that is called by kernels only (decorator)."""
    return InnerKernel(function)


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Make a kernel of a function (decorator)."""
    return Kernel(function)


def is_warm() -> bool:
    """Whether numba is loaded already, so that compiled kernels cost no import."""
    return "numba" in sys.modules


def _numba() -> Any:
    import numba

    return numba


@cache
def _lean_cache() -> Any:
    """Return a cache that loads compiled code without all that only a compilation needs.

    Numba's own first imports its whole library of typed functions, and with it SciPy: longer than
    most searches take. A compilation does so anyway.
    """
    from numba.core.caching import FunctionCache
    from numba.core.runtime import rtsys

    class LeanCache(FunctionCache):  # type: ignore[misc]
        def load_overload(self, sig: Any, target_context: Any) -> Any:
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)

    return LeanCache
