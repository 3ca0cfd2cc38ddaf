"""States that orders within a budget reach: moves between them, and whether a list has all of them.

Idea. A state is the set of ops that have ended. An order within the budget is a walk from the empty
state to the full one, each move running an op (or the part of a region) that is ready and fits. A
list of states that holds the start, holds all states its members lead to, and lacks the full state
refutes the budget. Walks may also be followed backward, from the full state on; a state is then
written as the ops that were taken back, and one that lacks the empty state refutes.

*Closure rule.* A move that fits and leaves no more live bytes than it found is made at once, so
only closed states are listed. It loses nothing. Let an order of the class (see
:mod:`optsched.check.certificate`) pass state `Y`, let `u` be such a move from `Y`, and let the
order run `u` right after `Y` instead of later. `u` is ready and fits. For every state `Z` passed
between `Y` and `u`, `Z & (Y + u) = Y`, and the live bytes `M` are submodular, being a sum of bytes
born and of sizes of buffers that live until all their holders have ended. Hence

    M(Z + u) <= M(Z) + M(Y + u) - M(Y) <= M(Z),

and what runs from `Z + u` instead of `Z` needs no more than before. Later states stay as they are.
A part `u` of several ops moves as a whole: orders of the class run its ops one right after the
other, so such a `Z` has all of them or none, also while another part runs, and only `M` before and
after all of `u` occurs above. Backward, let the order pass `S`, and let `u` run last before `S`
instead of earlier. With `M(S - u) <= M(S)`, for the states `Z` passed in between,

    M(Z - u) <= M(Z) + M(S - u) - M(S) - slack <= M(Z) - slack,

where `slack >= 0` is what the submodular inequality of `Z` and `S - u` has to spare.

*In-place.* An op `v` that runs from `Z` is spared the most bytes of outputs that it can write into
inputs whose other holders are all in `Z`, each output into one input of at least its size. This
does not change `M`, and regions are not accepted beside it, so a move is one op. Forward, `v` runs
from `Z + u`, where no fewer inputs are free: it is spared no less. Backward, `v` runs from `Z - u`.
The inputs that it loses are those with `u` among their holders; at worst it is spared less by the
sum of their sizes. For each of these inputs the slack has its size: all its holders but `v` are in
`Z`, so it is live in `Z` (`v` is missing), in `S - u` and in `Z - u` (`u` is missing), but not in
`S`; it counts in both terms on the left of `M(S) + M(Z - u) <= M(Z) + M(S - u)` but one. So the
slack covers the loss, and `v` needs no more than before.

The order in which moves are made at once makes no difference: by the first inequality, what may be
made at once stays so after other such moves.

Example: `p` makes 4 bytes, which `q` reads to make 6 bytes. Within 9 bytes, `p` runs from the empty
state, and `q` does not fit from the state {p}, since 10 bytes would be live. The list of the two
states {} and {p} lacks the full one, so the budget is refuted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

from optsched.check.blocks import Family, Layout
from optsched.check.inplace import heaviest
from optsched.check.network import Network
from optsched.errors import PlanError


class State(NamedTuple):
    """A set of ops that have moved, with data for the next moves; the first op names a part."""

    moved: int
    """Ops that have moved, as a mask."""
    live: int
    """Live bytes of the state."""
    ready: frozenset[int]
    """Parts that may move next."""
    waiting: frozenset[int]
    """Ready parts that the closure rule must try again, as they did not fit before."""


class Moves:
    """Moves from state to state: the ops of a part run one right after the other.

    `network`: the graph; an op outside its `parts` is a part of its own. `ops`: ops that may move.
    `bit`: masks of these ops, and of others whose precedences and holders matter. `holders`:
    holders of each buffer among these ops; the buffer is released when all have ended. `backward`:
    True if moves take back ops, from the full state on: the ops that no op of the state follows.
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
        # Backward, successors come first: an op can be taken back once all of them are.
        ahead, order = (network.before, network.after)[:: -1 if backward else 1]
        parts = network.parts
        self.first = {v: parts[v][0] if v in parts else v for v in ops}
        starts = set(self.first.values())
        self.steps = {u: parts.get(u, (u,))[:: -1 if backward else 1] for u in starts}
        self.needs: dict[int, int] = {}
        self.order: dict[int, set[int]] = {}
        for u, steps in self.steps.items():
            earlier = {w for v in steps for w in ahead[v]}.difference(steps)
            # Ops inside the part do not keep the part from running.
            self.needs[u] = self.mask(w for w in earlier if w in bit)
            self.order[u] = {self.first[w] for v in steps for w in order[v] if w in self.first}
            self.order[u].discard(u)
        # Buffers by holder, with the mask of all holders: released when the mask is done.
        self.held: dict[int, list[tuple[int, int, Collection[int]]]] = {v: [] for v in ops}
        for b, row in holders.items():
            mask = self.mask(row)
            for v in row:
                if v in self.first:
                    self.held[v].append((mask, network.size[b], row))
        self.spared = cache(partial(heaviest, network.graph))
        self.near = cache(self._near)
        self.others = {
            v: [(self.mask(network.holders[pair[1]] - {v}), pair) for pair in pairs]
            for v, pairs in network.pairs.items()
            if v in self.first
        }

    def mask(self, ops: Iterable[int]) -> int:
        """Return the mask of a set of ops."""
        return sum(self.bit[v] for v in ops)

    def _near(self, u: int) -> frozenset[int]:
        """Return parts that may be ready, or change the live bytes, only after the move of `u`."""
        users = {w for v in self.steps[u] for _, _, row in self.held[v] for w in row}
        return frozenset(self.order[u] | {self.first[w] for w in users if w in self.first})

    def begin(self, live: int) -> State:
        """Return the state in which no op has moved."""
        ready = frozenset(u for u, need in self.needs.items() if not need)
        return State(0, live, ready, ready)

    def effect(self, state: State, u: int) -> tuple[int, int]:
        """Return the bytes live after a move, and the most while it runs."""
        moved, live, most = state.moved, state.live, 0
        for number, v in enumerate(self.steps[u]):
            # Backward, `moved` are the ops that are taken back, so the others have ended.
            missing = moved if self.backward else ~(moved | self.bit[v])
            born = self.network.born[v]
            change = born - sum(size for mask, size, _ in self.held[v] if not mask & missing)
            after = live - change if self.backward else live + change
            # While an op runs, its products are live beside all that was live before it.
            running = born + (after if self.backward else live)
            if v in self.others:
                pairs = (pair for mask, pair in self.others[v] if not mask & missing)
                # The choice of pairs is cached: few different sets of free inputs occur at an op.
                running -= self.spared(tuple(pairs))
            most = running if not number else max(most, running)
            moved, live = moved | self.bit[v], after
        return live, most

    def move(self, state: State, u: int, live: int) -> State:
        """Return the state after a move; `live` are the bytes live after it."""
        moved = state.moved
        for v in self.steps[u]:
            moved |= self.bit[v]
        # An op becomes ready once all that it needs has moved.
        fresh = {w for w in self.order[u] if not self.needs[w] & ~moved}
        return State(moved, live, (state.ready - {u}) | fresh, state.waiting)

    def close(self, state: State, limit: int | None, near: Iterable[int] = ()) -> State:
        """Make all moves that fit `limit` and do not raise the live bytes; without a limit all fit.

        Only moves near the last one can have become possible: those of `near`, those near to moves
        made here, and those that did not fit before.
        """
        looked, blocked = {*near, *state.waiting}, set[int]()
        while looked:
            u = looked.pop()
            if u not in state.ready:
                continue
            live, most = self.effect(state, u)
            # Only moves that do not raise the live bytes may be made at once.
            if live > state.live:
                continue
            if limit is None or most <= limit:
                state = self.move(state, u, live)
                # Fewer bytes are live after the move, so moves that did not fit may fit now.
                looked |= self.near(u) | blocked
                blocked = set()
            else:
                blocked.add(u)
        return state._replace(waiting=frozenset(blocked))

    def after(self, state: State, u: int, limit: int | None) -> State | None:
        """Return the closed state after a move from a closed one, or None if it does not fit."""
        live, most = self.effect(state, u)
        if limit is not None and most > limit:
            return None
        return self.close(self.move(state, u, live), limit, self.near(u))


def all_moves(network: Network, layout: Layout, *, backward: bool) -> tuple[Moves, State]:
    """Return the moves of all ops, and the state in which orders begin (end, if backward)."""
    ops = range(len(network.before))
    moves = Moves(network, ops, layout.bit, network.holders, backward=backward)
    return moves, moves.begin(network.kept if backward else network.initial)


def check_states(
    network: Network,
    budget: int,
    states: Sequence[tuple[int, int]],
    *,
    backward: bool,
    families: Sequence[Family] = (),
) -> None:
    """Check that the listed states lead only to each other within the budget, and not to the end.

    Two states count as equal if they differ by an exchange of blocks of `families`, which must have
    been checked before.
    """
    layout = Layout(len(network.before), families)
    moves, root = all_moves(network, layout, backward=backward)
    # State 0 is implied; each listed state names an earlier one and the op that leads to it.
    found = [moves.close(root, budget)]
    for number, (parent, v) in enumerate(states, start=1):
        # A state may only name an earlier one, so the list can be followed in one pass.
        if not 0 <= parent < number or v not in found[parent].ready:
            text = f"op {network.op_name(v)} is not ready in state {parent}"
            raise PlanError(f"state {number}: {text}")
        after = moves.after(found[parent], v, budget)
        if after is None:
            text = f"op {network.op_name(v)} does not fit in state {parent}"
            raise PlanError(f"state {number}: {text}")
        found.append(after)
    # Compared by key, so that one of several exchangeable states stands for all.
    known = {layout.key(state.moved) for state in found}
    if layout.key((1 << len(network.before)) - 1) in known:
        raise PlanError("the states get to the end: an order is within the budget")
    # Complete: every move that fits leads to a listed state.
    for number, state in enumerate(found):
        for v in state.ready:
            after = moves.after(state, v, budget)
            if after is not None and layout.key(after.moved) not in known:
                name = network.op_name(v)
                raise PlanError(f"state {number}: op {name} leads to no listed state")
