"""Kernels: functions on flat arrays that run as plain Python or compiled by numba.

A kernel is written once. Called directly, it runs as Python, which is the reference implementation
in tests. `kernel.compiled` is the same code, compiled and cached on disk. `kernel.for_work` chooses
the form that answers sooner, so that small graphs, and short searches on large ones, do not have to
wait for a compiler:

1. A compiled form on disk is loaded as soon as that pays off.
2. Otherwise the kernel runs as Python. After a small share of the estimated compile time, a
   background process is asked to compile it (:mod:`optsched.runtime.background`).
3. After the full estimated compile time, the kernel is compiled in this process, or loaded when
   another process that is compiling it has finished. A kernel thus takes at most about twice the
   minimum time. Where the background process has a processor of its own, Python goes on for twice
   as long (:data:`PATIENCE`), since it gets on while waiting would not.
4. Once all kernels together have run as Python for a while (:data:`QUICK_SECONDS`), the question is
   not a quick one. A kernel whose next call alone would take a share of its compile time
   (:data:`LARGE_SHARE`) by the measured time of earlier calls is then compiled at once, unless that
   takes long (:data:`LONG_SECONDS`), or the background process can compile it meanwhile.
5. Nothing is compiled in this process that would not be done at the :attr:`KernelPolicy.deadline`,
   unless the next call alone would take longer as Python than compiling does.

Time limits do not count compiling, and for kernels that compile quickly also not the time of Python
in its place (:func:`compile_seconds`). Heuristics thus get as far within a limit before their
kernels are on disk as after.

Both forms go through identical states, so results do not depend on which one ran.

>>> import numpy as np
>>> @kernel
... def total(values):
...     return values.sum()
>>> values = np.arange(5)
>>> int(total.for_work(len(values))(values))
10
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial, update_wrapper
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast

from optsched.runtime import compile as jit_compile
from optsched.runtime import disk_cache
from optsched.runtime.background import START_SECONDS, compiler
from optsched.runtime.interrupt import take_interrupt

P = ParamSpec("P")
R = TypeVar("R")

ELEMENT_SECONDS = 2e-5
"""Initial estimate of the time that Python takes per element of work."""
COMPILE_SECONDS, COMPILE_BYTE_SECONDS = 0.1, 3e-4
"""Estimated compile time of a kernel: a constant, plus a time per byte of the bytecode of the
kernel and of all kernels it calls.
"""
IMPORT_SECONDS = 0.3
"""Estimated time to import numba."""
LOAD_SECONDS = 0.01
"""Estimated time to load a compiled kernel from disk."""
LOOK_SECONDS = 0.02
"""Time in Python between checks whether a compiled form is available."""
ASKING_SHARE = 0.1
"""Share of the compile time that Python runs before the background process is asked to compile."""
DOUBT = 4
"""Divisor of the estimated time of a first call, a guess, where it speaks for compiling."""
QUICK_SECONDS = 0.5
"""Time in Python calls of all kernels in which a question counts as quick to answer."""
LARGE_SHARE = 0.1
"""Share of the compile time above which one call is large: about ten calls pay for compiling."""
LONG_SECONDS = 3.0
"""Compile time above which a kernel is not compiled at once. Those of the exact searches take so
long; heuristics answer without them.
"""

PATIENCE = 2.0
"""Python goes on for this many compile times while the background process compiles a kernel."""

NUMBERS = r"None|(Int|int|bool|float)|tuple\[((Int|int|bool|float)(, )?)+\]"
"""Pattern of the return annotation of a kernel that does not return arrays."""


@dataclass
class KernelPolicy:
    """Facts of this process by which kernels choose between Python and compiling."""

    deadline: float = math.inf
    """Time of `time.monotonic` at which the caller wants an answer."""
    runs_to_come: int = 1
    """Expected number of similar runs of this process; the time saved in all of them pays for
    compiling.
    """
    watch_compiling: Callable[[bool], object] = bool
    """Callback that receives True when compiling, or waiting for another process to compile,
    begins, and False when it ends.
    """
    force: Callable[[Kernel[..., Any]], Callable[..., Any]] | None = None
    """Function that chooses the form in :meth:`Kernel.for_work` regardless of the work."""


policy = KernelPolicy()
"""The policy of this process."""


class Kernel(Generic[P, R]):
    """A function of arrays and integers, with its compiled form.

    A kernel may call other kernels by their global names; the compiled form then calls their
    compiled forms.
    """

    part = False
    known: ClassVar[list[Kernel[..., Any]]] = []
    """All kernels of the modules imported so far."""
    all_seconds: ClassVar[float] = 0.0
    """Time spent in Python calls of all kernels so far."""
    spared_seconds: ClassVar[float] = 0.0
    """Part of this time that no limit counts, because quickly compiled kernels were not on disk.

    For each kernel it is at most the estimated compile time.
    """
    waited_seconds: ClassVar[float] = 0.0
    """Time spent waiting for other processes that compile kernels so far."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.seconds = 0.0
        """Time spent so far in calls through :meth:`for_work` that ran as Python."""
        self.elements = 0
        """Elements of work done in these calls."""
        self.next_look = LOAD_SECONDS
        """Seconds in Python after which the choice of Python is reconsidered."""
        self.is_missing = False
        """True if no compiled form was on disk at the last look, and compiling it is quick."""
        update_wrapper(self, function)
        Kernel.known.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the kernel as Python."""
        return self.function(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The compiled function; its first call compiles it, or loads it from the disk cache."""
        source = cast(FunctionType, self.function)
        # Compiled callees take the place of the kernels among the globals of a copy; the original
        # still calls the Python forms.
        names = dict(source.__globals__)
        names |= {name: x.compiled for name, x in self._named.items() if isinstance(x, Kernel)}
        copy = FunctionType(
            source.__code__, names, source.__name__, source.__defaults__, source.__closure__
        )
        # The fingerprint becomes part of the name in LLVM, so that kernels compiled by different
        # processes can be loaded into one process.
        copy.__qualname__ = f"{source.__qualname__}_{self.fingerprint[:16]}"
        copy.__module__ = source.__module__
        _listener()
        made = jit_compile.dispatcher(copy, part=self.part, borrows=self.borrows)
        if not self.part:
            disk_cache.keep_on_disk(made, self.file_name)
            # Shadows numba's own method for this one dispatcher.
            made.compile = partial(self._compile_in_turn, made.compile)
        return cast("Callable[P, R]", made)

    @cached_property
    def _named(self) -> dict[str, Any]:
        """Global names used by the code, with their values."""
        source = cast(FunctionType, self.function)
        known = source.__globals__
        # Sorted, so that the fingerprint does not depend on the order of use.
        return {name: known.get(name) for name in sorted(set(source.__code__.co_names))}

    @cached_property
    def borrows(self) -> bool:
        """Return True if the kernel does not create or return arrays.

        Reference counts are not needed in that case. It holds if the kernel returns numbers only
        and does not use a module such as NumPy, directly or through kernels that it calls.
        """
        numbers = re.fullmatch(NUMBERS, str(self.function.__annotations__.get("return")))
        # Unknown annotations count as arrays: reference counts cost time, their lack would crash.
        return numbers is not None and not any(
            isinstance(x, ModuleType) or (isinstance(x, Kernel) and not x.borrows)
            for x in self._named.values()
        )

    @cached_property
    def parts(self) -> frozenset[Kernel[..., Any]]:
        """The kernel and all kernels that it calls, directly or indirectly."""
        called = (x for x in self._named.values() if isinstance(x, Kernel))
        return frozenset({self}).union(*(x.parts for x in called))

    @cached_property
    def file_name(self) -> str:
        """Prefix of the names of the files that hold this kernel in the disk cache."""
        name = f"{self.function.__module__}.{self.function.__qualname__}_{self.fingerprint[:16]}"
        return "".join(c if c.isalnum() or c in "._" else "_" for c in name)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the code, of everything it calls or refers to, and of the compiler settings."""
        source = cast(FunctionType, self.function)
        digest = hashlib.sha256(_described_compiler().encode())
        # Bytecode, not source text: comments and docstrings do not change it.
        digest.update(repr(_described(source.__code__, source.__doc__)).encode())
        digest.update(f"{self.borrows} {source.__defaults__!r}".encode())
        for name, value in self._named.items():
            if isinstance(value, Kernel):
                # Callees are part of the compiled code, so a change in any of them changes this
                # name too.
                digest.update(f"{name}={value.fingerprint}".encode())
            elif isinstance(value, int | float | str | tuple | frozenset):
                digest.update(f"{name}={value!r}".encode())
            elif isinstance(value, type):
                # Kernels take named tuples apart by position: another field order is another
                # program.
                digest.update(f"{name}={getattr(value, '_fields', ())!r}".encode())
        return digest.hexdigest()

    def for_work(self, elements: int) -> Callable[P, R]:
        """Return a function that runs the form that answers sooner; the choice is made per call.

        `elements` is the amount of work of the call. Python is first assumed to take
        :data:`ELEMENT_SECONDS` per element; later calls use the measured time.
        """
        if policy.force is not None:
            return policy.force(self)
        # Loaded already: no choice to make.
        if self._is_ready():
            return self.compiled
        return cast("Callable[P, R]", partial(self._run, elements))

    def _run(self, elements: int, *args: Any) -> R:
        # The measured rate includes everything, even the cost of a slow machine.
        rate = self.seconds / self.elements if self.elements else ELEMENT_SECONDS
        call = elements * rate
        if not self._is_ready():
            # Below the next look not even the folder on disk is listed: that would cost more than
            # the call.
            if self.seconds + call < self.next_look or not self._is_worth_it(call, args):
                return self._run_python(elements, args)
            self.load(*args)
        return cast("Callable[..., R]", self.compiled)(*args)

    def _run_python(self, elements: int, args: tuple[Any, ...]) -> R:
        # Time of this thread alone: what other threads do at the same time must not count.
        begun = time.thread_time()
        result = cast("Callable[..., R]", self.function)(*args)
        took = time.thread_time() - begun
        if self.is_missing:
            # At most the compile time is not counted, as compiling would not have been counted
            # either.
            Kernel.spared_seconds += max(0.0, min(took, self._compile_estimate - self.seconds))
        self.seconds += took
        self.elements += elements
        Kernel.all_seconds += took
        return result

    def _is_ready(self) -> bool:
        """Return True if a compiled form is loaded."""
        # The property exists once `compiled` was asked for; overloads exist once a form was made.
        return "compiled" in self.__dict__ and bool(cast(Any, self.compiled).overloads)

    def load(self, *args: Any) -> None:
        """Load the form for arguments like these, or compile it unless another process does."""
        made = cast(Any, self.compiled)
        made.compile(tuple(map(made.typeof_pyval, args)))

    def _compile_in_turn(self, compile_form: Callable[[Any], Any], kinds: Any) -> Any:
        """Load or compile the form for arguments of the given types.

        Processes that start at the same time, such as those of `optsched warmup` or of a hunt, need
        the same kernels. One of them compiles each kernel; the others wait and load the saved form.
        """
        # On disk already: nobody needs to wait.
        if disk_cache.has_file(self.file_name):
            return compile_form(kinds)
        policy.watch_compiling(True)
        try:
            with disk_cache.turn(self.file_name, self._compile_estimate) as waited:
                Kernel.waited_seconds += waited
                # Loads it if another process saved it in the meantime, otherwise compiles it.
                return compile_form(kinds)
        finally:
            policy.watch_compiling(False)

    def _is_worth_it(self, call: float, args: tuple[Any, ...]) -> bool:
        """Return True if the kernel should be loaded or compiled now.

        `call` is the estimated time of the next call as Python. If the result is False, the
        background process may be asked to compile the kernel.
        """
        seconds = self.seconds + call
        self.next_look = seconds + LOOK_SECONDS
        # Numba itself costs an import, which all kernels share.
        importing = 0.0 if is_warm() else IMPORT_SECONDS
        is_on_disk = disk_cache.has_file(self.file_name)
        self.is_missing = not is_on_disk and self._compile_estimate < LONG_SECONDS
        if is_on_disk:
            # Loading is quick, but may drag in numba: worth it once Python has cost as much, or
            # will cost as much in the runs to come.
            return Kernel.all_seconds + call >= importing / policy.runs_to_come
        compiling = self._compile_estimate + importing
        # The time of a first call is a guess, often a hundred times too high, which says nothing
        # about ten calls.
        is_large = (
            self.elements > 0
            and Kernel.all_seconds > QUICK_SECONDS
            and call > LARGE_SHARE * compiling
        )
        # A tenth of the time has passed: the process next door may begin while Python goes on.
        surely = call if self.elements else call / DOUBT
        if is_large or self.seconds + surely > ASKING_SHARE * (compiling + START_SECONDS):
            self._ask(args)
        # A form that comes after the deadline is of use only if Python would come later still.
        if time.monotonic() + compiling > policy.deadline and surely < compiling:
            return False
        # Two reasons to compile here: a call so large that it alone pays for compiling, or as much
        # time spent in Python as compiling takes. The latter costs at most twice the minimum, as
        # when skis are rented until the rent has reached their price.
        if compiler.is_beside(self.file_name):
            return seconds > PATIENCE * compiling / policy.runs_to_come
        return (is_large and self.is_missing) or seconds > compiling / policy.runs_to_come

    def _ask(self, args: tuple[Any, ...]) -> None:
        """Ask the background process to compile this kernel, once."""
        name = cast(FunctionType, self.function).__qualname__
        if compiler.ask(self.function.__module__, name, self.file_name, args):
            _tell()
        disk_cache.warn_if_nowhere()

    @cached_property
    def _compile_estimate(self) -> float:
        """Estimated compile time in seconds."""
        code = (cast(FunctionType, x.function).__code__ for x in self.parts)
        return COMPILE_SECONDS + COMPILE_BYTE_SECONDS * sum(len(x.co_code) for x in code)


class InnerKernel(Kernel[P, R]):
    """A kernel that is compiled into the kernels that call it; Python runs its plain form."""

    part = True


def _described(code: CodeType, doc: str | None = None) -> tuple[object, ...]:
    """Return the behavior of a code object, without its location and docstring."""
    constants = [
        # The `repr` of a code object has its address in it, so inner ones are described as well.
        _described(x) if isinstance(x, CodeType) else repr(None if x == doc else x)
        for x in code.co_consts
    ]
    return code.co_code, constants, code.co_names, code.co_varnames


@cache
def _described_compiler() -> str:
    # optimize=2 drops docstrings, on which no code depends.
    loader = cast(Any, jit_compile.__spec__).loader
    source = loader.get_source(jit_compile.__name__)
    return repr(_described(compile(source, "", "exec", optimize=2)))


def reference_form(kernel: Kernel[P, R]) -> Callable[P, R]:
    """Return the plain Python form of a kernel."""
    return kernel.function


def compiled_form(kernel: Kernel[P, R]) -> Callable[P, R]:
    """Return the compiled form of a kernel."""
    return kernel.compiled


def inner(function: Callable[P, R]) -> InnerKernel[P, R]:
    """Make a kernel that only kernels call (decorator)."""
    return InnerKernel(function)


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Make a kernel from a function (decorator)."""
    return Kernel(function)


def report_compiling(tell: Callable[[], None]) -> None:
    """Register the function to call once, when this process first compiles a kernel."""
    _on_first[:] = [tell]


@contextmanager
def also_report_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Call a further function after the registered one, if that happens in this context."""
    _on_first.append(tell)
    try:
        yield
    finally:
        if tell in _on_first:
            _on_first.remove(tell)


def compile_seconds() -> float:
    """Return the seconds this process has spent because kernels were not compiled before.

    It has compiled them, waited for another process to do so, or run them as Python in the
    meantime. The time to load compiled kernels is not included.
    """
    # While a compilation runs, the listener's duration is not defined.
    own = float(_listener().duration) if is_warm() and _listener().done else 0.0
    return own + Kernel.waited_seconds + Kernel.spared_seconds


_on_first: list[Callable[[], None]] = []


def _tell() -> None:
    while _on_first:
        _on_first.pop(0)()


@cache
def _listener() -> Any:
    """Register a listener for compilations and return it; it adds up their time."""
    from numba.core import event

    class CompileListener(event.TimingListener):  # type: ignore[misc]
        """Listener that adds up compile times, reports the first one, and polls Ctrl-C."""

        def on_start(self, event: Any) -> None:
            # This call comes first: numba reports the end even if a later statement raises.
            super().on_start(event)
            take_interrupt()
            _tell()

    listener = CompileListener()
    event.register("numba:compile", listener)
    return listener


def is_warm() -> bool:
    """Return True if numba is imported, so that compiled kernels do not cost an import."""
    return "numba" in sys.modules
