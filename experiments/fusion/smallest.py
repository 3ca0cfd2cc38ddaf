"""The smallest graphs in which fusing two ops raises, or lowers, the least peak: all are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from experiments.fusion.fuse import can_share, fuse
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from tests.support.brute import least_peak

Admits = Callable[[Graph, int, int], bool]
"""Return True if a pair of ops is among those that are fused."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which graphs and pairs are tried.

    Parameters
    ----------
    text
        In words.
    raises
        True to look for a rise of the minimum peak, False for a fall.
    largest
        Most bytes of a buffer.
    admits
        Which pairs may be fused.
    """

    text: str
    raises: bool
    largest: int
    admits: Admits


@dataclass(frozen=True, slots=True)
class Found:
    """A graph, the pair, the least peak before and after, and the number of graphs tried.

    `fewer` counts the fusions in all graphs of fewer ops, where no fusion does it.
    """

    graph: Graph
    pair: tuple[int, int]
    before: int
    after: int
    tried: int
    fewer: int


def feeds(graph: Graph, u: int, v: int) -> bool:
    """Return True if `v` reads the result of `u`."""
    return bool(set(graph.ops[u].writes) & set(graph.ops[v].reads))


def reads_alike(graph: Graph, u: int, v: int) -> bool:
    """Return True if both read the same buffer and neither feeds the other."""
    return can_share(graph, u, v) and not feeds(graph, u, v)


def adds_reads(graph: Graph, u: int, v: int) -> bool:
    """Return True if `v` alone reads the result of `u`, and both read further buffers."""
    readers = [op for op in graph.ops if set(op.reads) & set(graph.ops[u].writes)]
    more = set(graph.ops[v].reads) - set(graph.ops[u].reads) - set(graph.ops[u].writes)
    return feeds(graph, u, v) and len(readers) == 1 and bool(graph.ops[u].reads) and bool(more)


QUESTIONS: tuple[Question, ...] = (
    Question("lowers: any pair", False, 3, lambda graph, u, v: True),
    Question("raises: any pair", True, 3, lambda graph, u, v: True),
    Question("raises: pair shares a buffer", True, 3, can_share),
    Question("raises: both read a buffer, none feeds the other", True, 2, reads_alike),
    Question("raises: reads accumulate, all buffers of one size", True, 1, adds_reads),
    Question("lowers: all buffers of one size, reads accumulate", False, 1, adds_reads),
)
"""Questions of the study."""


def smallest(question: Question, most_ops: int) -> Found | None:
    """Return the first graph that answers: few ops first, then few edges, then few bytes.

    Every op writes one buffer; what nobody reads is an output. Each least peak is that of a
    sweep over all sets of ops closed under predecessors, without bound, rule or solver.
    """
    tried = fewer = 0
    for ops in range(2, most_ops + 1):
        fewer = tried
        for graph in all_graphs(ops, question.largest):
            before: int | None = None
            for u, v, fused in _fusions(graph, question.admits):
                tried += 1
                before = least_peak(graph) if before is None else before
                after = least_peak(fused)
                if (after > before) if question.raises else (after < before):
                    return Found(graph, (u, v), before, after, tried, fewer)
    return None


def all_graphs(ops: int, largest: int) -> Iterator[Graph]:
    """Yield each graph of a number of ops, up to names: few edges first, then few bytes.

    An op may read what any op before it writes, and writes one buffer of 1 to `largest` bytes.
    """
    pairs = list(combinations(range(ops), 2))
    sizes = sorted(product(range(1, largest + 1), repeat=ops), key=sum)
    for count in range(len(pairs) + 1):
        for edges in combinations(pairs, count):
            for size in sizes:
                yield _make(size, edges)


def _make(sizes: Sequence[int], edges: Sequence[tuple[int, int]]) -> Graph:
    names = "abcdefgh"[: len(sizes)]
    build = GraphBuilder("candidate")
    for v, name in enumerate(names):
        build.op(name, reads=[names[u] for u, w in edges if w == v], writes={name: sizes[v]})
    build.output(*(name for v, name in enumerate(names) if all(u != v for u, _ in edges)))
    return build.build()


def never_lowers_without_elision(most_ops: int, largest: int) -> tuple[int, int]:
    """Count fusions that keep every buffer, and those among them that lower the least peak: 0."""
    tried = lowered = 0
    for ops in range(2, most_ops + 1):
        for graph in all_graphs(ops, largest):
            before = least_peak(graph)
            for _, _, fused in _fusions(graph, lambda graph, u, v: True):
                if len(fused.buffers) == len(graph.buffers):
                    tried += 1
                    lowered += least_peak(fused) < before
    return tried, lowered


def _fusions(graph: Graph, admits: Admits) -> Iterator[tuple[int, int, Graph]]:
    for v in range(len(graph.ops)):
        for u in range(v):
            fused = fuse(graph, u, v) if admits(graph, u, v) else None
            if fused is not None:
                yield u, v, fused
