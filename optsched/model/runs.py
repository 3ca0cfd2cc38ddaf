"""Sequences of runs: orders in which an op may stand more than once.

A training step may compute an activation twice instead of keeping it: its op *runs again* before a
reader that comes late. A plan with such repeats is a sequence of ops. Each run of an op reads the
latest runs of the ops that make its operands, so nothing else has to be recorded. Only the first
run of a graph output is ever read, since the caller may hold it.

For example, let op `a` make 5 bytes that `b` and `d` read, and let `b`, `c` and `d` form a chain.
In the sequence a, b, c, a, d the second run of `a` serves `d`, so the 5 bytes of its first run are
released after `b` and are not live while `c` runs.

:func:`unroll` turns a graph and a sequence into an ordinary graph with one op per run. Searches,
packings, reports and exports work on that graph unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from optsched.errors import PlanError
from optsched.model.elements import Buffer, Op
from optsched.model.graph import Graph

REPEATS = "these repeats"
"""Variant of a graph with several runs of an op."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A graph with one op per run of a sequence."""

    graph: Graph
    """Ordinary graph; op `i` is run `i` of the sequence. First runs have the names of their ops and
    buffers, later runs have `@2`, `@3` ... appended."""
    source: tuple[int, ...]
    """Op of the original graph, by run."""
    number: tuple[int, ...]
    """0 for the first run of an op, 1 for the second, by run."""

    def reorder(self, order: Sequence[int]) -> tuple[int, ...]:
        """Return the sequence of an order of :attr:`graph`."""
        return tuple(self.source[i] for i in order)


def runs_once(graph: Graph) -> dict[int, str]:
    """Return the ops that must not run again, each with the reason in words."""
    # By root: whoever reads bytes that some op overwrites could read them too late.
    changed = {graph.roots[b]: b for b, buffer in enumerate(graph.buffers) if buffer.mutates}
    shared = {b for group in graph.must_share for b in group}
    born = {buffer.birth for buffer in graph.buffers if buffer.birth is not None}
    found: dict[int, str] = {}
    rows = [*enumerate(graph.ops)]
    # In most graphs this is the only reason.
    if not (changed or shared or born):
        rows = [(v, op) for v, op in rows if op.once]
    for v, op in rows:
        written = [graph.buffers[b] for b in op.writes]
        stale = [b for b in (*op.reads, *op.uses) if graph.roots[b] in changed]
        # The first reason that applies is enough for a message.
        if op.once:
            found[v] = "it draws random numbers, changes bytes or communicates"
        elif any(buffer.mutates for buffer in written):
            found[v] = "it overwrites bytes"
        elif stale:
            writer = graph.producers[changed[graph.roots[stale[0]]]]
            by = "" if writer is None else f" by {graph.ops[writer].name!r}"
            found[v] = f"it reads {graph.buffers[stale[0]].name!r}, which is overwritten{by}"
        elif v in born or any(buffer.birth is not None for buffer in written):
            found[v] = "its bytes are allocated together with those of another op"
        elif shared.intersection(op.writes):
            found[v] = "its bytes belong to a must-share group"
    return found


def unroll(graph: Graph, sequence: Sequence[int]) -> Unrolled:
    """Return the graph with one op per run of a sequence.

    Raise `PlanError` if an op is missing, runs again although it must not, or runs before an op
    that it needs.
    """
    return _Unroller(graph).run(sequence)


@dataclass
class _Unroller:
    """The unrolled graph while the runs of a sequence go by."""

    graph: Graph
    ops: list[Op] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    latest: dict[int, int] = field(default_factory=dict)
    """Copy of each buffer that the next reader reads."""
    first: dict[int, int] = field(default_factory=dict)
    """First run of each op."""
    copies: dict[int, list[int]] = field(default_factory=dict)
    """All copies of each buffer."""
    number: list[int] = field(default_factory=list)
    pairs: list[tuple[int, int, int]] = field(default_factory=list)
    allowed: set[tuple[int, int, int]] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def run(self, sequence: Sequence[int]) -> Unrolled:
        graph, once = self.graph, runs_once(self.graph)
        self.names = {*graph.op_ids, *graph.buffer_ids}
        # Inputs exist before the first run and are never made again.
        for b, buffer in enumerate(graph.buffers):
            if graph.producers[b] is None:
                self._copy(b, buffer)
        counts = [0] * len(graph.ops)
        for v in sequence:
            if not 0 <= v < len(counts):
                raise PlanError(f"order names op number {v}, but the graph has {len(counts)} ops")
            if counts[v] and v in once:
                raise PlanError(f"op {graph.ops[v].name!r} runs again, but {once[v]}")
            self._run(v, counts[v])
            counts[v] += 1
        if 0 in counts:
            raise PlanError(f"order misses op {graph.ops[counts.index(0)].name!r}")
        return Unrolled(self._graph(), tuple(sequence), tuple(self.number))

    def _run(self, v: int, number: int) -> None:
        op, at = self.graph.ops[v], len(self.ops)
        # Only first runs matter: later runs of predecessors are optional.
        for u in self.graph.predecessors[v]:
            if u not in self.first:
                raise PlanError(
                    f"order runs op {op.name!r} before {self.graph.ops[u].name!r}, which it needs"
                )
        # Each run reads the latest copy, so nothing else has to be recorded.
        reads, uses = (tuple(self.latest[b] for b in row) for row in (op.reads, op.uses))
        made = {b: self._write(b, number) for b in op.writes}
        self.first.setdefault(v, at)
        self.ops.append(
            replace(
                op,
                name=self._name(op.name, number),
                reads=reads,
                uses=uses,
                writes=tuple(made.values()),
                # Control edges lead from the first runs, which every sequence has.
                control=tuple(self.first[u] for u in op.control),
                workspace=None if op.workspace is None else made[op.workspace],
            )
        )
        self.number.append(number)
        for given, found in (
            (self.graph.inplace_candidates, self.pairs.append),
            (self.graph.inplace, self.allowed.add),
        ):
            for u, output, source in given:
                if u == v:
                    found((at, made[output], reads[op.reads.index(source)]))

    def _write(self, b: int, number: int) -> int:
        """Add the copy of a buffer that a run makes."""
        # Only the first copy is the caller's output.
        buffer, output = self.graph.buffers[b], None if number else self.graph.buffers[b].output
        alias = None if buffer.alias_of is None else self.latest[buffer.alias_of]
        birth = None if buffer.birth is None else self.first.get(buffer.birth, len(self.ops))
        made = replace(
            buffer,
            name=self._name(buffer.name, number),
            alias_of=alias,
            birth=birth,
            output=output,
        )
        return self._copy(b, made)

    def _copy(self, b: int, made: Buffer) -> int:
        self.buffers.append(made)
        at = len(self.buffers) - 1
        self.copies.setdefault(b, []).append(at)
        # The caller may hold an output: readers use its first copy.
        if b not in self.latest or not self.graph.kept[self.graph.roots[b]]:
            self.latest[b] = at
        return at

    def _name(self, name: str, number: int) -> str:
        if not number:
            return name
        made = f"{name}@{number + 1}"
        # A graph may have such a name already.
        while made in self.names:
            made += "'"
        return made

    def _graph(self) -> Graph:
        graph = self.graph
        # Every copy of one buffer must keep apart from every copy of the other.
        apart = [
            (a, b) for x, y in graph.keep_apart for a in self.copies[x] for b in self.copies[y]
        ]
        return Graph(
            graph.name,
            tuple(self.ops),
            tuple(self.buffers),
            tuple(self.pairs),
            graph.memory_model,
            tuple(pair for pair in self.pairs if pair in self.allowed),
            tuple(apart),
            tuple(tuple(self.copies[b][0] for b in group) for group in graph.must_share),
            graph.cost_unit,
            # Other repeats are other graphs, and a bound on this one is not about theirs.
            variant=REPEATS if any(self.number) else graph.variant,
        )


def extra_cost(graph: Graph, sequence: Sequence[int]) -> int:
    """Return the cost of all runs of a sequence after the first of each op."""
    cost = sum(graph.ops[v].cost for v in sequence)
    return cost - sum(graph.ops[v].cost for v in set(sequence))
