"""The check of a list of states that is to hold all that orders within a budget reach."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import TypeAlias

from optsched.check_blocks import Family, Layout
from optsched.check_inplace import heaviest
from optsched.check_network import Network
from optsched.errors import PlanError

State: TypeAlias = tuple[int, int, frozenset[int]]
"""Ops that were moved, as a mask; bytes live then; ops that may move next."""


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

    Forward, a move runs a ready op. Backward, from the full state on, it takes back an op that
    no op of the state follows; a state is then written as the ops that were taken back.

    Closure rule: a move that fits and leaves no more bytes than it found is made at once. By
    `M(X | Y) + M(X & Y) <= M(X) + M(Y)`, any order within the budget stays so if it does that.
    In-place changes no `M`. With more ops ended none writes into fewer inputs; where fewer
    have ended, each input lost is live in both states on the right and in one on the left.
    """
    order, contrary = (network.behind, network.before)[:: -1 if backward else 1]
    layout = Layout(len(order), families)
    bit = layout.bit
    needs = [layout.mask(row) for row in contrary]
    held: list[list[tuple[int, int]]] = [[] for _ in needs]
    for b, row in network.holders.items():
        mask = layout.mask(row)
        for v in row:
            held[v].append((mask, network.graph.buffers[b].size))
    spared = cache(partial(heaviest, network.graph))
    others = {
        v: [(layout.mask(network.holders[pair[1]] - {v}), pair) for pair in pairs]
        for v, pairs in network.pairs.items()
    }

    def effect(state: State, v: int) -> tuple[int, int]:
        """Return the bytes live after a move, and those while the op runs."""
        missing = state[0] if backward else ~(state[0] | bit[v])
        change = network.born[v] - sum(size for mask, size in held[v] if not mask & missing)
        after = state[1] - change if backward else state[1] + change
        running = network.born[v] + (after if backward else state[1])
        if v in others:
            running -= spared(tuple(pair for mask, pair in others[v] if not mask & missing))
        return after, running

    def move(state: State, v: int) -> State:
        moved = state[0] | bit[v]
        fresh = {w for w in order[v] if not needs[w] & ~moved}
        return moved, effect(state, v)[0], (state[2] - {v}) | fresh

    def close(state: State) -> State:
        start = None
        while state != start:
            start = state
            for v in start[2]:
                after, running = effect(state, v)
                if running <= budget and after <= state[1]:
                    state = move(state, v)
        return state

    first = frozenset(v for v, need in enumerate(needs) if not need)
    found = [close((0, network.kept if backward else network.initial, first))]
    for number, (parent, v) in enumerate(states, start=1):
        if not 0 <= parent < number or v not in found[parent][2]:
            raise PlanError(
                f"state {number}: op {network.op_name(v)} is not ready in state {parent}"
            )
        found.append(close(move(found[parent], v)))
    known = {layout.key(state[0]) for state in found}
    if layout.key((1 << len(needs)) - 1) in known:
        raise PlanError("the states get to the end: an order is within the budget")
    for number, state in enumerate(found):
        for v in state[2]:
            if effect(state, v)[1] <= budget and layout.key(close(move(state, v))[0]) not in known:
                raise PlanError(f"state {number}: op {network.op_name(v)} leads to no listed state")
