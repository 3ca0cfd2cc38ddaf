"""Kernels: one source, two forms, same answers; nothing is compiled for little work."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from optsched.jit import SMALL, kernel


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

    assert fresh.for_work(SMALL) is fresh
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
