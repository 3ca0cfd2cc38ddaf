"""Three forms of every kernel agree, call by call and state for state.

    python -m tests.fuzz kernels [--count 1000] [--seed 0] [--no-plain]

Question: does machine code made with this project's three hooks into numba do what the reference
implementation in Python does, and what plain `numba.njit` makes of the same source? Random graphs
are ordered, bounded and packed. Each call of each kernel runs in all forms on copies of its
arguments; results, and every array that was handed over, must be the same to the last bit. Plain
numba compiles all kernels once in some minutes and keeps nothing.

Where plain numba takes part, kernels are compiled in this process, too, and not loaded from disk.
The functions linked into a loaded kernel have names that end in a counter of another process (numba
issue 10486), and the loader of LLVM finds them by name, though they are internal: plain numba then
called another `heappush` and raised "pop from empty list".
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np

from heuristics.packings import common
from optsched.certificate.bounds import closure_step
from optsched.counterexamples.kernels import (
    fill_sets,
    fullest_step,
    minimum_slab,
    next_capacity,
    peak_range,
    sized_above,
)
from optsched.counterexamples.small_graph import masks_of
from optsched.errors import OptschedError
from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.ordering import solve_order
from optsched.runtime import kernel as kernels
from optsched.runtime.clock import Clock
from optsched.runtime.kernel import Kernel
from optsched.runtime.limits import Limits
from optsched.solver.recompute.evict import Evictions
from optsched.solver.recompute.problem import make_problem
from optsched.solver.recompute.runs import Unroller, repeats
from optsched.solver.warmup import LIMITS, use_orders, use_packings, use_tree
from tests.support.brute_recompute import training_graph
from tests.support.generators import PLAIN, PLANNABLE, random_graph

Form = Callable[..., Any]
MOST_PACKED = 6
"""Buffers that are packed in every way there is."""


class DisagreementError(AssertionError):
    """Two forms of a kernel did not do the same."""


@cache
def plain_form(kernel: Kernel[..., Any]) -> Form:
    """Return what `numba.njit` makes of a kernel and of all that it calls."""
    source = cast(FunctionType, kernel.function)
    names = {
        name: plain_form(value) if isinstance(value, Kernel) else value
        for name, value in source.__globals__.items()
        if name in source.__code__.co_names
    }
    copy = FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    # Numba looks at the module for its messages and its cache.
    copy.__module__ = source.__module__
    return cast(Form, numba.njit(copy))


class Comparison:
    """Runs each kernel in its reference form, and others on copies, and counts the calls.

    Parameters
    ----------
    forms
        Forms that must agree with the reference form.
    """

    def __init__(self, forms: Sequence[Callable[[Kernel[..., Any]], Form]]) -> None:
        self.forms = forms
        self.calls: Counter[str] = Counter()

    def __call__(self, kernel: Kernel[..., Any]) -> Form:
        """Return a kernel that compares; for `optsched.runtime.kernel.policy.force`."""

        def run(*arguments: Any) -> Any:
            self.calls[kernel.function.__name__] += 1
            # Kernels write into their arguments: each form needs its own.
            copies = [deepcopy(arguments) for _ in self.forms]
            results = [form(kernel)(*x) for form, x in zip(self.forms, copies, strict=True)]
            expected = kernel.function(*arguments)
            for form, result, after in zip(self.forms, results, copies, strict=True):
                for one, other in ((expected, result), (arguments, after)):
                    if not is_same(one, other):
                        raise DisagreementError(f"{kernel.function.__name__}: {form.__name__}")
            return expected

        return run


def is_same(one: Any, other: Any) -> bool:
    """Return True if numbers, arrays and tuples of such are equal to the last bit."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
    return bool(one == other)


def run_all(graph: Graph, seed: int, run: Callable[[Kernel[..., Any]], Form]) -> None:
    """Order, bound, pack and hunt a graph in all ways that have kernels."""
    use_orders(graph, seed)
    closure_step(graph, [np.arange(len(graph.ops))], Clock.of(Limits()))
    if len(graph.ops) > 2:
        solve_order(graph, limits=LIMITS)
        use_tree(graph)
        use_packings(graph)
    if len(graph.ops) < 6:
        use_hunts(graph, run)
    use_repeats(training_graph(np.random.default_rng(seed)))


def use_repeats(graph: Graph) -> None:
    """Evict at half of the peak of the program's order."""
    problem = make_problem(graph)
    unroller = Unroller(problem)
    found = unroller.measure(range(len(problem.ops)))
    tries = Evictions(unroller, found.nodes, found.peak // 2)
    for _ in range(5):
        tries.next()
    if tries.best is not None:
        unroller.clean(tries.best.nodes)
        for i in repeats(tries.best.nodes):
            unroller.replaced(tries.best, i, found.peak)


def use_hunts(graph: Graph, run: Callable[[Kernel[..., Any]], Form]) -> None:
    """Run the kernels that try all orders and packings: hunts call them compiled, always."""
    n = len(graph.ops)
    masks = masks_of(graph)
    run(fill_sets)(*masks, *np.zeros((2, 1 << n), np.int64))
    lowest, highest = run(peak_range)(*masks)
    run(sized_above)(masks[0], 3, highest, max(1, lowest), True, np.zeros((3**n, n), np.int64))
    problem, _ = packing_problem(graph, np.arange(n))
    few = np.arange(len(problem)) < MOST_PACKED
    columns = problem.start[few], problem.end[few], problem.size[few]
    slab = run(minimum_slab)(*columns, np.zeros(few.sum(), np.int64))
    assert run(fullest_step)(*columns) <= slab
    assert run(next_capacity)(*columns, slab, np.zeros(few.sum(), np.int64)) == -1


def compare(graphs: int, seed: int, comparison: Comparison) -> int:
    """Return how many of some random graphs ran; raises where two forms do not agree."""
    before, kernels.policy.force = kernels.policy.force, comparison
    many = common.MANY
    done = 0
    try:
        for number in range(seed, seed + graphs):
            rng = np.random.default_rng(number)
            features = PLAIN if number % 3 else PLANNABLE - {"inplace"}
            ops = int(rng.integers(2, 6 if number % 2 else 16))
            graph = random_graph(rng, ops, max_size=40, features=features)
            # Half the graphs go through the kernels for many buffers, small as they are.
            common.MANY = many if number % 2 else 0
            try:
                run_all(graph, number, comparison)
            except OptschedError:
                continue
            done += 1
    finally:
        kernels.policy.force, common.MANY = before, many
    return done


def main(count: int = 1_000, seed: int = 0, *, no_plain: bool = False) -> int:
    forms = (kernels.compiled_form, plain_form)[: 1 if no_plain else 2]
    comparison = Comparison(forms)
    try:
        with TemporaryDirectory() as empty:
            if not no_plain:
                os.environ["NUMBA_CACHE_DIR"] = empty
            done = compare(count, seed, comparison)
    except DisagreementError as error:
        print(f"DISAGREE: {error}")
        return 1
    for name, calls in sorted(comparison.calls.items()):
        print(f"{calls:>10,} calls of {name}")
    print(f"{done:,} graphs, {len(comparison.calls)} kernels, {len(forms) + 1} forms: all agree")
    return 0
