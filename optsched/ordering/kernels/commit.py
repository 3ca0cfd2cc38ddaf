"""After a commit: the search goes on from the state it committed to, without starting anew."""

from __future__ import annotations

import numpy as np

from optsched.jit import kernel
from optsched.ordering.kernels.arena import Arena, Moves, make_arena, push
from optsched.ordering.kernels.state import LIVE, State, place
from optsched.ordering.model import Net


@kernel
def move_root(
    net: Net, state: State, arena: Arena, forward: bool, moves: Moves, states: int
) -> Arena:
    """Place moves for good in a state at its root; return an arena with the new root only.

    The old arena only tells how many ops were left.
    """
    for k in range(len(moves)):
        place(net, state, forward, np.int64(moves[k]))
    left = arena.left[0] - len(moves)
    fresh = make_arena(states, len(net.net), left, state.tally[LIVE])
    push(fresh.open, fresh.left, fresh.live, np.int64(0))
    return fresh
