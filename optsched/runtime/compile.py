"""How kernels are compiled: numba's way, less the work that is of no use here.

Numba optimises every function fully and makes machine code of it, then does both once more for each
caller that it becomes part of. A function that is only ever part of others needs neither, be it a
kernel or one of numba's own (`np.zeros`), which saves almost half of the time. Loops over 64-bit
integers with branches gain nothing from being vectorised, which saves a tenth. A function that
makes no arrays need not count who holds those it was given: its caller holds them. What a function
is given it uses as it came (`optsched/runtime/jit_lowering.py`), an array as an address and a shape
(`optsched/runtime/jit_lending.py`): a third of the instructions, and a quarter of the time. A call
with 0 is no other kind than one with any integer. And there is so little garbage that looking for
it takes a tenth of the time. Each part is made simpler once, where it is written, and all of a
kernel is optimised once, at the end.

And what became part of a kernel stays its own. Numba leaves such functions open to all, under a
name that ends in the count of functions the process had compiled. Two caches made by two processes
may so give one name to two functions (`np.sort` and `np.argsort` share all the rest of it), and the
kernel loaded later would run the other's.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

BORROWS = (
    *("cast", "build_tuple", "exhaust_iter", "getattr", "getitem", "static_getitem"),
    *("typed_getitem", "getiter", "iternext", "pair_first", "pair_second", "phi"),
)
"""Expressions of numba that make nothing: their arrays are those they are made of, or views."""

NEEDLESS = (
    *("inline_closure_likes", "dead_branch_prune", "nopython_rewrites", "with_lifting"),
    *("rewrite_semantic_constants", "make_function_op_code_to_jit_function", "inline_inlinables"),
    *("find_literally", "literal_unroll", "LiteralPropagation", "inline_overloads"),
)
"""Steps of numba's for what no kernel has: functions within functions, `None`, sums of whole
arrays, `with`, code to be put in place before it is compiled, and types made of values. Without
them an eighth less is done, and a kernel that has one of these is refused."""

INLINED = 50
"""How much machine code a call may grow into: a quarter of what LLVM allows if not told."""

KNOWN = ((0, 62), (0, 69))
"""Versions of numba that this goes with: from the first on, before the second."""

on_first: list[Callable[[], None]] = []
"""Called, and forgotten, when the first function is compiled rather than loaded."""


def dispatcher(function: FunctionType, *, part: bool) -> Any:
    """Return what compiles a function when it is called first, or loads it from the disk cache.

    A `part` is called by other kernels only: without an entry for Python it is a quarter less to
    compile, and there is nothing to cache. A version of numba that is not known compiles its own
    way, in about twice the time.
    """
    import numba
    from numba.core.types.misc import unliteral

    if not _is_known(numba.__version__):
        return numba.njit(nogil=True, cache=not part)(function)
    made = numba.njit(
        nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=part, pipeline_class=_compiler(part)
    )(function)
    if not part:
        made._cache = _lean_cache()(function)
    typed = made.get_call_template
    known: dict[tuple[Any, ...], Any] = {}

    def get_call_template(args: Any, kws: Any) -> Any:
        kinds = tuple(map(unliteral, args))
        if kws:
            return typed(kinds, kws)
        if kinds not in known:
            known[kinds] = typed(kinds, kws)
        return known[kinds]

    made.get_call_template = get_call_template
    return made


def _is_known(version: str) -> bool:
    """Whether what is changed here is there in a numba."""
    major, minor = version.split(".")[:2]
    return KNOWN[0] <= (int(major), int(minor)) < KNOWN[1]


@cache
def _lean_cache() -> Any:
    """Return a cache that loads compiled code without all that only a compilation needs.

    Numba's own first imports its whole library of typed functions, and with it SciPy: longer than
    most searches take. A compilation does so anyway.
    """
    from numba.core.caching import FunctionCache
    from numba.core.codegen import JITCodeLibrary
    from numba.core.runtime import rtsys

    class LeanCache(FunctionCache):  # type: ignore[misc]
        def load_overload(self, sig: Any, target_context: Any) -> Any:
            rtsys.initialize(target_context)
            whole = _made_by(target_context.codegen(), JITCodeLibrary)
            with whole, self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)

    return LeanCache


@cache
def _compiler(part: bool) -> Any:
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.typed_passes import NativeLowering, NopythonTypeInference

    from optsched.runtime.jit_lowering import LeanLowering, LeanPartLowering
    from optsched.runtime.jit_shortcuts import shortcuts

    library, embedded = _libraries()
    lowering = LeanPartLowering if part else LeanLowering

    class Compiler(CompilerBase):  # type: ignore[misc]
        """Numba's, but for where the code goes to, and whether arrays are counted."""

        def _compile_core(self) -> Any:
            while on_first:
                on_first.pop()()
            codegen = self.state.targetctx.codegen()
            with _undisturbed(), shortcuts(), _made_by(codegen, embedded):
                return super()._compile_core()

        def define_pipelines(self) -> list[Any]:
            codegen = self.state.targetctx.codegen()
            name = self.state.func_id.func_qualname
            self.state.library = (embedded if part else library)(codegen, name)
            self.state.library.enable_object_caching()
            passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
            if not any(isinstance(x, CodeType) for x in self.state.func_id.code.co_consts):
                passes.passes = [x for x in passes.passes if x[0]._name not in NEEDLESS]
            passes.passes = [
                (lowering, text) if step is NativeLowering else (step, text)
                for step, text in passes.passes
            ]
            passes.add_pass_after(_uncounted(), NopythonTypeInference)
            passes.finalize()
            return [passes]

    return Compiler


@cache
def _libraries() -> tuple[Any, Any]:
    """Return what holds the machine code of a kernel, and the code of what is part of one."""
    from llvmlite.binding import Linkage
    from numba.core.codegen import JITCodeLibrary

    class Library(JITCodeLibrary):  # type: ignore[misc]
        """Machine code of a kernel and all it calls."""

        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            for function in self._final_module.functions:
                runtime = function.name.startswith("NRT_")  # found by name, and the same in all
                if function.linkage == Linkage.linkonce_odr and not runtime:
                    function.linkage = Linkage.internal
            builder = _optimiser(self._codegen._tm)
            passes = builder.getModulePassManager()
            passes.add_refprune_pass()
            passes.run(self._final_module, builder)

    class Part(Library):
        """A function to be built into others: without machine code, so nothing to point at."""

        codegen = SimpleNamespace(set_env=lambda name, env: None)

        def _optimize_functions(self, ll_module: Any) -> None:
            super()._optimize_functions(ll_module)
            builder = _optimiser(self._codegen._tm)
            passes = builder.getFunctionPassManager()
            passes.add_refprune_pass()
            for function in ll_module.functions:
                if not function.is_declaration:
                    passes.run(function, builder)

        def _optimize_final_module(self) -> None:
            """Leave that to what it becomes part of."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

    return Library, Part


def _optimiser(machine: Any) -> Any:
    """Return LLVM's passes for a machine, tuned to loops that branch and seldom run long."""
    from llvmlite.binding import create_pass_builder, create_pipeline_tuning_options

    options = create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    options.inlining_threshold = INLINED
    return create_pass_builder(machine, options)


@contextmanager
def _made_by(codegen: Any, library: type) -> Iterator[None]:
    """Let what numba compiles of its own on the way be of this kind."""
    before = codegen._library_class
    codegen._library_class = library
    try:
        yield
    finally:
        codegen._library_class = before


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Look for no garbage: there is little, and much to look at."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@cache
def _uncounted() -> Any:
    """Return the pass that drops the counting of references where nothing is made or returned."""
    from numba.core.compiler_machinery import AnalysisPass, register_pass

    @register_pass(mutates_CFG=False, analysis_only=True)
    class Uncounted(AnalysisPass):  # type: ignore[misc]
        """Without it, a function would hold each of its arguments, and each array of a tuple."""

        _name = "optsched_uncounted"

        def __init__(self) -> None:
            AnalysisPass.__init__(self)

        def run_pass(self, state: Any) -> bool:
            if _only_borrows(state):
                state.targetctx = state.targetctx.subtarget(enable_nrt=False)
            return False

    return Uncounted


def _only_borrows(state: Any) -> bool:
    """Whether all arrays of a function are those of its arguments, and it returns none."""
    from numba.core import ir

    models = state.targetctx.data_model_manager

    def is_counted(kind: Any) -> bool:
        return bool(models[kind].contains_nrt_meminfo())

    def borrows(value: Any) -> bool:
        if isinstance(value, ir.Expr):
            fancy = value.op == "getitem" and is_counted(state.typemap[value.index.name])
            return value.op in BORROWS and not fancy
        return isinstance(value, ir.Var | ir.Arg)

    return not is_counted(state.return_type) and all(
        borrows(assign.value)
        for block in state.func_ir.blocks.values()
        for assign in block.find_insts(ir.Assign)
        if is_counted(state.typemap[assign.target.name])
    )
