"""Certificates of rung L3: all states that orders within a budget reach.

A search of its own, from one end, with the closure rule and nothing else: what the engine does
besides (commits, contractions, both ends in turns) is quicker but harder to check.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optsched.certificate.flow import Network
from optsched.check.blocks import Family, Layout
from optsched.check.steps import StatesStep
from optsched.model.inplace import Pair, heaviest_matching


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
            live, fits = moves.effect(state, v)
            if not fits:
                continue
            after = moves.close(moves.make(state, v, live), moves.beside[v])
            if key(after.done) not in number:
                entries.append((parent, v))
                number[key(after.done)] = len(entries)
                open_states.append((after, len(entries)))
    return StatesStep(backward, tuple(entries))


class _Moves:
    """Which parts may move, each by its first op, and what that changes.

    An op that is in no part of a region is one by itself.
    """

    def __init__(self, network: Network, budget: int, backward: bool, layout: Layout) -> None:
        self.network, self.budget, self.backward = network, budget, backward
        ahead, order = network.pred, network.succ
        if backward:
            ahead, order = network.succ, network.pred
        self.bit, mask = layout.bit, layout.mask
        parts, ops = network.parts, range(len(network.born))
        first = [parts[v][0] if v in parts else v for v in ops]
        self.steps = {u: parts.get(u, (u,))[:: -1 if backward else 1] for u in ops if first[u] == u}
        self.needs: dict[int, int] = {}
        self.order: dict[int, set[int]] = {}
        for u, steps in self.steps.items():
            self.needs[u] = mask({w for v in steps for w in ahead[v]}.difference(steps))
            self.order[u] = {first[w] for v in steps for w in order[v]} - {u}
        self.held: list[list[tuple[int, int]]] = [[] for _ in network.born]
        for b, users in network.users.items():
            for v in users:
                self.held[v].append((mask(set(users)), network.size[b]))
        self.overwrites: dict[int, list[tuple[int, Pair]]] = {
            v: [(mask(network.others(v, pair[1])), pair) for pair in pairs]
            for v, pairs in network.pairs.items()
        }
        self.worth: dict[tuple[Pair, ...], int] = {}
        self.beside = {u: set(row) for u, row in self.order.items()}
        for users in network.users.values():
            together = {first[v] for v in users}
            for u in together:
                self.beside[u].update(together)

    def root(self) -> _State:
        ready = frozenset(u for u, need in self.needs.items() if not need)
        return _State(0, self.network.kept if self.backward else self.network.initial, ready)

    def saved(self, v: int, missing: int) -> int:
        """Bytes that `v` can write into inputs; of the ops `missing` none has ended."""
        pairs = tuple(pair for mask, pair in self.overwrites[v] if not mask & missing)
        if pairs not in self.worth:
            matching = heaviest_matching(pairs, self.network.size)
            self.worth[pairs] = sum(self.network.size[output] for output in matching.values())
        return self.worth[pairs]

    def effect(self, state: _State, u: int) -> tuple[int, bool]:
        """Bytes live after a move, and whether it fits."""
        done, live, fits = state.done, state.live, True
        for v in self.steps[u]:
            # Ops that have not ended when `v` ends; others may be among them that do not matter.
            missing = done if self.backward else ~(done | self.bit[v])
            freed = sum(size for mask, size in self.held[v] if not mask & missing)
            born = self.network.born[v]
            over = live + (freed if self.backward else born) - self.budget
            if over > 0 and (v not in self.overwrites or over > self.saved(v, missing)):
                fits = False
            live += freed - born if self.backward else born - freed
            done |= self.bit[v]
        return live, fits

    def make(self, state: _State, u: int, live: int) -> _State:
        """The state after a move that leaves so many bytes live."""
        done = state.done
        for v in self.steps[u]:
            done |= self.bit[v]
        fresh = [w for w in self.order[u] if not self.needs[w] & ~done]
        return _State(done, live, (state.ready - {u}).union(fresh), state.blocked - {u})

    def close(self, state: _State, look: Iterable[int]) -> _State:
        """Make moves that fit and leave no more bytes than they found, as long as there are any.

        What a move leaves behind changes only with moves of ops that hold a buffer with it, so
        those of `look` are looked at, then the neighbours of what moved; and, since bytes only
        fall here, those that did not fit before.
        """
        waiting = {*look, *state.blocked}
        while waiting:
            u = waiting.pop()
            if u not in state.ready:
                continue
            live, fits = self.effect(state, u)
            if live > state.live:
                continue
            if fits:
                state = self.make(state, u, live)
                waiting |= self.beside[u] | state.blocked
            else:
                state.blocked |= {u}
        return state
