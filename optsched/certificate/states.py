"""Certificates by order search (L3): a list of all states that orders within a budget reach.

If the list is complete and does not contain the final state, no order is within the budget. The
states are found by a search of their own, from one end, with the moves of the checker and only the
closure rule: the other rules of the engine (commits, contractions, both ends in alternation) are
faster but harder to check. An entry is the number of an earlier state and the op that leads on.

Example: within 10 bytes `a` (12 bytes) is blocked at the start, `b` can run, and after `b` both `a`
and `c` are blocked. The list is one entry, `(0, b)`; the checker sees that all other moves exceed
the budget.
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
    """Return the list of all states within a budget, under the precedences of a network.

    If `backward`, ops are removed from the full state instead of added to the empty one. States
    that differ by a swap of identical blocks of `families` count as one. Returns None if there are
    more than `most` states, time is up, or an order is within the budget.
    """
    # Preparing the moves of a large graph takes longer than listing a few states.
    if clock.expired():
        return None
    layout = Layout(len(network.before), families)
    moves, root = all_moves(network, layout, backward=backward)
    # Moves that do not raise the live bytes are made at once, as the checker makes them.
    root = moves.close(root, budget)
    full = (1 << len(network.before)) - 1
    known = {layout.key(root.moved)}
    entries: list[tuple[int, int]] = []
    waiting = [(root, 0)]
    while waiting:
        state, number = waiting.pop()
        # The full state is reached: an order is within the budget, so nothing is refuted.
        if len(known) > most or state.moved == full:
            return None
        clock.spend(1)
        # Sorted, so that equal graphs make equal certificates.
        for v in sorted(state.ready):
            if clock.expired():
                return None
            after = moves.after(state, v, budget)
            if after is not None and (key := layout.key(after.moved)) not in known:
                known.add(key)
                entries.append((number, v))
                waiting.append((after, len(entries)))
    return StatesStep(backward, tuple(entries))
