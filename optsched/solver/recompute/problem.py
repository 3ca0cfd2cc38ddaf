"""A training graph as the recompute planner sees it: nodes that compute, and storages.

Views are made again before each read, so they are left out; if a view has a cost, it counts in
plans, not in bounds. A *node* is any other op; a *storage* is a buffer that counts, with the node
that makes it and the nodes that read it directly or through views.

Example: `a` makes 8 bytes, `t` views them transposed, `b` reads the view and makes 4 bytes. The
nodes are `a` and `b`; the storage of 8 bytes is made by `a` and read by `b`. If `a` runs again,
:meth:`RecomputeProblem.sequence` puts `t` again before the next `b`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from optsched.errors import UsageError
from optsched.model.dependencies import followers, reached, topological_order
from optsched.model.graph import Graph
from optsched.model.runs import runs_once
from optsched.model.training import find_loss, forward_ops, with_barrier
from optsched.runtime.collector import paused_collector
from optsched.solver.recompute.bound import MOST_COST


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes that a node makes, or a counted input."""

    buffer: int
    """Its root in the graph."""
    size: int
    """Bytes."""
    maker: int
    """Node that makes it; -1 for an input."""
    readers: tuple[int, ...]
    """Nodes that read it, ascending."""
    kept: bool
    """True if its first copy stays live to the end."""


@dataclass(frozen=True, slots=True)
class RecomputeProblem:
    """Nodes in topological order, storages, and the nodes that may run again."""

    graph: Graph
    """The graph, with a barrier between loss and tangents."""
    loss: tuple[int, ...]
    """Ops that make the forward outputs."""
    ops: tuple[int, ...]
    """Op of each node."""
    preds: tuple[tuple[int, ...], ...]
    """Nodes directly before each node."""
    storages: tuple[Storage, ...]
    reads: tuple[tuple[int, ...], ...]
    makes: tuple[tuple[int, ...], ...]
    """`storages`, `reads` and `makes`: storages; the storages that each node reads and makes."""
    cost: tuple[int, ...]
    """Cost of one more run, by node."""
    again: tuple[int, ...]
    """Nodes that may run again, ascending."""
    forward: frozenset[int]
    """Nodes of the forward part."""
    views: dict[int, int]
    """By op: the root storage's maker of a view that was left out, as an op (-1 for an input)."""
    late: frozenset[int]
    """Views that are not forward ops: they run once, directly before their first reader."""
    fixed: int
    """Bytes live throughout."""
    once: dict[int, str]
    """By op: the reason why it must not run again."""
    _before: dict[int, bytearray] = field(default_factory=dict, repr=False, compare=False)
    _after: dict[int, bytearray] = field(default_factory=dict, repr=False, compare=False)
    _followers: list[list[int]] = field(default_factory=list, repr=False, compare=False)

    def ancestors(self, node: int) -> bytearray:
        """Return by node 1 for those that a node needs, directly or not, else 0."""
        # A table of all pairs takes a gigabyte for 100,000 nodes, and few nodes are asked for.
        if node not in self._before:
            self._before[node] = reached(self.preds, [node])
        return self._before[node]

    def descendants(self, node: int) -> bytearray:
        """Return by node 1 for those that need a node, directly or not, else 0."""
        if not self._after:
            self._followers.extend(followers(self.preds))
        if node not in self._after:
            self._after[node] = reached(self._followers, [node])
        return self._after[node]

    def is_above(self, u: int, w: int) -> bool:
        """Return True if node w needs node u, directly or not."""
        known = self._after.get(u)
        return bool(self.ancestors(w)[u] if known is None else known[w])

    @property
    def total(self) -> int:
        """Cost of one run of every op, views included."""
        return sum(op.cost for op in self.graph.ops)

    def name(self, node: int) -> str:
        """Return the name of a node's op."""
        return self.graph.ops[self.ops[node]].name

    def own_bytes(self, node: int) -> int:
        """Return the bytes that are live while a node runs in every schedule."""
        used = {*self.reads[node], *self.makes[node]}
        return self.fixed + sum(self.storages[s].size for s in used)

    def made_bytes(self, node: int) -> int:
        """Return the bytes that one run of a node makes."""
        return sum([self.storages[s].size for s in self.makes[node]])

    def makers_read(self) -> list[set[int]]:
        """Return by node the nodes whose storages it reads."""
        return [{self.storages[s].maker for s in row} - {-1} for row in self.reads]

    def twins(self, node: int) -> list[int]:
        """Return the nodes that the graph does not order with a node and that need equal bytes."""
        # Equal bytes and costs make two parallel nodes alike for the rows, not necessarily in the
        # graph.
        need = (self.own_bytes(node), self.cost[node])
        before, after = self.ancestors(node), self.descendants(node)
        return [
            w
            for w in range(len(self.ops))
            if not (before[w] or after[w] or w == node)
            and (self.own_bytes(w), self.cost[w]) == need
        ]

    def sequence(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return the sequence of ops of a sequence of nodes: views are put before their readers."""
        return tuple(self._written(nodes).found)

    def keeps_old(self, nodes: Sequence[int]) -> bool:
        """Return True if a node reads an older copy of a storage, through a view that runs once.

        Such a sequence may need more bytes than its nodes and storages alone tell.
        """
        repeats = len(nodes) > len(self.ops)
        return repeats and bool(self.late) and self._written(nodes).keeps_old

    def _written(self, nodes: Sequence[int]) -> _ViewWriter:
        writer = _ViewWriter(self)
        for node in nodes:
            writer.run(self.ops[node])
        return writer


@dataclass
class _ViewWriter:
    """Sequence of ops while nodes go by; a view is stale if its storage was made again."""

    problem: RecomputeProblem
    keeps_old: bool = False

    def __post_init__(self) -> None:
        self.found: list[int] = []
        self.last: dict[int, int] = {}
        self.waiting: dict[int, list[int]] = {}
        needed = {u for row in self.problem.graph.predecessors for u in row}
        for view, maker in self.problem.views.items():
            # A late view that nothing waits for would keep its storage live if it ran later.
            if view not in self.problem.late or maker < 0 or view not in needed:
                self.waiting.setdefault(maker, []).append(view)
        # Views of inputs can be made at the very start.
        self._first_views(-1)

    def run(self, v: int) -> None:
        self._make_views_before(v)
        is_first = v not in self.last
        self._add(v)
        if is_first:
            self._first_views(v)

    def _add(self, v: int) -> None:
        self.last[v] = len(self.found)
        self.found.append(v)

    def _first_views(self, maker: int) -> None:
        """Run views of a storage once, directly after it is made."""
        for view in self.waiting.get(maker, ()):
            self._make_views_before(view)
            self._add(view)

    def _make_views_before(self, v: int) -> None:
        """Run the stale views that an op reads, each after the view that it is taken of."""
        for u in self.problem.graph.predecessors[v]:
            if u not in self.problem.views or self._is_fresh(u):
                continue
            # A view that runs once keeps showing its old copy.
            if u in self.problem.late and u in self.last:
                self.keeps_old = True
            else:
                self._make_views_before(u)
                self._add(u)

    def _is_fresh(self, view: int) -> bool:
        made = self.last.get(self.problem.views[view], -1)
        return self.last.get(view, -2) >= made


@paused_collector()
def make_problem(graph: Graph, loss: Sequence[str] = ()) -> RecomputeProblem:
    """Return the recompute problem of a training graph.

    Raise `UsageError` if the graph has no loss, ops on several streams, ops that write in place,
    costs that add up to 2**62 or more, or sizes that add up to more than 2**56.

    `graph`: graph with costs, on one stream, whose ops do not write in place. `loss`: names of the
    ops that make the loss; found by the inputs named `tangents` by default.
    """
    graph.refuse_streams("recompute")
    graph.refuse_inplace("recompute")
    _refuse_large(graph)
    ends = find_loss(graph, loss)
    graph = with_barrier(graph, ends)
    # Before recompute the graph has an order of its own; numbers of nodes follow a topological
    # one.
    order = topological_order(graph.predecessors)
    once, views = runs_once(graph), dict[int, int]()
    before: dict[int, set[int]] = {}
    for v in order:
        direct = graph.predecessors[v]
        before[v] = {*direct}
        if not views.keys().isdisjoint(direct):
            before[v] = set[int]().union(*(_through(u, views, before) for u in direct))
        if v not in once and (maker := _viewed(graph, v, before[v])) is not None:
            views[v] = maker
    ops = tuple(v for v in order if v not in views)
    node = {v: i for i, v in enumerate(ops)}
    preds = tuple([tuple(sorted([node[u] for u in before[v]])) for v in ops])
    storages, fixed = _find_storages(graph, node, views)
    reads: list[list[int]] = [[] for _ in ops]
    makes: list[list[int]] = [[] for _ in ops]
    for s, storage in enumerate(storages):
        for reader in storage.readers:
            reads[reader].append(s)
        if storage.maker >= 0:
            makes[storage.maker].append(s)
    inside = forward_ops(graph, ends)
    return RecomputeProblem(
        graph=graph,
        loss=ends,
        ops=ops,
        preds=preds,
        storages=storages,
        reads=tuple(map(tuple, reads)),
        makes=tuple(map(tuple, makes)),
        cost=tuple(graph.ops[v].cost for v in ops),
        again=tuple(i for i, v in enumerate(ops) if v in inside and v not in once),
        forward=frozenset(node[v] for v in inside if v in node),
        views=views,
        late=frozenset(views) - inside,
        fixed=fixed,
        once=once,
    )


MOST_BYTES = 2**56
"""Maximum total size: a graph has bytes for every copy, and 64 of each must stay below its limit.
"""


def _refuse_large(graph: Graph) -> None:
    """Raise an error if costs or copies of buffers could exceed what numbers stand for."""
    total = sum(buffer.size for buffer in graph.buffers)
    if total > MOST_BYTES:
        raise UsageError(
            f"{graph.name}: sizes add up to {total} bytes; recompute, which plans copies of "
            "buffers, allows at most 2**56"
        )
    total = 0
    for op in graph.ops:
        total += op.cost
        if total >= MOST_COST:
            raise UsageError(
                f"op {op.name!r}: costs up to this op add up to {total}, and recompute allows less "
                f"than 2**62: give them in a larger unit than {graph.cost_unit or 'this'!r}"
            )


def _through(u: int, views: dict[int, int], before: dict[int, set[int]]) -> Iterable[int]:
    return before[u] if u in views else (u,)


def _viewed(graph: Graph, v: int, before: set[int]) -> int | None:
    """Return the maker of the storage that an op only views (-1 for an input), else None."""
    op = graph.ops[v]
    aliases = [graph.buffers[b].alias_of for b in op.writes]
    # A view that makes bytes of its own is a node like any other.
    if not op.writes or None in aliases:
        return None
    roots = {graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)}
    if len(roots) != 1:
        return None
    maker = graph.producers[roots.pop()]
    if maker is None:
        return None if before else -1
    return maker if before <= {maker} else None


def _find_storages(
    graph: Graph, node: dict[int, int], views: dict[int, int]
) -> tuple[tuple[Storage, ...], int]:
    """Return storages, and the bytes of inputs that are live throughout."""
    roots, producers = graph.roots, graph.producers
    readers: dict[int, set[int]] = {}
    for v, op in enumerate(graph.ops):
        used = {roots[b] for b in (*op.reads, *op.uses, *op.writes)}
        if v in views:
            continue
        for b in used:
            if producers[b] != v:
                readers.setdefault(b, set()).add(node[v])
    found, fixed = [], 0
    for b, buffer in enumerate(graph.buffers):
        if roots[b] != b or buffer.size == 0 or b in graph.outside:
            continue
        maker, rows = producers[b], readers.get(b, set())
        # Inputs that stay to the end are live in every schedule and at every step.
        if maker is None and graph.kept[b]:
            fixed += buffer.size
        elif maker is not None or rows:
            at = -1 if maker is None else node[maker]
            # Allocated at another op before its maker: live from there on, like a buffer made
            # there and read by its maker.
            if buffer.birth is not None:
                rows, at = rows | {at}, node[buffer.birth]
            others = rows - {at} if at in rows else rows
            found.append(Storage(b, buffer.size, at, tuple(sorted(others)), graph.kept[b]))
    return tuple(found), fixed
