"""Random graphs for tests: one generator, driven by numpy (fast) or by Hypothesis (shrinks).

>>> import numpy as np
>>> graph = random_graph(np.random.default_rng(0), ops=5)
>>> len(graph.ops)
5
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from optsched.errors import GraphError
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.limits import limited

FEATURES = frozenset(
    {
        "alignment",  # alignments above 1
        "births",  # buffers allocated by an op before their producer
        "control",  # control edges
        "external",  # excluded inputs, outputs with an allocation of their own
        "inplace",  # in-place candidates
        "inputs",  # graph inputs, freed or kept
        "mutation",  # ops that overwrite a buffer
        "multi",  # ops with several outputs, or none
        "pins",  # required offsets; they may well contradict each other
        "pools",  # buffers in different slabs
        "shuffled",  # ids in random order; without it the program order is a valid order
        "uses",  # buffers kept alive by ops that do not read them
        "views",  # other names of a buffer
        "workspace",  # scratch bytes
        "zeros",  # buffers of no bytes
    }
)
"""All that :func:`random_graph` can put into a graph."""

PLANNABLE = FEATURES - {"pins", "pools", "shuffled"}
"""Features that every planner must handle, the default."""

PLAIN: frozenset[str] = frozenset()
"""Ops with one output each, read by later ops."""


def random_graph(
    rng: np.random.Generator,
    ops: int = 8,
    *,
    max_size: int = 16,
    max_reads: int = 3,
    features: Collection[str] = PLANNABLE,
    name: str = "random",
) -> Graph:
    """Make a valid graph of `ops` ops; the same generator state gives the same graph."""
    return _make_graph(lambda n: int(rng.integers(n)), ops, max_size, max_reads, features, name)


@st.composite
def graphs(
    draw: st.DrawFn,
    max_ops: int = 8,
    *,
    min_ops: int = 0,
    max_size: int = 16,
    max_reads: int = 3,
    features: Collection[str] = PLANNABLE,
) -> Graph:
    """Hypothesis strategy for the graphs of :func:`random_graph`; shrinks towards plain ones."""
    ops = draw(st.integers(min_ops, max_ops))
    # Hypothesis shrinks towards False: a failing graph ends up with few features.
    wanted = {feature for feature in sorted(features) if draw(st.booleans())}

    def below(n: int) -> int:
        return draw(st.integers(0, n - 1))

    return _make_graph(below, ops, max_size, max_reads, wanted, "random")


def random_order(rng: np.random.Generator, graph: Graph) -> tuple[int, ...]:
    """Return a random valid order of the ops."""
    missing = [len(before) for before in graph.predecessors]
    ready = [v for v, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        at = int(rng.integers(len(ready)))
        # The last one takes the place of the chosen one: removal without shifting.
        ready[at], ready[-1] = ready[-1], ready[at]
        order.append(ready.pop())
        for v in graph.arrays.succ.row(order[-1]).tolist():
            missing[v] -= 1
            if not missing[v]:
                ready.append(v)
    return tuple(order)


def with_sharing(rng: np.random.Generator, graph: Graph) -> Graph:
    """Keep a few pairs of buffers apart, and let a few that are live in turn share an offset.

    Pins may be in the way of either.
    """
    able = [b for b, x in enumerate(graph.buffers) if graph.roots[b] == b and not x.external]
    pairs = [(a, b) for a, b in combinations(able, 2) if rng.random() < 0.15]
    if rng.random() < 0.7:
        graph = replace(graph, keep_apart=tuple(pairs))
    wanted = int(rng.integers(3))
    rows = list(combinations(able, 2))
    for i in rng.permutation(len(rows)).tolist():
        if len(graph.must_share) == wanted:
            break
        buffers = list(graph.buffers)
        for b in rows[i]:
            # Members of a group need one alignment.
            buffers[b] = replace(buffers[b], alignment=graph.buffers[rows[i][0]].alignment)
        try:
            groups = (*graph.must_share, rows[i])
            graph = replace(graph, buffers=tuple(buffers), must_share=groups)
        # Live at the same time, or on a cycle of groups: not a group.
        except GraphError:
            continue
    return graph


def with_limits(rng: np.random.Generator, graph: Graph) -> Graph:
    """Let a few buffers end at or below an address not far above the lowest one that they can.

    Limits that the buffers of one op cannot keep together are left out.
    """
    limits = {
        x.name: (x.pin or 0) + x.size + int(rng.integers(12))
        for b, x in enumerate(graph.buffers)
        if graph.roots[b] == b and not x.external and rng.random() < 0.4
    }
    try:
        return limited(graph, limits)
    except GraphError:
        return graph


def relabel(graph: Graph, op_at: Sequence[int], buffer_at: Sequence[int]) -> Graph:
    """Return the same graph with other ids: new id `i` is what had id `op_at[i]` before."""
    op_id = {old: new for new, old in enumerate(op_at)}
    buffer_id = {old: new for new, old in enumerate(buffer_at)}

    def move_op(op: Op) -> Op:
        return replace(
            op,
            reads=tuple(buffer_id[b] for b in op.reads),
            uses=tuple(buffer_id[b] for b in op.uses),
            writes=tuple(buffer_id[b] for b in op.writes),
            control=tuple(op_id[u] for u in op.control),
            workspace=None if op.workspace is None else buffer_id[op.workspace],
        )

    def move_buffer(buffer: Buffer) -> Buffer:
        return replace(
            buffer,
            alias_of=None if buffer.alias_of is None else buffer_id[buffer.alias_of],
            birth=None if buffer.birth is None else op_id[buffer.birth],
        )

    return Graph(
        graph.name,
        tuple(move_op(graph.ops[v]) for v in op_at),
        tuple(move_buffer(graph.buffers[b]) for b in buffer_at),
        tuple(
            (op_id[v], buffer_id[out], buffer_id[source])
            for v, out, source in graph.inplace_candidates
        ),
        graph.memory_model,
        keep_apart=tuple((buffer_id[a], buffer_id[b]) for a, b in graph.keep_apart),
        must_share=tuple(tuple(buffer_id[b] for b in group) for group in graph.must_share),
    )


def _make_graph(
    below: Callable[[int], int],
    ops: int,
    max_size: int,
    max_reads: int,
    features: Collection[str],
    name: str,
) -> Graph:
    unknown = set(features) - FEATURES
    if unknown:
        raise ValueError(f"unknown features {sorted(unknown)}")
    draft = _Draft(below, frozenset(features), max_size, max_reads)
    if draft.when("inputs", 80):
        for _ in range(1 + below(3)):
            draft.add_input()
    for _ in range(ops):
        draft.add_op()
    draft.mark_outputs()
    graph = Graph(name, tuple(draft.ops), tuple(draft.buffers), tuple(draft.inplace))
    if "shuffled" in features:
        graph = relabel(graph, draft.shuffle(len(graph.ops)), draft.shuffle(len(graph.buffers)))
    return graph


@dataclass
class _Draft:
    """A graph in the making; `below(n)` is the only source of choice, and 0 the plainest one."""

    below: Callable[[int], int]
    features: frozenset[str]
    max_size: int
    max_reads: int
    ops: list[Op] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    inplace: list[tuple[int, int, int]] = field(default_factory=list)
    # Buffers that later ops may name: no workspace, and none whose bytes were overwritten.
    readable: list[int] = field(default_factory=list)
    version: list[int] = field(default_factory=list)

    def when(self, feature: str, percent: int) -> bool:
        """Return True if a feature should be used now, at random."""
        return feature in self.features and self.chance(percent)

    def chance(self, percent: int) -> bool:
        # 0 must mean no, as Hypothesis shrinks towards it.
        return self.below(100) >= 100 - percent

    def size(self) -> int:
        return 0 if self.when("zeros", 10) else 1 + self.below(self.max_size)

    def recent(self) -> int:
        """A readable buffer, half of the time among the latest six."""
        # Reads of recent results make deep graphs, reads of any make wide ones.
        window = min(6, len(self.readable)) if self.chance(50) else len(self.readable)
        return self.readable[-1 - self.below(window)]

    def shuffle(self, count: int) -> list[int]:
        items = list(range(count))
        for i in range(count - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items

    def add(self, buffer: Buffer) -> int:
        """Add a buffer at a place the features allow; return its id."""
        if buffer.alias_of is None:
            alignment = 2 ** self.below(4) if self.when("alignment", 30) else 1
            pin = alignment * self.below(8) if self.when("pins", 10) else None
            pool = "fast" if self.when("pools", 30) else ""
            if (alignment, pin, pool) != (1, None, ""):
                buffer = replace(buffer, alignment=alignment, pin=pin, pool=pool)
        b = len(self.buffers)
        self.buffers.append(buffer)
        # A view of overwritten bytes is stale with its base.
        fresh = buffer.alias_of is None or buffer.mutates
        self.version.append(b if fresh else self.version[buffer.alias_of or 0])
        return b

    def add_input(self) -> None:
        policy = InputPolicy.KEPT if self.chance(30) else InputPolicy.FREED
        if self.when("external", 20):
            policy = InputPolicy.EXCLUDED
        buffer = Buffer(f"in{len(self.buffers)}", self.size(), input=policy)
        self.readable.append(self.add(buffer))

    def add_op(self) -> None:
        v = len(self.ops)
        wanted = self.below(self.max_reads + 1) if self.readable else 0
        named = list(dict.fromkeys(self.recent() for _ in range(wanted)))
        uses = [named.pop()] if named and self.when("uses", 15) else []
        made: list[int] = []
        stale = -1
        if named and self.when("mutation", 15):
            # These bytes are overwritten now, so later ops must not read them by this name.
            stale = self.version[named[0]]
            made.append(self.add(Buffer(f"mut{v}", 0, alias_of=named[0], mutates=True)))
        if named and self.when("views", 20):
            made.append(self.add(Buffer(f"view{v}", 0, alias_of=named[-1])))
        outputs = self.below(4) if self.when("multi", 30) else 1
        made += [self.add_output(v, i, named) for i in range(0 if made else outputs)]
        fresh = [b for b in made if self.version[b] != stale]
        scratch = self.add(Buffer(f"tmp{v}", self.size())) if self.when("workspace", 20) else None
        self.ops.append(
            Op(
                name=f"op{v}",
                reads=tuple(named * 2 if self.chance(5) else named),
                uses=tuple(uses),
                writes=tuple(made if scratch is None else [*made, scratch]),
                control=(self.below(v),) if v and self.when("control", 15) else (),
                # A read that occurs twice must count once.
                workspace=scratch,
                kind=("", "add", "matmul")[self.below(3)],
            )
        )
        self.readable += fresh
        if stale >= 0:
            self.readable = [b for b in self.readable if self.version[b] != stale]

    def add_output(self, v: int, number: int, reads: list[int]) -> int:
        buffer = Buffer(f"out{v}_{number}", self.size())
        if v and self.when("births", 15):
            buffer = replace(buffer, birth=self.below(v))
        source = reads[self.below(len(reads))] if reads and self.when("inplace", 25) else None
        if source is not None:
            root = source
            while (parent := self.buffers[root].alias_of) is not None:
                root = parent
            # In place only with equal sizes, so that candidates are often admissible.
            buffer = replace(buffer, size=self.buffers[root].size, birth=None)
            self.inplace.append((v, len(self.buffers), source))
        return self.add(buffer)

    def mark_outputs(self) -> None:
        """Let most buffers that nobody reads, and a few others, be graph outputs."""
        read = {b for op in self.ops for b in (*op.reads, *op.uses)}
        for b in self.readable:
            buffer = self.buffers[b]
            # Most buffers without readers become outputs, or they would die at once.
            if not self.chance(10 if b in read or buffer.input else 80):
                continue
            own = buffer.alias_of is None and self.when("external", 15)
            policy = OutputPolicy.OWN if own else OutputPolicy.LIVE
            self.buffers[b] = replace(buffer, output=policy)
