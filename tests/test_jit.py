"""Kernels: one source, two forms, same answers; nothing is compiled for little work."""

from __future__ import annotations

import subprocess
import sys
from types import FunctionType
from typing import Any, cast

import numpy as np
import pytest
from llvmlite.binding import Linkage

from optsched.jit import SMALL, SMALL_WARM, Kernel, inner, kernel


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
    changed_function = FunctionType(function.__code__, names, function.__name__)
    changed_function.__annotations__ = function.__annotations__
    return Kernel(changed_function)


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


@inner
def negate(values: np.ndarray, k: int) -> None:
    row = values[k]
    for i in range(len(row)):
        row[i] = -row[i]


@kernel
def negate_all(values: np.ndarray) -> int:
    for k in range(values.shape[0]):
        negate(values, k)
    return int(values[0, 0])


@kernel
def tail(values: np.ndarray) -> np.ndarray:
    return values[1:]


@kernel
def first_of_tail(values: np.ndarray) -> int:
    return int(tail(values)[0])


@kernel
def first_of_sum(a: np.ndarray, b: np.ndarray) -> int:
    return int((a + b)[0])


def names_in(source: Kernel[..., Any]) -> set[str]:
    library = next(iter(cast(Any, source.compiled).overloads.values())).library
    return {x.name for x in library._get_module_for_linking().functions}


def test_references_are_counted_only_where_arrays_are_made_or_returned() -> None:
    assert negate_all.counts_references  # this module has numpy
    free = with_globals(negate_all, np=None, negate=inner(with_globals(negate, np=None).function))
    assert not free.counts_references
    assert free.fingerprint != negate_all.fingerprint
    for source in (free, negate_all):
        values = np.arange(6).reshape(2, 3)
        assert source.compiled(values) == 0
        assert values.tolist() == [[0, -1, -2], [-3, -4, -5]]
    assert "NRT_incref" not in names_in(free)
    lean_tail = with_globals(tail, np=None)
    assert lean_tail.counts_references
    assert with_globals(first_of_tail, np=None, tail=lean_tail).counts_references
    assert first_of_tail.compiled(np.array([3, 1])) == 1


def test_arrays_made_without_counting_are_refused() -> None:
    lean = with_globals(first_of_sum, np=None)
    with pytest.raises(Exception, match="NRT required"):
        lean.compiled(np.arange(3), np.arange(3))
    assert first_of_sum.compiled(np.arange(3), np.arange(3)) == 0
