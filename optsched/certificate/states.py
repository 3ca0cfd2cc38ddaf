"""Certificates of rung L3: all states that orders within a budget reach.

A search of its own, forward only, with the closure rule and nothing else: what the engine does
besides (both directions, commits, contractions) is quicker but harder to check.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from optsched.certificate.flow import Network
from optsched.proof import StatesStep

CHECK_EVERY = 512
"""States between two looks at the clock."""


@dataclass(slots=True)
class _State:
    """Ops that have ended as a mask, bytes live then, and the ops that may run next."""

    done: int
    live: int
    ready: frozenset[int]


def list_states(
    network: Network, budget: int, most: int, deadline: float | None
) -> StatesStep | None:
    """Return all states within a budget, or None.

    Parameters
    ----------
    network
        The graph, with the precedences that hold within the budget.
    budget
        Bytes.
    most
        States at most.
    deadline
        `time.monotonic()` after which to give up.

    Returns
    -------
    StatesStep or None
        None if they are more than `most`, time is up, or an order is within the budget.
    """
    moves = _Moves(network, budget)
    root = moves.close(moves.root())
    full = (1 << len(network.born)) - 1
    number = {root.done: 0}
    entries: list[tuple[int, int]] = []
    open_states = [root]
    while open_states:
        if len(number) > most:
            return None
        state = open_states.pop()
        if state.done == full:
            return None
        if len(number) % CHECK_EVERY == 0 and deadline is not None and time.monotonic() > deadline:
            return None
        for v in sorted(state.ready):
            if state.live + network.born[v] > budget:
                continue
            after = moves.close(moves.run(state, v))
            if after.done not in number:
                entries.append((number[state.done], v))
                number[after.done] = len(entries)
                open_states.append(after)
    return StatesStep(tuple(entries))


class _Moves:
    """Which ops may run, and what they change."""

    def __init__(self, network: Network, budget: int) -> None:
        self.network, self.budget = network, budget
        self.needs = [_mask(row) for row in network.pred]
        self.held: list[list[tuple[int, int]]] = [[] for _ in network.born]
        for b, users in network.users.items():
            for v in users:
                self.held[v].append((_mask(users), network.size[b]))

    def root(self) -> _State:
        ready = frozenset(v for v, need in enumerate(self.needs) if not need)
        return _State(0, self.network.initial, ready)

    def run(self, state: _State, v: int) -> _State:
        done = state.done | 1 << v
        left = ~done
        freed = sum(size for mask, size in self.held[v] if not mask & left)
        fresh = [w for w in self.network.succ[v] if not self.needs[w] & left]
        return _State(
            done, state.live + self.network.born[v] - freed, (state.ready - {v}).union(fresh)
        )

    def close(self, state: _State) -> _State:
        """Run ops that fit and leave no more bytes than they found, as long as there are any."""
        changed = True
        while changed:
            changed = False
            for v in state.ready:
                born = self.network.born[v]
                if state.live + born > self.budget:
                    continue
                left = ~(state.done | 1 << v)
                if born <= sum(size for mask, size in self.held[v] if not mask & left):
                    state = self.run(state, v)
                    changed = True
        return state


def _mask(ops: Iterable[int]) -> int:
    return sum(1 << v for v in set(ops))
