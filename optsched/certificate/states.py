"""Certificates of rung L3: all states that orders within a budget reach.

A search of its own, from one end, by the checker's moves and with the closure rule and nothing
else: what the engine does besides (commits, contractions, both ends in turns) is quicker but harder
to check.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.check.blocks import Family, Layout
from optsched.check.network import Network
from optsched.check.states import all_moves
from optsched.check.steps import StatesStep
from optsched.runtime.clock import Clock


def list_states(
    network: Network,
    budget: int,
    most: int,
    clock: Clock,
    *,
    backward: bool,
    families: Sequence[Family] = (),
) -> StatesStep | None:
    """Return all states within a budget, by the precedences that a network knows.

    Backward, ops are taken back from the full state, not run from the empty one. States that differ
    by identical blocks of `families` changing places count as one. None if the states are more than
    `most`, time is up, or an order is within the budget.
    """
    layout = Layout(len(network.before), families)
    moves, root = all_moves(network, layout, backward=backward)
    root = moves.close(root, budget)
    full = (1 << len(network.before)) - 1
    known = {layout.key(root.moved)}
    entries: list[tuple[int, int]] = []
    waiting = [(root, 0)]
    while waiting:
        state, number = waiting.pop()
        if len(known) > most or state.moved == full:
            return None
        clock.spend(1)
        for v in sorted(state.ready):
            if clock.expired():
                return None
            after = moves.after(state, v, budget)
            if after is not None and (key := layout.key(after.moved)) not in known:
                known.add(key)
                entries.append((number, v))
                waiting.append((after, len(entries)))
    return StatesStep(backward, tuple(entries))
