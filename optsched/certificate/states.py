"""Certificates of rung L3: all states that orders within a budget reach.

A search of its own, from one end, with the closure rule and nothing else: what the engine does
besides (commits, contractions, both ends in turns) is quicker but harder to check.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optsched.certificate.flow import Network
from optsched.check_blocks import Family, Layout
from optsched.inplace import Pair, heaviest_matching
from optsched.proof import StatesStep


@dataclass(slots=True)
class _State:
    """Ops that were moved as a mask, bytes live then, and the ops that may move next.

    Those of them that would leave no more bytes behind but do not fit are `blocked`.
    """

    done: int
    live: int
    ready: frozenset[int]
    blocked: frozenset[int] = frozenset()


def list_states(
    network: Network,
    budget: int,
    most: int,
    deadline: float | None,
    *,
    backward: bool,
    families: Sequence[Family] = (),
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
    backward
        Take ops back from the full state instead of running them from the empty one.
    families
        Identical blocks: states that differ by such changing places count as one.

    Returns
    -------
    StatesStep or None
        None if they are more than `most`, time is up, or an order is within the budget.
    """
    layout = Layout(len(network.born), families)
    moves = _Moves(network, budget, backward, layout)
    root = moves.root()
    root = moves.close(root, root.ready)
    full = (1 << len(network.born)) - 1
    key = layout.key
    number = {key(root.done): 0}
    entries: list[tuple[int, int]] = []
    open_states = [(root, 0)]
    while open_states:
        if len(number) > most:
            return None
        state, parent = open_states.pop()
        if state.done == full:
            return None
        for v in sorted(state.ready):
            if deadline is not None and time.monotonic() > deadline:
                return None
            if not moves.fits(state, v):
                continue
            after = moves.close(moves.make(state, v), moves.beside[v])
            if key(after.done) not in number:
                entries.append((parent, v))
                number[key(after.done)] = len(entries)
                open_states.append((after, len(entries)))
    return StatesStep(backward, tuple(entries))


class _Moves:
    """Which ops may move, and what that changes."""

    def __init__(self, network: Network, budget: int, backward: bool, layout: Layout) -> None:
        self.network, self.budget, self.backward = network, budget, backward
        ahead, self.order = network.pred, network.succ
        if backward:
            ahead, self.order = network.succ, network.pred
        self.bit, mask = layout.bit, layout.mask
        self.needs = [mask(set(row)) for row in ahead]
        self.held: list[list[tuple[int, int]]] = [[] for _ in network.born]
        for b, users in network.users.items():
            for v in users:
                self.held[v].append((mask(set(users)), network.size[b]))
        self.overwrites: dict[int, list[tuple[int, Pair]]] = {
            v: [(mask(network.others(v, pair[1])), pair) for pair in pairs]
            for v, pairs in network.pairs.items()
        }
        self.worth: dict[tuple[Pair, ...], int] = {}
        self.beside: list[set[int]] = [set(row) for row in self.order]
        for users in network.users.values():
            for v in users:
                self.beside[v].update(users)

    def root(self) -> _State:
        ready = frozenset(v for v, need in enumerate(self.needs) if not need)
        return _State(0, self.network.kept if self.backward else self.network.initial, ready)

    def freed(self, state: _State, v: int) -> int:
        """Bytes that are released when `v` ends."""
        missing = self.missing(state, v)
        return sum(size for mask, size in self.held[v] if not mask & missing)

    def missing(self, state: _State, v: int) -> int:
        """Ops that have not ended when `v` ends; others may be among them that do not matter."""
        return state.done if self.backward else ~(state.done | self.bit[v])

    def saved(self, state: _State, v: int) -> int:
        """Bytes that `v` can write into inputs."""
        if v not in self.overwrites:
            return 0
        missing = self.missing(state, v)
        pairs = tuple(pair for mask, pair in self.overwrites[v] if not mask & missing)
        if pairs not in self.worth:
            matching = heaviest_matching(pairs, self.network.size)
            self.worth[pairs] = sum(self.network.size[output] for output in matching.values())
        return self.worth[pairs]

    def fits(self, state: _State, v: int) -> bool:
        more = self.freed(state, v) if self.backward else self.network.born[v]
        over = state.live + more - self.budget
        return over <= 0 or (v in self.overwrites and over <= self.saved(state, v))

    def make(self, state: _State, v: int) -> _State:
        done = state.done | self.bit[v]
        change = self.network.born[v] - self.freed(state, v)
        fresh = [w for w in self.order[v] if not self.needs[w] & ~done]
        live = state.live - change if self.backward else state.live + change
        return _State(done, live, (state.ready - {v}).union(fresh), state.blocked - {v})

    def close(self, state: _State, look: Iterable[int]) -> _State:
        """Make moves that fit and leave no more bytes than they found, as long as there are any.

        What a move leaves behind changes only with moves of ops that hold a buffer with it, so
        those of `look` are looked at, then the neighbours of what moved; and, since bytes only
        fall here, those that did not fit before.
        """
        waiting = {*look, *state.blocked}
        while waiting:
            v = waiting.pop()
            if v not in state.ready:
                continue
            change = self.network.born[v] - self.freed(state, v)
            if (-change if self.backward else change) > 0:
                continue
            if self.fits(state, v):
                state = self.make(state, v)
                waiting |= self.beside[v] | state.blocked
            else:
                state.blocked |= {v}
        return state
