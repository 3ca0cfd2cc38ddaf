"""All orders of a small graph: either one packs below a slab, or none does, and that is a proof.

Orders grow op by op, and where an op may write outputs in place, by each matching of outputs and
inputs. Whether an order packs into a capacity depends only on its *constraints*: which buffers are
live together, so that they may share no byte, and which are written into which, so that they share
their offset. A set of constraints that does not pack refutes every order that has them all. So a
refused order is cut down, from its end and from its beginning, to a short stretch of steps that
still does not pack; the constraints of that stretch are kept as a *core*, and no order is grown
further once it has all constraints of one of them. States from which no order stays within the
capacity are kept too.

With several pools each has a slab, and it is their sum that is to stay within the capacity. Then
a stretch is cut out for each pool that needs to be asked, and what is kept of a state is also how
high the live bytes of each pool rose before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from optsched.joint.oracle import GiveUpError, PackingOracle, split_capacity
from optsched.model.arrays import IntArray
from optsched.model.dependencies import topological_order
from optsched.model.graph import Graph
from optsched.model.inplace import Pair
from optsched.model.inplace_choice import Pairs, heads
from optsched.model.liveness import live_ranges
from optsched.model.packing_problem import PackingProblem, packing_problem, select
from optsched.model.plan import Plan, make_plan
from optsched.model.pools import pool_rows
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits


@dataclass(frozen=True, slots=True)
class EnumerationEffort:
    """How much the search of all orders may do.

    Parameters
    ----------
    states
        Partial orders that are looked at before the search gives up.
    packing_seconds
        Seconds, or as much work, for one packing; where that does not decide it, the search gives
        up.
    """

    states: int = 100_000
    packing_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class EnumerationOutcome:
    """What a search through all orders came to.

    Parameters
    ----------
    complete
        Whether every order was packed or refuted.
    refuted
        If complete: no order of the graph packs into this many bytes.
    states, packings, cores
        Partial orders, packing problems, and refuted stretches it took.
    """

    complete: bool
    refuted: int
    states: int
    packings: int
    cores: int


def enumerate_orders(
    graph: Graph,
    capacity: int,
    *,
    floor: int,
    offer: Callable[[Plan], None],
    limits: Limits | Clock,
    effort: EnumerationEffort | None = None,
) -> EnumerationOutcome:
    """Look for plans within a capacity, and then within less, until none is left.

    Parameters
    ----------
    graph
        The graph; it may be in-place.
    capacity
        Bytes that the slab, or all slabs together, may have at first.
    floor
        No slab is below: a plan of this many bytes ends the search.
    offer
        Called with each plan within the capacity; the capacity then drops below its slab.
    limits
        Time or work, and seed; work is counted in partial orders.
    effort
        When to give up.
    """
    effort = effort or EnumerationEffort()
    search = _OrderEnumeration(graph, capacity, floor, offer, Clock.of(limits), effort)
    complete = True
    try:
        search.start()
    except GiveUpError:
        complete = False
    packings = search.oracle.packings
    return EnumerationOutcome(complete, search.capacity, search.states, packings, len(search.cores))


def matchings(pairs: Sequence[Pair]) -> Iterator[Pairs]:
    """Yield all sets of pairs in which no output and no input is twice; more pairs first."""
    if not pairs:
        yield ()
        return
    (output, source), rest = pairs[0], pairs[1:]
    apart = [pair for pair in rest if pair[0] != output and pair[1] != source]
    for others in matchings(apart):
        yield ((output, source), *others)
    yield from matchings(rest)


@dataclass(frozen=True, slots=True)
class _PartialOrder:
    """Steps taken so far: ops and the in-place pairs they took.

    Parameters
    ----------
    steps
        Op and pairs, as buffer ids, of each step.
    done, live
        Masks of the ops that have run and of the buffers that are live behind them.
    constraints
        Mask of what the steps ask of a packing, see :meth:`_OrderEnumeration._apart`.
    peaks
        The most bytes of each pool so far.
    """

    steps: tuple[tuple[int, Pairs], ...]
    done: int
    live: int
    constraints: int
    peaks: tuple[int, ...]


class _OrderEnumeration:
    """Buffers are numbered by their position among those that are ever live."""

    def __init__(
        self,
        graph: Graph,
        capacity: int,
        floor: int,
        offer: Callable[[Plan], None],
        clock: Clock,
        effort: EnumerationEffort,
    ) -> None:
        self.graph, self.capacity, self.floor, self.offer = graph, capacity, floor, offer
        self.oracle, self.clock = PackingOracle(clock, effort.packing_seconds), clock
        self.max_states, self.states = effort.states, 0
        self.cores: list[int] = []
        self.dead: dict[int, list[tuple[int, ...]]] = {}
        self.seen: set[tuple[int, int]] = set()
        self.all = (1 << len(graph.ops)) - 1
        self.needs = [sum(1 << u for u in before) for before in graph.predecessors]
        self._number_buffers()
        self._number_pairs()

    def _number_buffers(self) -> None:
        graph, arrays = self.graph, self.graph.arrays
        _, ids = packing_problem(graph, topological_order(graph.predecessors))
        self.position = {int(b): i for i, b in enumerate(ids)}
        self.size = [int(arrays.size[b]) for b in ids]
        self.kept = [bool(arrays.keep[b]) for b in ids]
        pools = [graph.buffers[b].pool for b in ids]
        self.same_pool = [
            sum(1 << i for i, other in enumerate(pools) if other == pool) for pool in pools
        ]
        self.pool_masks = sorted(set(self.same_pool))
        self.users: list[int] = []
        self.born: list[list[int]] = [[] for _ in graph.ops]
        self.inputs: list[int] = []
        for i, b in enumerate(ids.tolist()):
            users = {*arrays.user.row(b).tolist(), int(arrays.producer[b])} - {-1}
            self.users.append(sum(1 << v for v in users))
            birth = int(arrays.birth[b])
            (self.inputs if birth < 0 else self.born[birth]).append(i)

    def _number_pairs(self) -> None:
        arrays = self.graph.arrays
        self.pairs: list[list[Pair]] = [[] for _ in self.graph.ops]
        rows = (arrays.inplace_op, arrays.inplace_output, arrays.inplace_source)
        for v, output, source in zip(*(row.tolist() for row in rows), strict=True):
            self.pairs[v].append((output, source))

    def start(self) -> None:
        """Grow all orders from what is live before the first step."""
        live, constraints = self._allocate(0, self.inputs, {})
        peaks = self._raised((0,) * len(self.pool_masks), live)
        if sum(peaks) <= self.capacity:
            self._grow(_PartialOrder((), 0, live, constraints, peaks))

    def _grow(self, at: _PartialOrder) -> int:
        """Try all ways to go on; return to which length the order is to be cut back.

        Whatever begins with the steps up to the length returned has been decided.
        """
        self._count()
        if at.done == self.all:
            return self._pack(at.steps)
        length, key = len(at.steps), (at.done, at.constraints)
        if key in self.seen or self._is_dead(at):
            return length
        alive = False
        for after in self._next(at):
            if sum(after.peaks) > self.capacity:
                continue
            if self._is_refuted(after.constraints):
                alive = True
                continue
            cut = self._grow(after)
            if cut < length:
                return cut
            alive = alive or not self._is_dead(after)
        if not alive:
            self.dead.setdefault(at.done, []).append(at.peaks)
        self.seen.add(key)
        return length

    def _next(self, at: _PartialOrder) -> Iterator[_PartialOrder]:
        """Yield the partial orders with one more step."""
        for v, needs in enumerate(self.needs):
            if at.done >> v & 1 or needs & ~at.done:
                continue
            done = at.done | 1 << v
            # An input dies here if all of its users have run.
            able = [p for p in self.pairs[v] if not self.users[self.position[p[1]]] & ~done]
            for taken in matchings(able):
                into = {self.position[output]: self.position[source] for output, source in taken}
                live, constraints = self._allocate(at.live, self.born[v], into)
                written = sum(1 << output for output in into)
                yield _PartialOrder(
                    (*at.steps, (v, taken)),
                    done,
                    self._release(live, done),
                    at.constraints | constraints,
                    # What is written in place has its bytes inside the input's while the op runs.
                    self._raised(at.peaks, live & ~written),
                )

    def _allocate(self, live: int, born: Sequence[int], into: dict[int, int]) -> tuple[int, int]:
        """Return what is live with some more buffers, and the constraints that these add."""
        constraints = 0
        for i in born:
            for j in _bits(live & self.same_pool[i]):
                constraints |= self._shared(i, j) if into.get(i) == j else self._apart(i, j)
            live |= 1 << i
        return live, constraints

    def _release(self, live: int, done: int) -> int:
        for i in _bits(live):
            if not self.kept[i] and not self.users[i] & ~done:
                live &= ~(1 << i)
        return live

    def _apart(self, i: int, j: int) -> int:
        """The constraint that two buffers share no byte."""
        return 1 << max(i, j) * len(self.size) + min(i, j)

    def _shared(self, i: int, j: int) -> int:
        """The constraint that two buffers share their offset."""
        return 1 << min(i, j) * len(self.size) + max(i, j)

    def _raised(self, peaks: tuple[int, ...], live: int) -> tuple[int, ...]:
        """Return the most bytes of each pool, those of `live` included."""
        now = [sum(self.size[i] for i in _bits(live & mask)) for mask in self.pool_masks]
        return tuple(max(pair) for pair in zip(peaks, now, strict=True))

    def _is_dead(self, at: _PartialOrder) -> bool:
        """Whether no order goes on from here within the capacity.

        With one pool it does not matter how high the bytes rose before.
        """
        known = self.dead.get(at.done, ())
        if len(self.pool_masks) < 2:
            return bool(known)
        return any(all(x <= y for x, y in zip(low, at.peaks, strict=True)) for low in known)

    def _is_refuted(self, constraints: int) -> bool:
        return any(core & constraints == core for core in self.cores)

    def _count(self) -> None:
        self.states += 1
        self.clock.spend(1)
        if self.states > self.max_states or self.clock.expired():
            raise GiveUpError

    def _pack(self, steps: tuple[tuple[int, Pairs], ...]) -> int:
        """Decide a whole order: offer its packing, or keep the constraints that refute it."""
        order = [v for v, _ in steps]
        taken = tuple(pair for _, pairs in steps for pair in sorted(pairs))
        problem, ids = packing_problem(self.graph, order, taken)
        rows = pool_rows(self.graph, ids)
        parts = [select(problem, row) for row in rows]
        while True:
            offsets, refused = self._decide(problem, parts, rows)
            if offsets is None:
                break
            plan = make_plan(self.graph, order, offsets, taken)
            self.offer(plan)
            self.capacity = plan.slab(self.graph) - 1
            if self.capacity < self.floor:
                return -1
        core, last = 0, 0
        for part, row, capacity in zip(parts, rows, refused, strict=True):
            if capacity >= 0:
                low, high = self.oracle.stretch(part, capacity)
                core |= self._constraints(order, taken, set(ids[row].tolist()), low, high)
                last = max(last, high)
        self.cores.append(core)
        # Every order that begins with the same `last` steps has the same stretches.
        return last - 1

    def _decide(
        self, problem: PackingProblem, parts: list[PackingProblem], rows: list[IntArray]
    ) -> tuple[IntArray | None, list[int]]:
        """Return offsets within the capacity; or None, and a capacity that each pool refuses."""
        if len(parts) == 1:
            return self.oracle.within(problem, self.capacity), [self.capacity]
        found = [self.oracle.minimum(part) for part in parts]
        minima = [None if one is None else one[0] for one in found]
        if None in minima or sum(slab or 0 for slab in minima) > self.capacity:
            return None, split_capacity(minima, self.capacity)
        offsets = np.zeros(len(problem), np.int64)
        for row, one in zip(rows, found, strict=True):
            offsets[row] = 0 if one is None else one[1]
        return offsets, []

    def _constraints(
        self, order: Sequence[int], taken: Pairs, packed: set[int], low: int, high: int
    ) -> int:
        """Return what the steps `[low, high)` ask of the buffers of a pool.

        Parameters
        ----------
        order, taken
            The order and its in-place pairs.
        packed
            The pool's buffers that others may be written into: their roots in the packing.
        low, high
            Steps.
        """
        ranges, into, head = live_ranges(self.graph, order), dict(taken), heads(taken)
        start, end = np.maximum(ranges[:, 0], low), np.minimum(ranges[:, 1], high)
        inside = [b for b in self.position if start[b] < end[b] and head.get(b, b) in packed]
        core = 0
        for a, b in combinations(inside, 2):
            meet = start[a] < end[b] and start[b] < end[a]
            if meet and into.get(a) != b and into.get(b) != a:
                core |= self._apart(self.position[a], self.position[b])
        heads_inside = {head.get(b, b) for b in inside}
        for output, source in taken:
            if head[output] in heads_inside and ranges[output, 0] < high:
                core |= self._shared(self.position[output], self.position[source])
        return core


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
