"""Compilation of kernels by numba, with three hooks; if a hook does not fit, compilation fails.

1. *Functions linked into a kernel are internal.* Numba leaves such functions visible in the
   process, under names that end in a counter. Two kernels compiled by different processes can
   therefore give the same name to different functions (numba issue 10486). The hook makes their
   linkage internal and adds the name of the kernel, which has its fingerprint, to their names.
2. *Inner kernels have no machine code of their own.* Numba compiles every function to machine code,
   and again within each caller into which it is linked. For a function that only kernels call, the
   latter is enough.
3. *Code is optimized once.* LLVM runs once over a full kernel, and loops over integers are not
   vectorized.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

from optsched.errors import UnsupportedVersionError

INLINED = 50
"""Inlining threshold of LLVM: a quarter of the default, to limit code size."""
TESTED = ((0, 62), (0, 69))
"""Versions of numba with which the hooks are tested: from the first one up to, but excluding, the
second one.
"""


def dispatcher(function: FunctionType, *, part: bool, borrows: bool = False) -> Any:
    """Return a dispatcher that compiles a function at its first call.

    Raise `UnsupportedVersionError` if the installed version of numba is not a tested one.

    `function`: function to compile for the types of its arguments. `part`: True if only other
    kernels call the function; it cannot be called from Python then. `borrows`: True if the function
    does not create or return arrays. Numba then omits reference counting of the arrays passed in,
    and rejects the function if it creates an array after all.
    """
    import numba

    # The hooks override private methods of numba, which any release may change. Better an error
    # with the remedy than kernels that compute something else.
    version = tuple(int(x) for x in numba.__version__.split(".")[:2])
    if not TESTED[0] <= version < TESTED[1]:
        wanted = "numba>={}.{},<{}.{}".format(*TESTED[0], *TESTED[1])
        raise UnsupportedVersionError(
            f"numba {numba.__version__} is not supported; run: pip install '{wanted}'"
        )
    # nogil: several threads may run kernels. Wrappers are needed only for calls from Python (of
    # kernels) and from C (never). _nrt: no reference counts where no array is made.
    return numba.njit(
        nogil=True,
        no_cfunc_wrapper=True,
        no_cpython_wrapper=part,
        _nrt=not borrows,
        pipeline_class=_compiler(part),
    )(function)


@cache
def _compiler(part: bool) -> Any:
    """Return numba's compiler class, changed to put code into the libraries defined here."""
    from numba.core.compiler import CompilerBase, DefaultPassBuilder

    whole, embedded = _libraries()

    class Compiler(CompilerBase):  # type: ignore[misc]
        """Numba's passes; functions that numba itself adds are embedded as well."""

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
    """Return the library classes of kernels (machine code) and of inner kernels (LLVM code)."""
    from llvmlite.binding import Linkage, create_pass_builder, create_pipeline_tuning_options
    from numba.core.codegen import JITCodeLibrary

    def optimizer(machine: Any) -> Any:
        # Every pass costs compile time. The inner loops follow lists of ids, which cannot be
        # vectorized, so those passes are off.
        options = create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        options.inlining_threshold = INLINED
        return create_pass_builder(machine, options)

    class Library(JITCodeLibrary):  # type: ignore[misc]
        """Machine code of a kernel and of all functions it calls."""

        # Numba would optimize each function alone, and again in the final module.
        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            for function in self._final_module.functions:
                runtime = function.name.startswith(
                    "NRT_"
                )  # found by name, identical in all kernels
                if function.linkage == Linkage.linkonce_odr and not runtime:
                    function.linkage = Linkage.internal
                    # LLVM's loader finds internal functions by name too: make it unique.
                    function.name = f"{function.name}.{self.name}"
            builder = optimizer(self._codegen._tm)
            passes = builder.getModulePassManager()
            # Removes pairs of increment and decrement of reference counts; run by every library of
            # numba.
            passes.add_refprune_pass()
            passes.run(self._final_module, builder)

    class Part(Library):
        """LLVM code of a function that is linked into kernels; it has no machine code."""

        # Stands in for the code generator: a function without machine code has no environment.
        codegen = SimpleNamespace(set_env=lambda name, env: None)

        def _optimize_functions(self, ll_module: Any) -> None:
            super()._optimize_functions(ll_module)
            builder = optimizer(self._codegen._tm)
            passes = builder.getFunctionPassManager()
            passes.add_refprune_pass()
            for function in ll_module.functions:
                if not function.is_declaration:
                    passes.run(function, builder)

        def _optimize_final_module(self) -> None:
            """Do nothing; the kernel that the function becomes part of is optimized."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        # No machine code, no address. Numba asks for one, but only the calling kernel is entered.
        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

    return Library, Part


@contextmanager
def made_by(codegen: Any, library: type) -> Iterator[None]:
    """Make numba use a library class for all code compiled or loaded in this context."""
    before = codegen._library_class
    codegen._library_class = library
    try:
        yield
    finally:
        codegen._library_class = before
