"""Tiny training graphs with views, births and mutation, and their least extra compute.

The oracle knows every copy of every storage: a view points to the copy that it was taken of, and a
copy that no buffer points to is gone. Dijkstra's algorithm moves from state to state: run an op,
or drop a copy. Nothing of the planner and of the checker is used but the data.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph

Copy = tuple[int, int]
"""A storage and the number of one of its copies, 0 for the first."""
State = tuple[int, tuple[Copy | None, ...], frozenset[Copy]]
"""Ops that have run, the copy of each buffer, and copies held in any case."""
MOST_STATES = 15_000


@dataclass(frozen=True)
class Copies:
    """The moves of a graph under a peak."""

    graph: Graph
    peak: int
    again: frozenset[int]

    def start(self) -> State:
        """Return the state before the first op."""
        graph, used = self.graph, set[int]()
        for op in graph.ops:
            used |= {graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)}
        given = [b for b, x in enumerate(graph.buffers) if x.input is not None]
        there = {b for b in given if graph.kept[b] or b in used}
        points = tuple((b, 0) if b in there else None for b in range(len(graph.buffers)))
        return 0, points, frozenset((b, 0) for b in given if graph.kept[b])

    def weigh(self, copies: Collection[Copy | None]) -> int:
        """Return the bytes of copies; the caller has the first ones of its own."""
        buffers, found = self.graph.buffers, set(copies) - {None}
        return sum(
            buffers[b].size for b, n in (x for x in found if x) if n or not buffers[b].external
        )

    def run(self, state: State, v: int) -> State | None:
        """Return the state after a run of an op, or None if it cannot run."""
        (done, points, held), op, graph = state, self.graph.ops[v], self.graph
        is_again = bool(done >> v & 1)
        ready = all(done >> u & 1 for u in graph.predecessors[v])
        if not ready or (is_again and v not in self.again):
            return None
        if any(points[b] is None for b in (*op.reads, *op.uses)):
            return None
        after, keep = list(points), set(held)
        if not is_again:
            keep |= {(b, 0) for b, x in enumerate(graph.buffers) if x.birth == v}
        for b in op.writes:
            source = graph.buffers[b].alias_of
            copy = (
                (b, self._next(points, b) if is_again else 0) if source is None else after[source]
            )
            if copy is None:
                return None
            keep.add(copy)
            # Readers of a graph output keep reading its first copy.
            if not is_again or not graph.kept[graph.roots[b]]:
                after[b] = copy
        if self.weigh([*points, *after, *keep]) > self.peak:
            return None
        kept = {
            x for x in keep if not x[1] and (graph.kept[x[0]] or self._is_born(x, done | 1 << v))
        }
        return _renumbered((done | 1 << v, tuple(after), frozenset(kept)))

    def _next(self, points: tuple[Copy | None, ...], b: int) -> int:
        return 1 + max((x[1] for x in points if x is not None and x[0] == b), default=0)

    def _is_born(self, copy: Copy, done: int) -> bool:
        """Return True if the bytes are there before their maker runs."""
        maker = self.graph.producers[copy[0]]
        return maker is not None and not done >> maker & 1


def least_extra_of_copies(graph: Graph, peak: int, again: Collection[int]) -> int | None:
    """Return the least extra cost within a peak, None if nothing fits, -1 if it takes too long."""
    moves, every = Copies(graph, peak, frozenset(again)), (1 << len(graph.ops)) - 1
    first = moves.start()
    if moves.weigh([*first[1], *first[2]]) > peak:
        return None
    best, heap, number = {first: 0}, [(0, 0, first)], 0
    while heap:
        cost, _, state = heapq.heappop(heap)
        if best[state] < cost:
            continue
        if state[0] == every:
            return cost
        if len(best) > MOST_STATES:
            return -1
        done, points, held = state
        found = [
            (cost, _renumbered((done, tuple(None if x == c else x for x in points), held)))
            for c in {x for x in points if x is not None} - held
        ]
        for v, op in enumerate(graph.ops):
            if (after := moves.run(state, v)) is not None:
                found.append((cost + (op.cost if done >> v & 1 else 0), after))
        for total, after in found:
            if total < best.get(after, total + 1):
                number += 1
                best[after] = total
                heapq.heappush(heap, (total, number, after))
    return None


def _renumbered(state: State) -> State:
    """Return a state whose later copies have the smallest numbers that keep their sequence."""
    done, points, held = state
    later = sorted({x for x in points if x is not None and x[1]})
    place = {x: 1 + sum(y[0] == x[0] for y in later[:i]) for i, x in enumerate(later)}
    return done, tuple(x if x is None else (x[0], place.get(x, 0)) for x in points), held


def viewed_graph(rng: np.random.Generator) -> Graph:
    """Return a training graph; `GraphError` is raised if the draw breaks a rule."""
    return _Draw(rng).graph()


@dataclass
class _Draw:
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.ops: list[Op] = []

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def add(self, **given: object) -> int:
        name = given.pop("name", f"x{len(self.buffers)}")
        self.buffers.append(Buffer(name, **given))  # type: ignore[arg-type]
        return len(self.buffers) - 1

    def graph(self) -> Graph:
        policies = [InputPolicy.EXCLUDED, InputPolicy.FREED, InputPolicy.KEPT]
        tangents = self.add(name="tangents_1", size=self.below(4), input=policies[self.below(3)])
        known = [
            self.add(size=self.below(5), input=policies[self.below(3)])
            for _ in range(self.below(3))
        ]
        last: int | None = None
        for _ in range(2 + self.below(3)):
            reads = [b for b in known if self.below(10) < 4]
            reads += [] if last is None or not self.below(5) else [last]
            made = self.op(f"f{len(self.ops)}", reads, once=self.below(7) == 0)
            known += made
            last = made[0]
        loss, last = made[0], tangents
        for _ in range(1 + self.below(3)):
            reads = [*(b for b in known if self.below(10) < 4), last]
            made = self.op(f"b{len(self.ops)}", reads)
            known += made
            last = made[0]
        for b in {loss, last} | ({known[self.below(len(known))]} if self.below(3) == 0 else set()):
            output = OutputPolicy.OWN if self.below(3) == 0 else OutputPolicy.LIVE
            self.buffers[b] = replace(self.buffers[b], output=output)
        self.bear()
        return Graph("viewed", tuple(self.ops), tuple(self.buffers), cost_unit="units")

    def op(self, name: str, reads: list[int], *, once: bool = False) -> list[int]:
        """Add an op, in a third of the cases one that makes a view; return what it writes."""
        reads = list(dict.fromkeys(reads))
        if reads and self.below(3) == 0:
            source = reads[self.below(len(reads))]
            made = [self.add(size=0, alias_of=source, mutates=self.below(8) == 0)]
            made += [self.add(size=self.below(5))] if self.below(4) == 0 else []
            reads = reads if self.below(3) == 0 else [source]
        else:
            made = [self.add(size=self.below(7)) for _ in range(1 + (self.below(4) == 0))]
        workspace = self.add(size=1 + self.below(4)) if self.below(6) == 0 else None
        writes = (*made, *(() if workspace is None else (workspace,)))
        cost = (0, 1, 2, 3, 5, 9)[self.below(6)]
        self.ops.append(
            Op(name, tuple(reads), writes=writes, workspace=workspace, cost=cost, once=once)
        )
        return made

    def bear(self) -> None:
        """Let an earlier op allocate a buffer, in a fifth of the graphs."""
        makers = {b: v for v, op in enumerate(self.ops) for b in op.writes}
        late = [b for b, v in makers.items() if v and self.buffers[b].alias_of is None]
        if late and self.below(5) == 0:
            b = late[self.below(len(late))]
            self.buffers[b] = replace(self.buffers[b], birth=self.below(makers[b]))
