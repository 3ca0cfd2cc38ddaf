"""Kernels: functions on flat arrays that run as plain Python or compiled by numba.

A kernel is written once. Called as it is, it is Python: the reference implementation of the tests.
`kernel.compiled` is the same code compiled, kept on disk. `kernel.for_work` takes whichever answers
sooner: Python until that has taken as long as compiling would, so that neither a small graph nor a
short search on a large one waits for a compiler, and no other takes much more than twice as long.

    @kernel
    def total(values: IntArray) -> int: ...

    total.for_work(len(values))(values)
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Callable
from functools import cache, cached_property, partial, update_wrapper
from types import CodeType, FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from optsched.runtime import compile as jit_compile
from optsched.runtime import disk_cache
from optsched.runtime.interrupt import take_interrupt

P = ParamSpec("P")
R = TypeVar("R")

ELEMENT_SECONDS = 2e-5
"""What Python takes for an element of work, as long as nothing was measured."""
COMPILE_SECONDS, COMPILE_BYTE_SECONDS = 0.1, 3e-4
"""What compiling a kernel takes, and for each byte of Python's code in it and all that it calls."""
IMPORT_SECONDS = 0.3
"""What importing numba takes."""
LOAD_SECONDS = 0.01
"""What loading a compiled kernel from the disk takes."""

NUMBERS = r"None|(Int|int|bool|float)|tuple\[((Int|int|bool|float)(, )?)+\]"
"""What a kernel that returns no arrays is annotated with."""


class Kernel(Generic[P, R]):
    """A function of arrays and integers, and its compiled form.

    It may call other kernels by their global name; the compiled form calls their compiled forms.
    """

    part = False

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.seconds = 0.0
        """Spent so far in calls by :meth:`for_work` that ran as Python."""
        self.elements = 0
        """Of work in these calls."""
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run as Python."""
        return self.function(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The compiled function; compiles on its first call or loads from the disk cache."""
        source = cast(FunctionType, self.function)
        names = dict(source.__globals__)
        for name in source.__code__.co_names:
            if isinstance(names.get(name), Kernel):
                names[name] = names[name].compiled
        copy = FunctionType(
            source.__code__, names, source.__name__, source.__defaults__, source.__closure__
        )
        # What the code is made of becomes part of its name in LLVM, so that kernels which different
        # processes compiled can be loaded into one.
        copy.__qualname__ = f"{source.__qualname__}_{self.fingerprint[:16]}"
        copy.__module__ = source.__module__
        _listener()
        made = jit_compile.dispatcher(copy, part=self.part, borrows=self.borrows)
        if not self.part:
            disk_cache.keep_on_disk(made, self.file_name)
        return cast("Callable[P, R]", made)

    @cached_property
    def borrows(self) -> bool:
        """Whether it neither makes nor returns arrays, so that none need be counted.

        It calls nothing of a module such as NumPy, nor a kernel that does, and returns numbers.
        """
        source = cast(FunctionType, self.function)
        called = [source.__globals__.get(name) for name in source.__code__.co_names]
        numbers = re.fullmatch(NUMBERS, str(source.__annotations__.get("return")))
        return numbers is not None and not any(
            isinstance(x, ModuleType) or (isinstance(x, Kernel) and not x.borrows) for x in called
        )

    @cached_property
    def parts(self) -> frozenset[Kernel[..., Any]]:
        """The kernel itself, and all that it calls."""
        source = cast(FunctionType, self.function)
        called = (source.__globals__.get(name) for name in source.__code__.co_names)
        return frozenset({self}).union(*(x.parts for x in called if isinstance(x, Kernel)))

    @cached_property
    def file_name(self) -> str:
        """How the files of the disk cache that hold this kernel begin."""
        name = f"{self.function.__module__}.{self.function.__qualname__}_{self.fingerprint[:16]}"
        return "".join(c if c.isalnum() or c in "._" else "_" for c in name)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the code, of all it calls and refers to, and of the way it is compiled."""
        source = cast(FunctionType, self.function)
        digest = hashlib.sha256(_described_compiler().encode())
        digest.update(repr(_described(source.__code__, source.__doc__)).encode())
        digest.update(f"{self.borrows} {source.__defaults__!r}".encode())
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
        """Return what runs the form that answers sooner, asked again at each call.

        Parameters
        ----------
        elements
            Of work in one call, each of which takes Python some :data:`ELEMENT_SECONDS`; the time
            of calls so far says how right that is.
        """
        if force is not None:
            return force(self)
        return self.compiled if self._is_ready() else partial(self._run, elements)

    def _run(self, elements: int, *args: P.args, **kwargs: P.kwargs) -> R:
        rate = self.seconds / self.elements if self.elements else ELEMENT_SECONDS
        if self._is_ready() or self.seconds + elements * rate > self._patience():
            return self.compiled(*args, **kwargs)
        begun = time.thread_time()
        result = self.function(*args, **kwargs)
        self.seconds += time.thread_time() - begun
        self.elements += elements
        return result

    def _is_ready(self) -> bool:
        """Whether a compiled form is loaded."""
        return "compiled" in self.__dict__ and bool(cast(Any, self.compiled).overloads)

    def _patience(self) -> float:
        """Return the seconds that Python may take before a compiled form is loaded or made."""
        compiling = COMPILE_SECONDS + COMPILE_BYTE_SECONDS * self._code_bytes
        seconds = LOAD_SECONDS if self._is_kept else compiling
        return seconds + (0.0 if is_warm() else IMPORT_SECONDS)

    @cached_property
    def _is_kept(self) -> bool:
        return disk_cache.has_file(self.file_name)

    @cached_property
    def _code_bytes(self) -> int:
        return sum(len(cast(FunctionType, x.function).__code__.co_code) for x in self.parts)


class InnerKernel(Kernel[P, R]):
    """A kernel that becomes part of those that call it; Python runs its plain form."""

    part = True


def _described(code: CodeType, doc: str | None = None) -> tuple[object, ...]:
    """What a code object does, without where it stands and what is said of it."""
    constants = [
        _described(x) if isinstance(x, CodeType) else repr(None if x == doc else x)
        for x in code.co_consts
    ]
    return code.co_code, constants, code.co_names, code.co_varnames


@cache
def _described_compiler() -> str:
    loader = cast(Any, jit_compile.__spec__).loader
    source = loader.get_source(jit_compile.__name__)
    return repr(_described(compile(source, "", "exec", optimize=2)))


force: Callable[[Kernel[..., Any]], Callable[..., Any]] | None = None
"""Says which form :meth:`Kernel.for_work` takes, whatever the work: for tests."""


def reference_form(kernel: Kernel[P, R]) -> Callable[P, R]:
    """Return a kernel as Python."""
    return kernel.function


def compiled_form(kernel: Kernel[P, R]) -> Callable[P, R]:
    """Return a kernel as machine code."""
    return kernel.compiled


def inner(function: Callable[P, R]) -> InnerKernel[P, R]:
    """Make a kernel that is called by kernels only (decorator)."""
    return InnerKernel(function)


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Make a kernel of a function (decorator)."""
    return Kernel(function)


def tell_of_compiling(tell: Callable[[], None]) -> None:
    """Have `tell` called once, when this process first compiles a kernel: that takes seconds."""
    _on_first[:] = [tell]


def compile_seconds() -> float:
    """Return the seconds that this process has spent compiling so far; loading is not counted."""
    return float(_listener().duration) if is_warm() and _listener().done else 0.0


_on_first: list[Callable[[], None]] = []


@cache
def _listener() -> Any:
    """Have numba tell when it compiles; return what adds the seconds up."""
    from numba.core import event

    class CompileListener(event.TimingListener):  # type: ignore[misc]
        """Adds up the seconds, calls what waits for the first compilation, and looks for Ctrl-C."""

        def on_start(self, event: Any) -> None:
            # First, since numba tells of the end even where what follows raises.
            super().on_start(event)
            take_interrupt()
            while _on_first:
                _on_first.pop()()

    listener = CompileListener()
    event.register("numba:compile", listener)
    return listener


def is_warm() -> bool:
    """Whether numba is loaded already, so that compiled kernels cost no import."""
    return "numba" in sys.modules
