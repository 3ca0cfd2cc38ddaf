"""A name for a graph that survives other names and another order of its ops and buffers.

Every op and every buffer gets a colour, a number of 64 bits, of its own properties and of all that
comes before it; then of all that comes after; then both once more. The sorted colours are the
graph's key. Ops of equal colour are numbered by the numbers of their predecessors, so that equal
branches stay apart. Two graphs of one key could differ in spite of this: what a key finds has
to be checked.

References
----------
Weisfeiler, Leman, "The reduction of a graph to canonical form and the algebra which appears
therein" (1968); on an acyclic graph two sweeps see what takes that method many rounds.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optsched.model.elements import Buffer, InputPolicy, OutputPolicy
from optsched.model.graph import Graph

_MASK = (1 << 64) - 1
_READS, _USES, _WRITES, _WORKSPACE, _CONTROL, _ALIAS, _BIRTH, _OUTPUT, _SOURCE = range(1, 10)
_INPUTS: dict[InputPolicy | None, int] = {None: 0, **{p: i for i, p in enumerate(InputPolicy, 1)}}
_OUTPUTS: dict[OutputPolicy | None, int] = {
    None: 0,
    **{p: i for i, p in enumerate(OutputPolicy, 1)},
}


@dataclass(frozen=True, slots=True)
class CanonicalGraph:
    """What stays of a graph when names and positions go.

    Parameters
    ----------
    key
        Equal for graphs that differ in nothing else.
    ops, buffers
        Ids in canonical order: the first op of one such graph is the first of all.
    """

    key: str
    ops: tuple[int, ...]
    buffers: tuple[int, ...]


def canonical_form(graph: Graph) -> CanonicalGraph:
    """Return key and canonical order; takes time in proportion to the graph's edges."""
    colours = _Colours(graph)
    for _ in range(2):
        colours.sweep_down()
        colours.sweep_up()
        colours.add_inplace()
    ops = _number_ops(graph, colours.ops)
    position = {v: i for i, v in enumerate(ops)}
    buffers = _number_buffers(graph, colours, position)
    digest = hashlib.sha256(b"optsched graph 1")
    for found in (colours.ops, colours.buffers):
        digest.update(len(found).to_bytes(8))
        digest.update(b"".join(colour.to_bytes(8) for colour in sorted(found)))
    return CanonicalGraph(digest.hexdigest(), tuple(ops), tuple(buffers))


def _mix(colour: int, role: int) -> int:
    """Scramble a number, otherwise for each role; the finalizer of SplitMix64."""
    colour = (colour + role * 0x9E3779B97F4A7C15) & _MASK
    colour = ((colour ^ (colour >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    colour = ((colour ^ (colour >> 27)) * 0x94D049BB133111EB) & _MASK
    return colour ^ (colour >> 31)


def _sum(colours: Iterable[int], role: int) -> int:
    """Return a number of a multiset of colours."""
    return sum(_mix(colour, role) for colour in colours)


class _Colours:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops = [0] * len(graph.ops)
        self.buffers = [_colour_of(buffer) for buffer in graph.buffers]
        self.order = _topological(graph.predecessors)
        self.readers: list[list[tuple[int, int]]] = [[] for _ in graph.buffers]
        self.after: list[list[int]] = [[] for _ in graph.ops]
        for v, op in enumerate(graph.ops):
            for role, found in ((_READS, op.reads), (_USES, op.uses)):
                for b in found:
                    self.readers[b].append((v, role))
            for u in op.control:
                self.after[u].append(v)

    def sweep_down(self) -> None:
        """Colour every op by what it reads, and every buffer by what makes it."""
        old, ops, buffers = list(self.buffers), self.ops, self.buffers
        relations = [self._relations(b) for b in range(len(buffers))]
        for v in self.order:
            op = self.graph.ops[v]
            seen = _sum((buffers[b] for b in op.reads), _READS)
            seen += _sum((buffers[b] for b in op.uses), _USES)
            seen += _sum((old[b] for b in op.writes), _WRITES)
            seen += _sum((ops[u] for u in op.control), _CONTROL)
            ops[v] = _mix(ops[v] + seen, _WRITES)
            for b in op.writes:
                role = _WORKSPACE if b == op.workspace else _WRITES
                buffers[b] = _mix(buffers[b] + _mix(ops[v], role) + relations[b], role)

    def _relations(self, b: int) -> int:
        """Colour what a buffer names: the buffer it is a view of, the op that allocates it."""
        buffer, found = self.graph.buffers[b], 0
        if buffer.alias_of is not None:
            found += _mix(self.buffers[buffer.alias_of], _ALIAS)
        if buffer.birth is not None:
            found += _mix(self.ops[buffer.birth], _BIRTH)
        return found

    def sweep_up(self) -> None:
        """Colour every buffer by its readers, and every op by what it writes."""
        ops, buffers = self.ops, self.buffers
        for v in reversed(self.order):
            for b in self.graph.ops[v].writes:
                self._colour_by_readers(b)
            seen = _sum((buffers[b] for b in self.graph.ops[v].writes), _WRITES)
            seen += _sum((ops[w] for w in self.after[v]), _CONTROL)
            ops[v] = _mix(ops[v] + seen, _READS)
        for b, producer in enumerate(self.graph.producers):
            if producer is None:
                self._colour_by_readers(b)

    def _colour_by_readers(self, b: int) -> None:
        seen = sum(_mix(self.ops[v], role) for v, role in self.readers[b])
        self.buffers[b] = _mix(self.buffers[b] + seen, _READS)

    def add_inplace(self) -> None:
        """Let the in-place candidates of an op and of its buffers count."""
        graph = self.graph
        old = list(self.buffers)
        for role, pairs in ((_OUTPUT, graph.inplace_candidates), (_SOURCE, graph.inplace)):
            for v, output, source in pairs:
                colour = _mix(_mix(old[output], role) + 3 * _mix(old[source], role), role)
                self.ops[v] = (self.ops[v] + colour) & _MASK
                self.buffers[output] = (self.buffers[output] + _mix(colour, _OUTPUT)) & _MASK
                self.buffers[source] = (self.buffers[source] + _mix(colour, _SOURCE)) & _MASK


def _colour_of(buffer: Buffer) -> int:
    """Colour what a buffer is by itself."""
    pool = hashlib.sha256(buffer.pool.encode()).digest()[:8]
    properties = (
        buffer.size,
        _INPUTS[buffer.input],
        _OUTPUTS[buffer.output],
        buffer.alignment,
        int.from_bytes(pool),
        -1 if buffer.pin is None else buffer.pin,
        int(buffer.mutates),
    )
    colour = 0
    for number in properties:
        colour = _mix(colour + number + 1, _ALIAS)
    return colour


def _topological(predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Return ids, each after its predecessors."""
    left = [len(before) for before in predecessors]
    after: list[list[int]] = [[] for _ in predecessors]
    for v, before in enumerate(predecessors):
        for u in before:
            after[u].append(v)
    order = [v for v, count in enumerate(left) if not count]
    for u in order:
        for v in after[u]:
            left[v] -= 1
            if not left[v]:
                order.append(v)
    return order


def _number_ops(graph: Graph, colours: Sequence[int]) -> list[int]:
    """Order ops by colour and, among equals, by the numbers of their predecessors."""
    after: list[list[int]] = [[] for _ in graph.ops]
    left = [len(before) for before in graph.predecessors]
    for v, before in enumerate(graph.predecessors):
        for u in before:
            after[u].append(v)
    ready = [(colours[v], (), v) for v, count in enumerate(left) if not count]
    heapq.heapify(ready)
    number: dict[int, int] = {}
    while ready:
        v = heapq.heappop(ready)[-1]
        number[v] = len(number)
        for w in after[v]:
            left[w] -= 1
            if not left[w]:
                known = tuple(sorted(number[u] for u in graph.predecessors[w]))
                heapq.heappush(ready, (colours[w], known, w))  # type: ignore[misc]
    return list(number)


def _number_buffers(graph: Graph, colours: _Colours, position: dict[int, int]) -> list[int]:
    """Order buffers by the numbers of their makers and readers and, among equals, by colour."""

    def place(b: int) -> tuple[int, int, list[int], int]:
        maker = graph.producers[b]
        readers = sorted(position[v] for v, _ in colours.readers[b])
        return (-1 if maker is None else position[maker], colours.buffers[b], readers, b)

    return sorted(range(len(graph.buffers)), key=place)
