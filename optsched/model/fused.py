"""Graphs whose ops are parts of fused nodes, and what fusing them does.

A compiler fuses ops into one kernel. A :class:`FusedGraph` has the ops as they were before, the
*parts*, and the *fused nodes* that the compiler made of them. A fused node may be cut into groups
of its parts, each a kernel of its own. A *local* buffer takes no bytes while all of its users are
in one group: its values stay in the kernel.

Example: `exp` writes `t`, and `sum` reads it; both are parts of one fused node, and `t` is local.
Fused, the kernel needs no bytes for `t`. Cut into two kernels, `t` is an ordinary buffer.

:mod:`optsched.model.fusion` makes an ordinary graph of a fused graph and a choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from optsched.errors import GraphError
from optsched.model.dependencies import find_cycle
from optsched.model.graph import Graph
from optsched.runtime.keywords import keywords

Group = tuple[int, ...]
"""Ids of parts that run as one kernel."""

Split = tuple[Group, ...]
"""Groups that hold each part once."""

Triple = tuple[int, int, int]
"""A part, a buffer that it writes, and a buffer that it may overwrite."""

Bytes = tuple[tuple[str, int], ...]
"""Names of tensors, each with the bytes of it that a kernel reads or writes."""


@keywords
@dataclass(frozen=True)
class FusedGraph:
    """Parts, the fused nodes made of them, and the buffers that fusion keeps in a kernel.

    Raise `GraphError` if a node has fewer than two parts, parts are in two nodes, nodes wait for
    each other in a cycle, a local buffer is used outside of its node, or a pair cannot share bytes.

    Examples
    --------
    >>> from optsched.model.builder import GraphBuilder
    >>> build = GraphBuilder("softmax")
    >>> build.op("exp", writes={"t": 8})
    >>> build.op("sum", reads=["t"], writes={"y": 2})
    >>> build.output("y")
    >>> fused = FusedGraph(graph=build.build(), nodes=((0, 1),), local=frozenset({0}))
    >>> fused.node_of[1], fused.users[0]
    (0, frozenset({0, 1}))
    """

    graph: Graph
    """One op per part, each buffer with its bytes, as if nothing were fused."""
    nodes: tuple[Group, ...]
    """The parts of each fused node; parts in no node are kernels of their own and stay whole."""
    local: frozenset[int]
    """Buffers that take no bytes if the part that writes them and all that read them are in one
    group."""
    blockers: tuple[tuple[Triple, frozenset[int]], ...] = ()
    """By in-place candidate, parts that rule the candidate out if they are in the group of its op,
    for example because they read the buffer by another index."""
    absorbed: tuple[tuple[int, int], ...] = ()
    """Pairs of a buffer and one of equal size that its part may overwrite, neither of them local:
    if all users of the second are in the group, the first takes its bytes inside the kernel. A
    buffer is in at most one pair as the first and in one as the second."""
    reads: tuple[Bytes, ...] = ()
    writes: tuple[Bytes, ...] = ()
    """`reads` and `writes`: by part, the bytes that its kernel reads and writes of each tensor, by
    name; empty if that is not known."""
    whole: tuple[tuple[str, str], ...] = ()
    """Name of each fused node that is left whole, with the reason."""

    def __post_init__(self) -> None:
        self._check_graph()
        self._check_nodes()
        self._check_local()
        for rows in (self.reads, self.writes):
            if rows and len(rows) != len(self.graph.ops):
                raise GraphError(f"{self.graph.name}: expected the bytes of each part")
        for (v, output, source), row in self.blockers:
            if (v, output, source) not in self.graph.inplace_candidates:
                raise GraphError("blockers name a pair that is not an in-place candidate")
            if v in row or not all(0 <= u < len(self.graph.ops) for u in row):
                name = self.graph.ops[v].name
                raise GraphError(f"blockers of op {name!r} name it or an unknown part")

    @cached_property
    def node_of(self) -> dict[int, int]:
        """Fused node of each part; parts outside of all nodes are left out."""
        return {v: k for k, node in enumerate(self.nodes) for v in node}

    @cached_property
    def users(self) -> tuple[frozenset[int], ...]:
        """Parts that write or read each buffer."""
        found: list[set[int]] = [set() for _ in self.graph.buffers]
        for v, op in enumerate(self.graph.ops):
            for b in (*op.reads, *op.writes):
                found[b].add(v)
        return tuple(map(frozenset, found))

    @cached_property
    def blocked(self) -> dict[Triple, frozenset[int]]:
        """Blockers by in-place candidate."""
        return dict(self.blockers)

    def _check_graph(self) -> None:
        graph = self.graph
        graph.refuse_streams("fused nodes")
        if graph.keep_apart or graph.must_share:
            raise GraphError(f"{graph.name}: parts cannot have keep-apart pairs or groups")
        for buffer in graph.buffers:
            if buffer.alias_of is not None or buffer.birth is not None:
                raise GraphError(f"buffer {buffer.name!r} of a part is a view or has a birth")
        for op in graph.ops:
            if op.uses:
                raise GraphError(f"op {op.name!r} is a part and cannot have 'uses'")

    def _check_nodes(self) -> None:
        graph, count = self.graph, len(self.graph.ops)
        listed = [v for node in self.nodes for v in node]
        if len(set(listed)) != len(listed) or not all(0 <= v < count for v in listed):
            raise GraphError(f"{graph.name}: fused nodes list a part twice, or an unknown part")
        for node in self.nodes:
            if len(node) < 2:
                raise GraphError(f"{graph.name}: a fused node needs at least two parts")
            for v in node:
                if graph.ops[v].workspace is not None:
                    raise GraphError(f"part {graph.ops[v].name!r} of a fused node has a workspace")
        place = {v: count + k for v, k in self.node_of.items()}
        before: list[set[int]] = [set() for _ in range(count + len(self.nodes))]
        for v in range(count):
            at = place.get(v, v)
            before[at] |= {place.get(u, u) for u in graph.predecessors[v]} - {at}
        if cycle := find_cycle(before):
            names = " -> ".join(self._name(at) for at in cycle)
            raise GraphError(f"{graph.name}: fused nodes wait for each other: {names}")

    def _name(self, at: int) -> str:
        count = len(self.graph.ops)
        v = at if at < count else self.nodes[at - count][0]
        return repr(self.graph.ops[v].name)

    def _check_local(self) -> None:
        graph = self.graph
        for b in self.local:
            buffer = graph.buffers[b]
            if buffer.external or buffer.input is not None or buffer.output is not None:
                raise GraphError(f"buffer {buffer.name!r} is local, but an input or output")
            if not self._inside(b):
                raise GraphError(f"local buffer {buffer.name!r} is used outside of its fused node")
        for output, source in self.absorbed:
            self._check_absorbed(output, source)
        for row in zip(*self.absorbed, strict=True):
            if len(set(row)) < len(row):
                raise GraphError(f"{graph.name}: a buffer is absorbed twice, or absorbs two")

    def _inside(self, b: int) -> bool:
        nodes = {self.node_of.get(v, -1) for v in self.users[b]}
        return len(nodes) == 1 and -1 not in nodes

    def _check_absorbed(self, output: int, source: int) -> None:
        graph = self.graph
        one, other = graph.buffers[output], graph.buffers[source]
        maker = graph.producers[output]
        known = maker is not None and (maker, output, source) in graph.inplace_candidates
        if not known or not self._inside(source) or {output, source} & self.local:
            raise GraphError(f"buffer {one.name!r} cannot absorb {other.name!r}")
        if one.size != other.size or other.output is not None or other.input is not None:
            raise GraphError(f"buffer {one.name!r} cannot take the bytes of {other.name!r}")
