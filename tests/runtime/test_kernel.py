"""Kernels: one source, two forms, same answers; nothing is compiled for little work."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
import pytest
from llvmlite.binding import Linkage
from numba import extending
from numba.core import config, types
from numba.core.base import BaseContext
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys

from optsched.runtime import compile as jit_compile
from optsched.runtime import kernel as jit
from optsched.runtime.jit_shortcuts import shortcuts
from optsched.runtime.kernel import SMALL, SMALL_WARM, Kernel, inner, kernel


@kernel
def square(x: int) -> int:
    return x * x


@kernel
def sum_of_squares(values: np.ndarray) -> int:
    total = 0
    for i in range(len(values)):
        total += square(values[i])
    return total


def test_both_forms_agree_and_nested_kernels_compile() -> None:
    values = np.arange(10)
    assert sum_of_squares(values) == sum_of_squares.compiled(values) == 285


def test_little_work_stays_in_python() -> None:
    @kernel
    def fresh(x: int) -> int:
        return x

    assert fresh.for_work(SMALL_WARM) is fresh
    assert fresh.for_work(SMALL + 1) is fresh.compiled
    assert fresh.for_work(1) is fresh.compiled


def test_compiling_is_told_of_once_and_loading_not_at_all(tmp_path: Path) -> None:
    module = tmp_path / "told.py"
    module.write_text(
        "from optsched.runtime.kernel import kernel, tell_of_compiling\n"
        "@kernel\n"
        "def one(x: int) -> int:\n"
        "    return x + 1\n"
        "@kernel\n"
        "def two(x: int) -> int:\n"
        "    return x + 2\n"
        "tell_of_compiling(lambda: print('compiling'))\n"
        "print(one.compiled(1), two.compiled(1))\n"
    )
    said = []
    for _ in range(2):
        here = {
            "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": str(Path(jit.__file__).parents[2]),
        }
        env = {**os.environ, **here}
        done = subprocess.run(
            [sys.executable, str(module)], capture_output=True, text=True, check=True, env=env
        )
        said.append(done.stdout.split())
    assert said == [["compiling", "2", "3"], ["2", "3"]]


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, optsched, heuristics; "
        "heavy = {'numba', 'ortools', 'pulp', 'networkx', 'torch', 'rich', 'highspy'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FACTOR = 2


@kernel
def scaled(x: int) -> int:
    return x * FACTOR


@kernel
def shifted(x: int) -> int:
    return scaled(x) + 1


@kernel
def doubled(x: int) -> int:
    return x + x


def with_globals(source: Kernel[..., int], **changed: object) -> Kernel[..., int]:
    function = source.function
    assert isinstance(function, FunctionType)
    names = {**function.__globals__, **changed}
    return Kernel(FunctionType(function.__code__, names, function.__name__))


def test_fingerprint_follows_code_callees_and_constants() -> None:
    assert with_globals(shifted).fingerprint == shifted.fingerprint
    assert with_globals(shifted, scaled=doubled).fingerprint != shifted.fingerprint
    assert with_globals(scaled, FACTOR=3).fingerprint != scaled.fingerprint
    assert with_globals(doubled, FACTOR=3).fingerprint == doubled.fingerprint
    other_factor = with_globals(scaled, FACTOR=3)
    assert with_globals(shifted, scaled=other_factor).fingerprint != shifted.fingerprint


def test_inner_kernels_run_inside_others_and_as_python() -> None:
    helper = inner(doubled.function)
    outer = with_globals(shifted, scaled=helper)
    assert outer.compiled(5) == 11
    assert helper(5) == 10


@kernel
def ordered(values: np.ndarray) -> np.ndarray:
    return np.sort(values)


def test_what_became_part_of_a_kernel_stays_its_own() -> None:
    """Names of such functions may stand for others in a kernel that another process compiled."""
    assert ordered.compiled(np.array([3, 1, 2])).tolist() == [1, 2, 3]
    library = next(iter(cast(Any, ordered.compiled).overloads.values())).library
    functions = [x for x in library._get_module_for_linking().functions if not x.is_declaration]
    shared = {x.name for x in functions if x.linkage == Linkage.linkonce_odr}
    assert [x for x in shared if "ordered" in x]
    assert not [x for x in shared if "ordered" not in x and not x.startswith("NRT_")]


def test_the_way_of_compiling_is_part_of_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    before = with_globals(doubled).fingerprint
    monkeypatch.setattr(jit, "_described_compiler", lambda: "another way")
    assert with_globals(doubled).fingerprint != before


@inner
def at(values: np.ndarray, place: int) -> int:
    return values[place] + len(values[place:])


@inner
def tail(values: np.ndarray, begin: int) -> np.ndarray:
    return values[begin:]


@inner
def copies(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return values.copy(), values


@kernel
def held(values: np.ndarray, turns: int) -> np.ndarray:
    one, two = copies(values)
    total = 0
    for turn in range(turns):
        one, two = copies(tail(one, 0))
        total += at(one, turn) + at(two, 0) + at(tail(two, 1), 1)
    one[0] = total
    return one


ARRAY = types.Array(types.int64, 1, "C")


def compiled_for(source: Kernel[..., Any], *kinds: types.Type) -> Any:
    """What a kernel was compiled to for arguments of these kinds."""
    dispatcher = cast(Any, source.compiled)
    dispatcher.get_call_template(kinds, {})
    (form,) = dispatcher.overloads.values()
    return form


def test_arrays_are_given_back_and_no_sooner() -> None:
    """Functions that only look at arrays do not count who holds them; all others do."""
    values = np.arange(10)
    assert held.compiled(values, 5).tolist() == held(values, 5).tolist()
    _nrt_python.memsys_enable_stats()
    at_first = rtsys.get_allocation_stats()
    for _ in range(100):
        assert held.compiled(values, 5).tolist() == held(values, 5).tolist()
    now = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert now.mi_alloc - at_first.mi_alloc >= 600
    assert now.mi_alloc - at_first.mi_alloc == now.mi_free - at_first.mi_free
    assert not compiled_for(at, ARRAY, types.int64).target_context.enable_nrt
    assert compiled_for(tail, ARRAY, types.int64).target_context.enable_nrt
    assert compiled_for(copies, ARRAY).target_context.enable_nrt


def test_parts_are_compiled_once_whatever_integer_they_are_called_with() -> None:
    form = compiled_for(at, ARRAY, types.literal(0))
    assert form is compiled_for(at, ARRAY, types.literal(1))
    assert form is compiled_for(at, ARRAY, types.int64)


def test_compiling_leaves_the_process_as_it_was() -> None:
    codegen = cpu_target.target_context.codegen()
    before = codegen._library_class
    assert with_globals(doubled).compiled(4) == 8
    assert gc.isenabled()
    assert codegen._library_class is before


def test_a_kernel_loaded_while_another_is_compiled_can_be_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    assert with_globals(doubled).compiled(3) == 6
    loaded = with_globals(doubled)
    assert with_globals(shifted, scaled=loaded).compiled(3) == 7
    assert cast(Any, loaded.compiled).stats.cache_hits
    assert loaded.compiled(3) == 6


@pytest.mark.parametrize("version", ["0.61.2", "0.69.0rc1", "1.0.0"])
def test_an_unknown_numba_compiles_its_own_way(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(x: int, y: int) -> int:
        return x + y

    monkeypatch.setattr(numba, "__version__", version)
    made = jit_compile.dispatcher(cast(FunctionType, add), part=True)
    assert made(2, 3) == 5
    assert made.targetoptions == {"nogil": True, "nopython": True, "boundscheck": None}


def test_the_numba_that_is_here_is_known() -> None:
    # Or kernels take twice as long to compile.
    assert jit_compile._is_known(numba.__version__)


def thrice(x: int) -> int:
    return 3 * x


@kernel
def late(x: int) -> int:
    return thrice(x)


def test_numba_finds_what_is_declared_while_kernels_are_compiled() -> None:
    before = BaseContext.refresh
    with shortcuts():
        cpu_target.target_context.refresh()
        assert BaseContext.refresh is not before
        extending.overload(thrice)(lambda x: lambda x: 3 * x)
        assert late.compiled(5) == late(5) == 15
    assert BaseContext.refresh is before
