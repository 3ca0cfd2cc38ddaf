"""Graphs of nodes and storages without views, with one op for each node or for each kernel.

A compiler computes several ops in one kernel, and what only this kernel reads needs no bytes.
:func:`join_kernels` makes one op of such nodes: a fusible node joins the kernel of its readers if
all of them are in one kernel of its part of the step. All repeats are then repeats of kernels. A
bound on such a graph holds for schedules of these kernels, not for other fusions.

Example: `exp` (8 bytes) is read by `sum` and `div`, and `sum` by `div` alone. All three are one op
`div`, and the 8 bytes of `exp` are never live. If the backward part reads `exp` as well, its bytes
are written by a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from optsched.formats.fusible import is_fusible
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.runtime.collector import paused_collector
from optsched.solver.recompute.problem import RecomputeProblem


class Tables(NamedTuple):
    """Buffers of a contracted graph, and their numbers."""

    buffers: list[Buffer]
    number: dict[int, int]
    """Buffer by storage."""
    others: dict[int, int]
    """Further buffers, by buffer of the problem's graph."""


@dataclass(frozen=True)
class Contracted:
    """A graph whose ops stand for nodes of a problem."""

    problem: RecomputeProblem
    head: tuple[int, ...]
    """By node: the last node of its op, after which the op is named."""
    members: tuple[tuple[int, ...], ...] = field(init=False)
    """Nodes of each op, ascending."""
    again: frozenset[int] = field(init=False)
    """Nodes that may run again."""

    def __post_init__(self) -> None:
        found: dict[int, list[int]] = {h: [] for h in sorted(set(self.head))}
        for v, h in enumerate(self.head):
            found[h].append(v)
        object.__setattr__(self, "members", tuple(map(tuple, found.values())))
        object.__setattr__(self, "again", frozenset(self.problem.again))

    @property
    def loss(self) -> list[str]:
        """Names of the ops that make the loss."""
        problem, node = self.problem, {v: i for i, v in enumerate(self.problem.ops)}
        makers = [problem.views.get(v, v) for v in problem.loss]
        return list(dict.fromkeys(problem.name(self.head[node[v]]) for v in makers if v in node))

    @paused_collector()
    def graph(self) -> Graph:
        """Return the graph."""
        problem = self.problem
        at = {h: i for i, h in enumerate(sorted(set(self.head)))}
        ops = [self._op(nodes, at) for nodes in self.members]
        return Graph(
            problem.graph.name,
            tuple(ops),
            tuple(self.tables.buffers),
            cost_unit=problem.graph.cost_unit,
        )

    @cached_property
    def tables(self) -> Tables:
        """Buffers, and their numbers by storage and by buffer of the problem's graph."""
        problem, names = self.problem, self.problem.graph.buffers
        number, buffers = dict[int, int](), list[Buffer]()
        for s, storage in enumerate(problem.storages):
            if not self._is_inside(s):
                number[s] = len(buffers)
                buffer = names[storage.buffer]
                given = buffer.input if storage.maker < 0 else None
                output = OutputPolicy.LIVE if storage.kept else None
                buffers.append(Buffer(buffer.name, storage.size, input=given, output=output))
        others = self._add_others(number, buffers)
        # One buffer stands for all bytes that no schedule can release.
        if problem.fixed:
            buffers.append(Buffer("fixed bytes", problem.fixed, input=InputPolicy.KEPT))
        return Tables(buffers, number, others)

    def used(self, nodes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the buffers that the op of some nodes reads, and those that it writes."""
        problem, (_, number, others) = self.problem, self.tables
        made, read = problem.makes[nodes[0]], problem.reads[nodes[0]]
        if len(nodes) > 1:
            made = tuple([s for v in nodes for s in problem.makes[v]])
            read = tuple(dict.fromkeys([s for v in nodes for s in problem.reads[v]]))
        read = tuple([s for s in read if s not in made])
        reads = tuple([number[s] for s in read])
        writes = tuple([number[s] for s in made if s in number])
        if not others:
            return reads, writes
        ops = [problem.graph.ops[problem.ops[v]] for v in nodes]
        beside = [others[b] for op in ops for b in op.writes if b in others]
        through = [others[b] for op in ops for b in (*op.reads, *op.uses) if b in others]
        return (
            (*reads, *(b for b in dict.fromkeys(through) if b not in beside)),
            (*writes, *beside),
        )

    def _add_others(self, number: dict[int, int], buffers: list[Buffer]) -> dict[int, int]:
        """Append what nodes make beside storages; return numbers by buffer of the graph.

        These are views, which still hold the copy that they were taken of if the storage is made
        again, and outputs that the caller allocates: a repeat allocates its own copy.
        """
        problem, graph, found = self.problem, self.problem.graph, dict[int, int]()
        roots = {problem.storages[s].buffer: made for s, made in number.items()}
        for b in (b for v in problem.ops for b in graph.ops[v].writes):
            buffer = graph.buffers[b]
            source = buffer.alias_of
            if source is not None and graph.roots[b] in roots:
                found[b] = len(buffers)
                root = found.get(source, roots[graph.roots[b]])
                buffers.append(Buffer(buffer.name, 0, alias_of=root))
            elif source is None and buffer.external and buffer.size:
                found[b] = len(buffers)
                buffers.append(Buffer(buffer.name, buffer.size, output=buffer.output))
        return found

    def _is_inside(self, s: int) -> bool:
        """Return True for a storage that only the kernel of its maker reads."""
        storage, head = self.problem.storages[s], self.head
        if storage.maker < 0 or storage.kept or not storage.readers:
            return False
        return {head[w] for w in storage.readers} == {head[storage.maker]}

    def _op(self, nodes: Sequence[int], at: dict[int, int]) -> Op:
        problem, h = self.problem, nodes[-1]
        reads, writes = self.used(nodes)
        before = {at[self.head[p]] for v in nodes for p in problem.preds[v]} - {at[h]}
        return Op(
            problem.name(h),
            reads,
            writes=writes,
            control=tuple(sorted(before)),
            cost=sum(problem.cost[v] for v in nodes),
            once=h in problem.forward and h not in self.again,
        )

    def names(self, op: int) -> Iterator[str]:
        """Yield the names of the nodes of an op, in an order in which they can run."""
        for v in self.members[op]:
            yield self.problem.name(v)

    def sequence(self, ops: Sequence[int]) -> list[int]:
        """Return a sequence of ops of the problem's graph as one of kernels; views are left out.

        A kernel runs where its last node does.
        """
        at = {self.problem.ops[nodes[-1]]: i for i, nodes in enumerate(self.members)}
        return [at[v] for v in ops if v in at]


def contracted(problem: RecomputeProblem) -> Contracted:
    """Return the graph with one op for each node."""
    return Contracted(problem, tuple(range(len(problem.ops))))


def join_kernels(problem: RecomputeProblem) -> Contracted:
    """Return the graph with one op for each kernel."""
    count = len(problem.ops)
    readers: list[list[int]] = [[] for _ in range(count)]
    for w, before in enumerate(problem.preds):
        for u in before:
            readers[u].append(w)
    node = {v: i for i, v in enumerate(problem.ops)}
    ends = {node[v] for v in problem.loss if v in node}
    again, head = {*problem.again}, [*range(count)]
    for u in reversed(range(count)):
        heads = {head[w] for w in readers[u]}
        kept = any(problem.storages[s].kept for s in problem.makes[u])
        if len(heads) != 1 or kept or u in ends or not _is_fusible(problem, u):
            continue
        (h,) = heads
        alike = all((u in part) == (h in part) for part in (problem.forward, again))
        if alike and _is_fusible(problem, h):
            head[u] = h
    return Contracted(problem, tuple(head))


def _is_fusible(problem: RecomputeProblem, v: int) -> bool:
    return is_fusible(problem.graph.ops[problem.ops[v]].kind)
