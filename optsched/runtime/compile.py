"""How kernels are compiled: numba as it comes, with three hooks, each of which fails closed.

1. *What became part of a kernel stays its own.* Numba leaves functions that it links into a kernel
   open to the process, under names that end in a count. Kernels that two processes compiled may so
   give one name to two functions (numba issue 10486). Their linkage is made internal.
2. *Parts have no machine code of their own.* Numba makes machine code of every function, and again
   in each caller it is linked into. A function that only kernels call needs the latter alone.
3. *Optimised once.* LLVM runs once over a whole kernel; loops over integers are not vectorised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

from optsched.errors import OptschedError

INLINED = 50
"""How much machine code a call may grow into: a quarter of what LLVM allows by default."""
TESTED = ((0, 62), (0, 69))
"""Versions of numba that the hooks are tested with: from the first on, before the second."""


def dispatcher(function: FunctionType, *, part: bool, borrows: bool = False) -> Any:
    """Return what compiles a function when it is called first.

    Parameters
    ----------
    function
        What to compile, for the types of whatever it is called with.
    part
        Whether only other kernels call it: it then has no entry for Python.
    borrows
        Whether it neither makes nor returns arrays: numba then does not count who holds those it is
        given. One that makes an array all the same is refused by numba.

    Raises
    ------
    OptschedError
        If the installed numba is not of a tested version.
    """
    import numba

    version = tuple(int(x) for x in numba.__version__.split(".")[:2])
    if not TESTED[0] <= version < TESTED[1]:
        wanted = "numba>={}.{},<{}.{}".format(*TESTED[0], *TESTED[1])
        raise OptschedError(
            f"numba {numba.__version__} is not supported; run: pip install '{wanted}'"
        )
    return numba.njit(
        nogil=True,
        no_cfunc_wrapper=True,
        no_cpython_wrapper=part,
        _nrt=not borrows,
        pipeline_class=_compiler(part),
    )(function)


@cache
def _compiler(part: bool) -> Any:
    """Return numba's compiler of one function, but for the library its code goes to."""
    from numba.core.compiler import CompilerBase, DefaultPassBuilder

    whole, embedded = _libraries()

    class Compiler(CompilerBase):  # type: ignore[misc]
        """Numba's passes; what numba compiles of its own on the way is embedded as well."""

        def _compile_core(self) -> Any:
            with made_by(self.state.targetctx.codegen(), embedded):
                return super()._compile_core()

        def define_pipelines(self) -> list[Any]:
            codegen = self.state.targetctx.codegen()
            name = self.state.func_id.func_qualname
            self.state.library = (embedded if part else whole)(codegen, name)
            self.state.library.enable_object_caching()
            return [DefaultPassBuilder.define_nopython_pipeline(self.state)]

    return Compiler


@cache
def _libraries() -> tuple[Any, Any]:
    """Return the class that holds a kernel's machine code, and the one of a part's LLVM code."""
    from llvmlite.binding import Linkage, create_pass_builder, create_pipeline_tuning_options
    from numba.core.codegen import JITCodeLibrary

    def optimiser(machine: Any) -> Any:
        options = create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        options.inlining_threshold = INLINED
        return create_pass_builder(machine, options)

    class Library(JITCodeLibrary):  # type: ignore[misc]
        """Machine code of a kernel and all it calls."""

        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            for function in self._final_module.functions:
                runtime = function.name.startswith("NRT_")  # found by name, and the same in all
                if function.linkage == Linkage.linkonce_odr and not runtime:
                    function.linkage = Linkage.internal
            builder = optimiser(self._codegen._tm)
            passes = builder.getModulePassManager()
            passes.add_refprune_pass()
            passes.run(self._final_module, builder)

    class Part(Library):
        """A function to be linked into kernels: without machine code, so nothing to point at."""

        codegen = SimpleNamespace(set_env=lambda name, env: None)

        def _optimize_functions(self, ll_module: Any) -> None:
            super()._optimize_functions(ll_module)
            builder = optimiser(self._codegen._tm)
            passes = builder.getFunctionPassManager()
            passes.add_refprune_pass()
            for function in ll_module.functions:
                if not function.is_declaration:
                    passes.run(function, builder)

        def _optimize_final_module(self) -> None:
            """Leave that to the kernel it becomes part of."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

    return Library, Part


@contextmanager
def made_by(codegen: Any, library: type) -> Iterator[None]:
    """Let what numba compiles or loads meanwhile be of this kind."""
    before = codegen._library_class
    codegen._library_class = library
    try:
        yield
    finally:
        codegen._library_class = before
