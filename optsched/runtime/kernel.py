"""Kernels: functions on flat arrays that run as plain Python or compiled by numba.

A kernel is written once. Called as it is, it is Python: the reference implementation of the tests.
`kernel.compiled` is the same code compiled, kept on disk. `kernel.for_work` takes whichever answers
sooner, so that neither a small graph nor a short search on a large one waits for a compiler:

1. A form that is on the disk is loaded as soon as that pays.
2. Else Python runs, and once it took a small share of what compiling would take, a process beside
   this one is asked to compile (:mod:`optsched.runtime.background`).
3. Once Python took as long as compiling would, the kernel is compiled here; so no kernel takes much
   more than twice as long as it need. Where another process is at it, that is waited for.

Both forms do the same, state for state, so no answer depends on which of them ran.

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
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, cast

from optsched.runtime import compile as jit_compile
from optsched.runtime import disk_cache
from optsched.runtime.background import START_SECONDS, compiler
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
LOOK_SECONDS = 0.02
"""Of Python after which it is looked again whether a compiled form is there."""
ASKING_SHARE = 0.1
"""Of the seconds of compiling that Python takes before another process is asked to compile."""

NUMBERS = r"None|(Int|int|bool|float)|tuple\[((Int|int|bool|float)(, )?)+\]"
"""What a kernel that returns no arrays is annotated with."""


class Kernel(Generic[P, R]):
    """A function of arrays and integers, and its compiled form.

    It may call other kernels by their global name; the compiled form calls their compiled forms.
    """

    part = False
    all_seconds: ClassVar[float] = 0.0
    """Spent so far as Python in calls of all kernels."""
    waited_seconds: ClassVar[float] = 0.0
    """Spent so far on waiting for other processes that compile."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.seconds = 0.0
        """Spent so far in calls by :meth:`for_work` that ran as Python."""
        self.elements = 0
        """Of work in these calls."""
        self.next_look = LOAD_SECONDS
        """After how many seconds of Python it is asked whether to go on like this."""
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run as Python."""
        return self.function(*args, **kwargs)

    @cached_property
    def compiled(self) -> Callable[P, R]:
        """The compiled function; compiles on its first call or loads from the disk cache."""
        source = cast(FunctionType, self.function)
        names = dict(source.__globals__)
        names |= {name: x.compiled for name, x in self._named.items() if isinstance(x, Kernel)}
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
            made.compile = partial(self._compile_in_turn, made.compile)
        return cast("Callable[P, R]", made)

    @cached_property
    def _named(self) -> dict[str, Any]:
        """What its code calls or refers to, by global name."""
        source = cast(FunctionType, self.function)
        known = source.__globals__
        return {name: known.get(name) for name in sorted(set(source.__code__.co_names))}

    @cached_property
    def borrows(self) -> bool:
        """Whether it neither makes nor returns arrays, so that none need be counted.

        It calls nothing of a module such as NumPy, nor a kernel that does, and returns numbers.
        """
        numbers = re.fullmatch(NUMBERS, str(self.function.__annotations__.get("return")))
        return numbers is not None and not any(
            isinstance(x, ModuleType) or (isinstance(x, Kernel) and not x.borrows)
            for x in self._named.values()
        )

    @cached_property
    def parts(self) -> frozenset[Kernel[..., Any]]:
        """The kernel itself, and all that it calls."""
        called = (x for x in self._named.values() if isinstance(x, Kernel))
        return frozenset({self}).union(*(x.parts for x in called))

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
        for name, value in self._named.items():
            if isinstance(value, Kernel):
                digest.update(f"{name}={value.fingerprint}".encode())
            elif isinstance(value, int | float | str | tuple | frozenset):
                digest.update(f"{name}={value!r}".encode())
            elif isinstance(value, type):
                digest.update(f"{name}={getattr(value, '_fields', ())!r}".encode())
        return digest.hexdigest()

    def for_work(self, elements: int) -> Callable[P, R]:
        """Return what runs the form that answers sooner, asked again at each call.

        Each of the elements of work in one call takes Python some :data:`ELEMENT_SECONDS`; the time
        of calls so far says how right that is.
        """
        if force is not None:
            return force(self)
        if self._is_ready():
            return self.compiled
        return cast("Callable[P, R]", partial(self._run, elements))

    def _run(self, elements: int, *args: Any) -> R:
        rate = self.seconds / self.elements if self.elements else ELEMENT_SECONDS
        seconds = self.seconds + elements * rate
        if not self._is_ready():
            if seconds < self.next_look or not self._is_worth_it(seconds, args):
                return self._run_python(elements, args)
            self.load(*args)
        return cast("Callable[..., R]", self.compiled)(*args)

    def _run_python(self, elements: int, args: tuple[Any, ...]) -> R:
        begun = time.thread_time()
        result = cast("Callable[..., R]", self.function)(*args)
        took = time.thread_time() - begun
        self.seconds += took
        self.elements += elements
        Kernel.all_seconds += took
        return result

    def _is_ready(self) -> bool:
        """Whether a compiled form is loaded."""
        return "compiled" in self.__dict__ and bool(cast(Any, self.compiled).overloads)

    def load(self, *args: Any) -> None:
        """Load the form for arguments like these, or compile it unless another process does."""
        made = cast(Any, self.compiled)
        made.compile(tuple(map(made.typeof_pyval, args)))

    def _compile_in_turn(self, compile_form: Callable[[Any], Any], kinds: Any) -> Any:
        """Let numba load or compile the form for arguments of some types.

        Processes that start together, such as those of `optsched warmup` or of a hunt, need the
        same kernels: one of them compiles each, the others wait and load what it kept.
        """
        if disk_cache.has_file(self.file_name):
            return compile_form(kinds)
        watch_compiling(True)
        try:
            with disk_cache.turn(self.file_name, self._compile_estimate) as waited:
                Kernel.waited_seconds += waited
                return compile_form(kinds)
        finally:
            watch_compiling(False)

    def _is_worth_it(self, seconds: float, args: tuple[Any, ...]) -> bool:
        """Whether to load or compile now, where Python would have taken `seconds` of calls so far.

        Where it is not, another process may be asked to compile.
        """
        self.next_look = seconds + LOOK_SECONDS
        importing = 0.0 if is_warm() else IMPORT_SECONDS
        if disk_cache.has_file(self.file_name):
            return Kernel.all_seconds + seconds - self.seconds >= importing / runs_to_come
        compiling = self._compile_estimate + importing
        if seconds > compiling / runs_to_come:
            return True
        if seconds > ASKING_SHARE * (compiling + START_SECONDS):
            name = cast(FunctionType, self.function).__qualname__
            if compiler.ask(self.function.__module__, name, self.file_name, args):
                _tell()
            disk_cache.warn_if_nowhere()
        return False

    @cached_property
    def _compile_estimate(self) -> float:
        """Seconds."""
        code = (cast(FunctionType, x.function).__code__ for x in self.parts)
        return COMPILE_SECONDS + COMPILE_BYTE_SECONDS * sum(len(x.co_code) for x in code)


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


watch_compiling: Callable[[bool], object] = bool
"""Told when compiling, or waiting for another process that does, begins and when it has ended."""
runs_to_come = 1
"""How many runs much like this one the process will see: the work of all pays for compiling."""
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
    """Return the seconds that this process has spent compiling so far, or waiting for another's.

    Loading is not counted.
    """
    own = float(_listener().duration) if is_warm() and _listener().done else 0.0
    return own + Kernel.waited_seconds


_on_first: list[Callable[[], None]] = []


def _tell() -> None:
    while _on_first:
        _on_first.pop()()


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
            _tell()

    listener = CompileListener()
    event.register("numba:compile", listener)
    return listener


def is_warm() -> bool:
    """Whether numba is loaded already, so that compiled kernels cost no import."""
    return "numba" in sys.modules
