"""The independent checker of certificates: plain integers, no solver, no flat arrays.

Notation. A *state* is a set of ops that contains the predecessors of its members; `M(D)` are the
bytes live after exactly the ops of state `D` have ended: what was born before the first op or at an
op of `D`, less each buffer all of whose *holders* (ops that read, use or write it or a view of it)
are in `D`. While op `v` runs from state `D`, `M(D)` and what is born at `v` are live, in-place less
the most bytes that `v` can write into inputs whose other holders are all in `D`.

A certificate refutes the budget `bound - 1`. Its steps are checked in order; see the methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import TypeAlias

from optsched.check_inplace import heaviest, sharable_pairs
from optsched.errors import PlanError
from optsched.graph import Graph
from optsched.proof import (
    Cases,
    Certificate,
    End,
    EndStep,
    Flow,
    Forced,
    OpStep,
    OrderStep,
    SetStep,
    StatesStep,
    Step,
)

State: TypeAlias = tuple[int, int, frozenset[int]]
"""Ops that were moved, as a mask; bytes live then; ops that may move next."""

Pairs: TypeAlias = Sequence[tuple[int, int]]
"""Outputs of an op and roots of inputs that it may write them into."""


def check_certificate(graph: Graph, certificate: Certificate) -> str:
    """Return the rung of a certificate that holds: L2 for bounds, L3 for a search.

    Parameters
    ----------
    graph
        The graph it speaks of.
    certificate
        The certificate.

    Raises
    ------
    PlanError
        On the first step that does not hold.
    """
    if certificate.graph != graph.name:
        raise PlanError(f"certificate is of graph {certificate.graph!r}, this is {graph.name!r}")
    checker = _Checker(graph, certificate.bound - 1)
    if not certificate.steps or isinstance(certificate.steps[-1], OrderStep):
        raise PlanError("certificate has no step that refutes its budget")
    for number, step in enumerate(certificate.steps):
        try:
            checker.check(step)
        except PlanError as error:
            raise PlanError(f"step {number}: {error}") from None
    return "L3" if any(isinstance(step, StatesStep) for step in certificate.steps) else "L2"


class _Checker:
    """The network of a graph and what is known of the orders within a budget."""

    def __init__(self, graph: Graph, budget: int) -> None:
        n = len(graph.ops)
        self.graph, self.budget = graph, budget
        self.before = [set(row) for row in graph.predecessors]
        self.behind: list[set[int]] = [set() for _ in range(n)]
        for v, row in enumerate(self.before):
            for u in row:
                self.behind[u].add(v)
        self.born = [0] * n
        self.initial = self.kept = 0
        holders: dict[int, set[int]] = {}
        for v, op in enumerate(graph.ops):
            for b in (*op.reads, *op.uses, *op.writes):
                holders.setdefault(graph.roots[b], set()).add(v)
        self.holders: dict[int, set[int]] = {}
        for b, buffer in enumerate(graph.buffers):
            if graph.roots[b] != b or buffer.external or not buffer.size:
                continue
            maker = graph.producers[b] if buffer.birth is None else buffer.birth
            if maker is not None:
                self.born[maker] += buffer.size
            elif graph.is_kept(b) or b in holders:
                self.initial += buffer.size
            if graph.is_kept(b):
                self.kept += buffer.size
            elif b in holders:
                self.holders[b] = holders[b]
        self.pairs = sharable_pairs(graph)

    def check(self, step: Step) -> None:
        """Check a step, whatever its kind."""
        match step:
            case EndStep():
                value = self.initial if step.at is End.START else self.kept
                if value <= self.budget:
                    raise PlanError(f"only {value} bytes are live at the {step.at}")
            case OpStep():
                self.check_op(step.op, {step.op}, {step.op}, step.flow)
            case SetStep():
                self.check_set(step)
            case OrderStep():
                self.check_order(step)
            case StatesStep():
                self.check_states(step.states, step.backward)

    def check_order(self, step: OrderStep) -> None:
        """Were `second` to run before `first`, one of them would not fit. Add the precedence."""
        first, second = step.first, step.second
        if first == second or step.at not in (first, second):
            raise PlanError("a precedence has two ops, and its flow is at one of them")
        if step.at == second:
            self.check_op(second, {second}, {first, second}, step.flow)
        else:
            self.check_op(first, {first, second}, {first}, step.flow)
        self.before[second].add(first)
        self.behind[first].add(second)

    def check_set(self, step: SetStep) -> None:
        """When one op of a set runs last, all others have ended; when first, none has begun."""
        ops, flows = set(step.ops), dict(step.flows)
        if not ops or len(flows) != len(step.flows) or not ops.issuperset(flows):
            raise PlanError("a set needs ops, and at most one flow for each of them")
        for v in ops:
            done, later = (ops, {v}) if step.last else ({v}, ops)
            if v in flows:
                self.check_op(v, done, later, flows[v])
            else:
                toward = self.behind if step.last else self.before
                if reach(toward, [v]).isdisjoint(ops - {v}):
                    name = self.graph.ops[v].name
                    raise PlanError(f"op {name!r} of the set has no flow")

    def check_op(self, v: int, done: set[int], later: set[int], forced: Forced) -> None:
        """Check that `v` can not run when the others of `done` have, and of `later` have not."""
        later = reach(self.behind, later)
        pairs = [p for p in self.pairs.get(v, ()) if later.isdisjoint(self.holders[p[1]] - {v})]
        self.check_case(v, done, later, forced, pairs)

    def check_case(
        self, v: int, done: set[int], later: set[int], forced: Forced, pairs: Pairs
    ) -> None:
        """Check the same where `v` can write into no inputs but those of `pairs`.

        Either all other holders of an input have ended too, or it is not among these.
        """
        if isinstance(forced, Cases):
            held = [pair for pair in pairs if pair[1] != forced.input]
            if len(held) == len(pairs):
                text = f"{self._op(v)} can not write into buffer {self._buffer(forced.input)}"
                raise PlanError(f"a case has no sense: op {text}")
            others = self.holders[forced.input] - {v}
            self.check_case(v, done | others, later, forced.free, pairs)
            self.check_case(v, done, later, forced.held, held)
            return
        ended = reach(self.before, done) - {v}
        value = self.born[v] + self.least_live(ended, later, forced) - heaviest(self.graph, pairs)
        if value <= self.budget:
            name = self.graph.ops[v].name
            raise PlanError(f"op {name!r} is shown to need {value} bytes, not {self.budget + 1}")

    def least_live(self, ended: set[int], later: set[int], flow: Flow) -> int:
        """Bytes that `M(D)` never goes below, if `D` holds all of `ended` and none of `later`.

        Of the buffers without a holder in `later` let `x(b)` bytes flow out of `b` to its holders,
        on to their predecessors, and be absorbed: `b` sends out at most its size, an op outside
        `ended` absorbs at most what is born at it, one of `ended` nothing, and none absorbs less
        than 0. What `D` frees has its holders in `D`, and so all that their flow reaches: what is
        born at the ops of `D` beyond `ended` is at least what flows out of the buffers that `D`
        frees. Hence freeing them is paid for, and not freeing the others saves at least as much:

            M(D) >= initial + born at `ended` - sizes of all such buffers + sum of x
        """
        free = {b for b, holders in self.holders.items() if holders.isdisjoint(later)}
        sent: dict[int, int] = {}
        absorbed: dict[int, int] = {}
        for b, u, amount in flow.releases:
            if b not in free or u not in self.holders[b] or amount <= 0:
                raise PlanError(
                    f"flow: buffer {self._buffer(b)} can send no bytes to {self._op(u)}"
                )
            sent[b] = sent.get(b, 0) + amount
            absorbed[u] = absorbed.get(u, 0) + amount
        for u, w, amount in flow.passes:
            if not 0 <= u < len(self.before) or w not in self.before[u] or amount <= 0:
                raise PlanError(f"flow: op {self._op(u)} can pass no bytes on to {self._op(w)}")
            absorbed[u] = absorbed.get(u, 0) - amount
            absorbed[w] = absorbed.get(w, 0) + amount
        for b, amount in sent.items():
            if amount > self.graph.buffers[b].size:
                raise PlanError(f"flow: buffer {self._buffer(b)} sends {amount} bytes, has fewer")
        for u, amount in absorbed.items():
            if not 0 <= amount <= (0 if u in ended else self.born[u]):
                raise PlanError(f"flow: op {self._op(u)} can not absorb {amount} bytes")
        value = self.initial + sum(self.born[u] for u in ended) + sum(sent.values())
        return value - sum(self.graph.buffers[b].size for b in free)

    def _op(self, v: int) -> str:
        return repr(self.graph.ops[v].name) if 0 <= v < len(self.graph.ops) else str(v)

    def _buffer(self, b: int) -> str:
        return repr(self.graph.buffers[b].name) if 0 <= b < len(self.graph.buffers) else str(b)

    def check_states(self, states: Sequence[tuple[int, int]], backward: bool) -> None:
        """Check that the states lead only to each other within the budget, and none is the end.

        Forward, a move runs a ready op. Backward, from the full state on, it takes back an op that
        no op of the state follows; a state is then written as the ops that were taken back.

        Closure rule: a move that fits and leaves no more bytes than it found is made at once. By
        `M(X | Y) + M(X & Y) <= M(X) + M(Y)`, any order within the budget stays so if it does that.
        In-place changes no `M`. With more ops ended none writes into fewer inputs; where fewer
        have ended, each input lost is live in both states on the right and in one on the left.
        """
        order, contrary = (self.behind, self.before)[:: -1 if backward else 1]
        needs = [sum(1 << u for u in row) for row in contrary]
        held: list[list[tuple[int, int]]] = [[] for _ in needs]
        for b, row in self.holders.items():
            mask = sum(1 << v for v in row)
            for v in row:
                held[v].append((mask, self.graph.buffers[b].size))
        spared = cache(partial(heaviest, self.graph))
        others = {
            v: [(sum(1 << u for u in self.holders[pair[1]] - {v}), pair) for pair in pairs]
            for v, pairs in self.pairs.items()
        }

        def effect(state: State, v: int) -> tuple[int, int]:
            """Return the bytes live after a move, and those while the op runs."""
            missing = state[0] if backward else ~(state[0] | 1 << v)
            change = self.born[v] - sum(size for mask, size in held[v] if not mask & missing)
            after = state[1] - change if backward else state[1] + change
            running = self.born[v] + (after if backward else state[1])
            if v in others:
                running -= spared(tuple(pair for mask, pair in others[v] if not mask & missing))
            return after, running

        def move(state: State, v: int) -> State:
            moved = state[0] | 1 << v
            fresh = {w for w in order[v] if not needs[w] & ~moved}
            return moved, effect(state, v)[0], (state[2] - {v}) | fresh

        def close(state: State) -> State:
            start = None
            while state != start:
                start = state
                for v in start[2]:
                    after, running = effect(state, v)
                    if running <= self.budget and after <= state[1]:
                        state = move(state, v)
            return state

        first = frozenset(v for v, need in enumerate(needs) if not need)
        found = [close((0, self.kept if backward else self.initial, first))]
        for number, (parent, v) in enumerate(states, start=1):
            if not 0 <= parent < number or v not in found[parent][2]:
                raise PlanError(f"state {number}: op {self._op(v)} is not ready in state {parent}")
            found.append(close(move(found[parent], v)))
        known = {state[0] for state in found}
        if (1 << len(needs)) - 1 in known:
            raise PlanError("the states get to the end: an order is within the budget")
        for number, state in enumerate(found):
            for v in state[2]:
                if effect(state, v)[1] <= self.budget and close(move(state, v))[0] not in known:
                    raise PlanError(f"state {number}: op {self._op(v)} leads to no listed state")


def reach(neighbours: Sequence[Iterable[int]], start: Iterable[int]) -> set[int]:
    """Return the start and all that is reached from it."""
    found = set(start)
    stack = list(found)
    while stack:
        for w in neighbours[stack.pop()]:
            if w not in found:
                found.add(w)
                stack.append(w)
    return found
