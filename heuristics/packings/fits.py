"""First fit and best fit: each buffer into the lowest, or the tightest, hole that holds it.

In one of several sequences; best fit by size is `greedy_by_size`, by breadth
`greedy_by_profile_breadth`. First fit in the sequence of arrival is a first-fit allocator at run
time, best fit by start a best-fit one. What a placement costs is said in `heuristics.kernels`: all
are quasi-linear on traces of models, and quadratic at worst; memory is O(k log k).

References
----------
M. Poletto, V. Sarkar, "Linear scan register allocation", TOPLAS 21(5), 1999: by arrival.
Apache TVM, Unified Static Memory Planner, `greedy_by_conflicts`: first fit by conflicts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from heuristics.packings import sequences
from heuristics.packings.common import Packing, place_by_start, place_in_turn
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem

Sequence = Callable[[PackingProblem], IntArray]


def fit(problem: PackingProblem, *, sequence: Sequence, tightest: bool) -> IntArray:
    """Place all buffers in a sequence."""
    by_start = sequence in (sequences.by_start, sequences.by_arrival)
    place = place_by_start if by_start else place_in_turn
    return place(problem, sequence(problem), tightest=tightest)


FIRST_FIT: dict[str, Packing] = {
    f"first_fit_{name}": partial(fit, sequence=sequence, tightest=False)
    for name, sequence in (
        ("size", sequences.by_size),
        ("area", sequences.by_area),
        ("start", sequences.by_start),
        ("arrival", sequences.by_arrival),
        ("lifetime", sequences.by_lifetime),
        ("conflicts", sequences.by_conflicts),
        ("breadth", sequences.by_breadth),
    )
}
"""First fit, by what comes first in its name."""

BEST_FIT: dict[str, Packing] = {
    f"best_fit_{name}": partial(fit, sequence=sequence, tightest=True)
    for name, sequence in (
        ("area", sequences.by_area),
        ("start", sequences.by_start),
        ("lifetime", sequences.by_lifetime),
        ("conflicts", sequences.by_conflicts),
    )
}
"""Best fit, by what comes first in its name."""
