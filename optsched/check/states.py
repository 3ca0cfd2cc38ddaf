"""States that orders within a budget reach: moves between them, and whether a list has all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TypeAlias

from optsched.check.blocks import Family, Layout
from optsched.check.inplace import heaviest
from optsched.check.network import Network
from optsched.errors import PlanError

State: TypeAlias = tuple[int, int, frozenset[int]]
"""Ops that were moved, as a mask; bytes live then; parts that may move next, by their first op."""


class Moves:
    """Moves from state to state: the ops of a part run one right after the other.

    Forward, a move runs a part that is ready. Backward, from the full state on, it takes back one
    that no op of the state follows; a state is then written as the ops that were taken back.

    Parameters
    ----------
    network
        The graph; an op that its `parts` do not have is one of its own.
    ops
        Those that may move.
    bit
        Masks of these, and of others that precedences and holders are looked up for.
    holders
        Ops among these that release a buffer when all have ended.
    backward
        The direction.
    """

    def __init__(
        self,
        network: Network,
        ops: Collection[int],
        bit: Mapping[int, int],
        holders: Mapping[int, Collection[int]],
        *,
        backward: bool,
    ) -> None:
        self.network, self.bit, self.backward = network, bit, backward
        ahead, order = (network.before, network.behind)[:: -1 if backward else 1]
        parts = network.parts
        first = {v: parts[v][0] if v in parts else v for v in ops}
        self.steps = {u: parts.get(u, (u,))[:: -1 if backward else 1] for u in set(first.values())}
        self.needs: dict[int, int] = {}
        self.order: dict[int, set[int]] = {}
        for u, steps in self.steps.items():
            earlier = {w for v in steps for w in ahead[v]}.difference(steps)
            self.needs[u] = self.mask(w for w in earlier if w in bit)
            self.order[u] = {first[w] for v in steps for w in order[v] if w in first} - {u}
        self.held: dict[int, list[tuple[int, int]]] = {v: [] for v in ops}
        for b, row in holders.items():
            mask = self.mask(row)
            for v in row:
                if v in first:
                    self.held[v].append((mask, network.graph.buffers[b].size))
        self.spared = cache(partial(heaviest, network.graph))
        self.others = {
            v: [(self.mask(network.holders[pair[1]] - {v}), pair) for pair in pairs]
            for v, pairs in network.pairs.items()
            if v in first
        }

    def mask(self, ops: Iterable[int]) -> int:
        """A set of ops."""
        return sum(self.bit[v] for v in ops)

    def begin(self, live: int) -> State:
        """The state in which nothing has moved."""
        return 0, live, frozenset(u for u, need in self.needs.items() if not need)

    def effect(self, state: State, u: int) -> tuple[int, int]:
        """Return the bytes live after a move, and the most while it runs."""
        moved, live, most = state[0], state[1], 0
        for number, v in enumerate(self.steps[u]):
            missing = moved if self.backward else ~(moved | self.bit[v])
            born = self.network.born[v]
            change = born - sum(size for mask, size in self.held[v] if not mask & missing)
            after = live - change if self.backward else live + change
            running = born + (after if self.backward else live)
            if v in self.others:
                pairs = (pair for mask, pair in self.others[v] if not mask & missing)
                running -= self.spared(tuple(pairs))
            most = running if not number else max(most, running)
            moved, live = moved | self.bit[v], after
        return live, most

    def move(self, state: State, u: int) -> State:
        """The state after a move."""
        moved = state[0] | self.mask(self.steps[u])
        fresh = {w for w in self.order[u] if not self.needs[w] & ~moved}
        return moved, self.effect(state, u)[0], (state[2] - {u}) | fresh

    def close(self, state: State, budget: int | None) -> State:
        """Make all moves that fit and leave no more bytes than they found; None fits any."""
        start = None
        while state != start:
            start = state
            for u in start[2]:
                after, running = self.effect(state, u)
                if (budget is None or running <= budget) and after <= state[1]:
                    state = self.move(state, u)
        return state


def check_states(
    network: Network,
    budget: int,
    states: Sequence[tuple[int, int]],
    *,
    backward: bool,
    families: Sequence[Family] = (),
) -> None:
    """Check that the states lead only to each other within the budget, and none is the end.

    A state is as good as another one in which blocks of `families`, which were checked, have
    changed places.

    Closure rule: a move that fits and leaves no more bytes than it found is made at once. By
    `M(X | Y) + M(X & Y) <= M(X) + M(Y)`, any order within the budget stays so if it does that.
    In-place changes no `M`. With more ops ended none writes into fewer inputs; where fewer
    have ended, each input lost is live in both states on the right and in one on the left.
    """
    ops = range(len(network.before))
    layout = Layout(len(ops), families)
    moves = Moves(network, ops, layout.bit, network.holders, backward=backward)
    root = moves.begin(network.kept if backward else network.initial)
    found = [moves.close(root, budget)]
    for number, (parent, v) in enumerate(states, start=1):
        if not 0 <= parent < number or v not in found[parent][2]:
            raise PlanError(
                f"state {number}: op {network.op_name(v)} is not ready in state {parent}"
            )
        found.append(moves.close(moves.move(found[parent], v), budget))
    known = {layout.key(state[0]) for state in found}
    if layout.key((1 << len(ops)) - 1) in known:
        raise PlanError("the states get to the end: an order is within the budget")
    for number, state in enumerate(found):
        for v in state[2]:
            if moves.effect(state, v)[1] <= budget:
                after = moves.close(moves.move(state, v), budget)
                if layout.key(after[0]) not in known:
                    name = network.op_name(v)
                    raise PlanError(f"state {number}: op {name} leads to no listed state")
