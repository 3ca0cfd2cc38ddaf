"""How kernels are compiled: numba's way, less the work that is of no use here.

Numba optimises every function fully and makes machine code of it, then does both once more for each
caller that it becomes part of. A kernel that is only ever part of others needs neither, which
saves a third of the time. Loops over 64-bit integers with branches gain nothing from being
vectorised, which saves a tenth. The code that runs is optimised as ever.

And what became part of a kernel stays its own. Numba leaves such functions open to all, under a
name that ends in the count of functions the process had compiled. Two caches made by two processes
may so give one name to two functions (`np.sort` and `np.argsort` share all the rest of it), and the
kernel loaded later would run the other's.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any


@cache
def compiler(*, part: bool) -> Any:
    """Return the class that compiles kernels; `part` for those that are only called by others."""
    from llvmlite.binding import Linkage
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder

    class Library(JITCodeLibrary):  # type: ignore[misc]
        """Machine code of a kernel and all it calls."""

        def _optimize_final_module(self) -> None:
            if not part:
                self._keep_to_itself()
            self._optimize(opt=self._codegen._opt_level, slp_vectorize=False, cost="cheap")
            if not part:
                self._optimize()

        def _keep_to_itself(self) -> None:
            for function in self._final_module.functions:
                runtime = function.name.startswith("NRT_")  # found by name, and the same in all
                if function.linkage == Linkage.linkonce_odr and not runtime:
                    function.linkage = Linkage.internal

        def _optimize(self, **options: Any) -> None:
            passes, builder = self._codegen._module_pass_manager(loop_vectorize=False, **options)
            passes.run(self._final_module, builder)

    class Part(Library):
        """A kernel to be built into others: without machine code, so nothing to point at."""

        codegen = SimpleNamespace(set_env=lambda name, env: None)

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

    class Compiler(CompilerBase):  # type: ignore[misc]
        """Numba's, but for the library that the code goes to."""

        def define_pipelines(self) -> list[Any]:
            codegen = self.state.targetctx.codegen()
            name = self.state.func_id.func_qualname
            self.state.library = (Part if part else Library)(codegen, name)
            self.state.library.enable_object_caching()
            return [DefaultPassBuilder.define_nopython_pipeline(self.state)]

    return Compiler
