"""After a commit: the search goes on from the state it committed to, without starting anew."""

from __future__ import annotations

from numpy import int64

from optsched.ordering.kernels.state import Downset, place
from optsched.ordering.kernels.states import Moves
from optsched.ordering.problem import OrderingProblem
from optsched.runtime.kernel import kernel


@kernel
def place_all(problem: OrderingProblem, state: Downset, forward: bool, moves: Moves) -> None:
    """Place moves one after the other."""
    for k in range(len(moves)):
        place(problem, state, forward, int64(moves[k]))
