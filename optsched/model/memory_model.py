"""Options of how bytes are counted, as an argument: never a field of a graph, never text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path
from typing import SupportsIndex

import numpy as np

from optsched.errors import UsageError
from optsched.model.elements import MAX_TOTAL_BYTES, Buffer, InputPolicy
from optsched.model.graph import Graph
from optsched.model.order_rules import NO_RULES, OrderRules
from optsched.model.packing_problem import PackingProblem
from optsched.model.regions import ConstantsRegion, with_constants, with_workspace_apart
from optsched.model.streams import in_levels
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.keywords import keywords


@keywords
@dataclass(frozen=True, slots=True)
class MemoryModel:
    """By which rules a graph is planned, beyond what its file says.

    Parameters
    ----------
    inplace
        Whether ops may write outputs into inputs that die with them, where the graph names such
        candidates (:mod:`optsched.model.inplace`).
    align
        Bytes, a power of two, to whose multiples sizes are rounded up and offsets are placed, as
        allocators do; None leaves both as the graph has them.

    workspace_apart
        Whether workspace lies in a region of its own, beside the slab, instead of in the slab
        while its op runs (:func:`optsched.model.regions.with_workspace_apart`).
    constants
        Where constants lie (:class:`optsched.model.regions.ConstantsRegion`).
    streams
        Ops that run side by side: they go into levels of at most so many
        (:func:`optsched.model.streams.in_levels`). A graph that has streams may have no more. None
        leaves the graph as it is.

    Raises
    ------
    UsageError
        If `align` is no power of two, or `streams` is below 1.
    """

    inplace: bool = False
    align: int | None = None
    workspace_apart: bool = False
    constants: ConstantsRegion = ConstantsRegion.OUTSIDE
    streams: int | None = None

    def __post_init__(self) -> None:
        if self.align is not None:
            parse_alignment(self.align)
        if self.streams is not None and self.streams < 1:
            raise UsageError(f"ops run on at least 1 stream, got {self.streams}")

    def apply(self, graph: Graph) -> Graph:
        """Return the graph under these rules, in which all that is counted is plain data."""
        if self.align is not None:
            graph = _aligned(graph, self.align)
        if self.streams is not None:
            graph = _on_streams(graph, self.streams)
        if self.workspace_apart:
            graph.refuse_streams("workspace apart, which ops share by turns,")
            graph = _said(with_workspace_apart(graph), "workspace apart")
        if self.constants is not ConstantsRegion.OUTSIDE:
            graph = _said(with_constants(graph, self.constants), f"constants {self.constants}")
        return _with_inplace(graph) if self.inplace else graph.without_inplace()


def parse_alignment(value: str | SupportsIndex) -> int:
    """Return an alignment in bytes, given as :func:`optsched.runtime.bytes.parse_bytes` has it.

    Raises
    ------
    UsageError
        If it is no power of two, or above 2**62.
    """
    count = parse_bytes(value)
    if count.bit_count() != 1:
        raise UsageError(f"an alignment is a power of two, got {value}")
    if count > MAX_TOTAL_BYTES:
        raise UsageError(f"an alignment is at most 2**62 bytes, got {value}")
    return count


def _aligned(graph: Graph, align: int) -> Graph:
    buffers = tuple(
        replace(b, size=-(-b.size // align) * align, alignment=lcm(b.alignment, align))
        if _is_placed(b)
        else b
        for b in graph.buffers
    )
    return _said(replace(graph, buffers=buffers), f"sizes and offsets multiples of {align}")


def _said(graph: Graph, rule: str) -> Graph:
    """Return the graph whose memory model says the rule."""
    return replace(graph, memory_model=f"{graph.memory_model}; {rule}")


def _on_streams(graph: Graph, most: int) -> Graph:
    """Return the graph on at most so many streams, in levels if it is on one."""
    if not graph.on_streams:
        return _said(in_levels(graph, most=most), f"levels of at most {most} ops")
    if len(graph.streams) > most:
        count = len(graph.streams)
        raise UsageError(f"{graph.name}: ops run on {count} streams, above the {most} asked for")
    return graph


def _is_placed(buffer: Buffer) -> bool:
    """Whether a buffer has bytes of its own in the slab, or as a constant may get some."""
    return buffer.alias_of is None and not (
        buffer.external and buffer.input is not InputPolicy.CONSTANT
    )


def aligned_packing(problem: PackingProblem, align: int) -> PackingProblem:
    """Return a packing problem with sizes rounded up, and offsets placed, as `MemoryModel` does.

    Raises
    ------
    UsageError
        If the sizes add up to too much.
    GraphError
        If a buffer is pinned elsewhere.
    """
    sizes = [-(-size // align) * align for size in problem.size.tolist()]
    if sum(sizes) >= MAX_TOTAL_BYTES:
        raise UsageError(f"{problem.name}: sizes rounded up to {align} add up to 2**62 or more")
    return replace(
        problem,
        size=np.array(sizes, np.int64),
        alignment=np.array([lcm(a, align) for a in problem.alignment.tolist()], np.int64),
    )


def plannable(
    graph: Graph,
    inplace: bool,
    align: str | SupportsIndex | None = None,
    order_rules: OrderRules = NO_RULES,
) -> Graph:
    """Return the graph as it is planned: in the memory model asked for, and under the rules.

    Whoever plans it takes it from here: what is counted and in which orders is data of the graph
    from then on. What is no graph is refused, with a word on what to do.
    """
    if isinstance(graph, str | Path):
        raise UsageError(f"{str(graph)!r} is no Graph: read_graph makes one of a file")
    if not isinstance(graph, Graph):
        kind = type(graph).__name__
        hint = ": from_networkx makes one of it" if "DiGraph" in kind else ""
        raise UsageError(f"a Graph is wanted, got {kind}{hint}")
    if align is not None:
        graph = _aligned(graph, parse_alignment(align))
    return order_rules.apply(_with_inplace(graph) if inplace else graph)


def _with_inplace(graph: Graph) -> Graph:
    graph.refuse_streams("the in-place memory model")
    return graph.with_inplace()
