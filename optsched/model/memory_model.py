"""Options that determine how bytes are counted; they are arguments, not part of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path
from typing import SupportsIndex

from optsched.errors import UsageError
from optsched.model.elements import MAX_TOTAL_BYTES, Buffer, InputPolicy
from optsched.model.graph import Graph
from optsched.model.limits import limited
from optsched.model.regions import ConstantsRegion, with_constants, with_workspace_apart
from optsched.model.steps import Answered, has_both
from optsched.model.streams import in_levels
from optsched.runtime.bytes import parse_bytes, round_up
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import choose_member, parse_integer


@keywords
@dataclass(frozen=True, slots=True)
class MemoryModel:
    """Rules under which a graph is planned, in addition to those in its file.

    Parameters
    ----------
    inplace
        If True, ops may write outputs into inputs that die at the op, for the candidates that the
        graph names (:mod:`optsched.model.inplace`); if False, no op does. None keeps the graph as
        its reader made it: in-place for ONNX, as ONNX Runtime runs it, and for no other format.
    align
        Power of two, in bytes. Sizes are rounded up to multiples of it, and offsets are multiples
        of it, as in allocators. None keeps sizes and alignments of the graph.
    workspace_apart
        If True, workspace lies in a separate region beside the slab instead of in the slab while
        its op runs (:func:`optsched.model.regions.with_workspace_apart`).
    constants
        Place of constants (:class:`optsched.model.regions.ConstantsRegion`).
    streams
        Maximum number of ops that run concurrently: the ops are put into levels of at most this
        size (:func:`optsched.model.streams.in_levels`). A graph that is on streams already must
        have at most this number of them. None keeps the graph as it is.
    below
        Upper limits in bytes by name of buffer, as a mapping or as pairs: the buffer ends at or
        below its limit in every plan (:mod:`optsched.model.limits`).

    Raises
    ------
    UsageError
        If `align` is not a power of two, or `streams` is below 1.

    Examples
    --------
    >>> from optsched import GraphBuilder, MemoryModel
    >>> build = GraphBuilder("odd")
    >>> build.op("p", writes={"a": 5})
    >>> [buffer.size for buffer in MemoryModel(align=8).apply(build.build()).buffers]
    [8]
    """

    inplace: bool | None = None
    align: int | None = None
    workspace_apart: bool = False
    constants: ConstantsRegion = ConstantsRegion.OUTSIDE
    streams: int | None = None
    below: Mapping[str, int] | tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "below", tuple(dict(self.below).items()))
        except (TypeError, ValueError):
            text = f"below must map names of buffers to bytes, got {self.below!r}"
            raise UsageError(text) from None
        if self.align is not None:
            object.__setattr__(self, "align", parse_alignment(self.align))
        region = choose_member(ConstantsRegion, self.constants, "constants")
        object.__setattr__(self, "constants", region)
        if self.streams is not None:
            object.__setattr__(self, "streams", parse_integer("streams", self.streams, 1))

    def apply(self, graph: Graph) -> Graph:
        """Return the graph under these rules; all that they change is plain data of the result."""
        # In-place writing on streams is not supported, so levels drop it unless it was asked for.
        if self.inplace is False or (self.inplace is None and self.streams is not None):
            graph = graph.without_inplace()
        if self.align is not None:
            graph = _aligned(graph, self.align)
        if self.streams is not None:
            graph = _on_streams(graph, self.streams)
        if self.workspace_apart:
            graph.refuse_streams("a separate workspace region, which ops share in turn")
            graph = _said(with_workspace_apart(graph), "workspace apart")
        # Each rule changes the graph and adds its words to the description.
        if self.constants is not ConstantsRegion.OUTSIDE:
            graph = _said(with_constants(graph, self.constants), f"constants {self.constants}")
        if self.below:
            limits = dict(self.below)
            words = ", ".join(f"{name!r} below {limit}" for name, limit in limits.items())
            graph = _said(limited(graph, limits), words)
        # Last, since pairs depend on sizes and alignments, which the rules above change.
        return _with_inplace(graph) if self.inplace else graph


def parse_alignment(value: str | SupportsIndex) -> int:
    """Return an alignment in bytes, given in a form of :func:`optsched.runtime.bytes.parse_bytes`.

    Raise `UsageError` if it is not a power of two, or above 2**62.
    """
    count = parse_bytes(value)
    if count.bit_count() != 1:
        raise UsageError(f"alignment must be a power of two, got {value}")
    if count > MAX_TOTAL_BYTES:
        raise UsageError(f"alignment must be at most 2**62 bytes, got {value}")
    return count


def _aligned(graph: Graph, align: int) -> Graph:
    buffers = tuple(
        # The least common multiple keeps both alignments.
        replace(b, size=round_up(b.size, align), alignment=lcm(b.alignment, align))
        if _is_placed(b)
        else b
        for b in graph.buffers
    )
    return _said(replace(graph, buffers=buffers), f"sizes and offsets multiples of {align}")


def _said(graph: Graph, rule: str) -> Graph:
    """Return the graph with a rule appended to the description of its memory model."""
    return replace(graph, memory_model=f"{graph.memory_model}; {rule}")


def _on_streams(graph: Graph, most: int) -> Graph:
    """Return the graph on at most `most` streams, put into levels if it is on one stream."""
    if not graph.on_streams:
        return _said(in_levels(graph, most=most), f"levels of at most {most} ops")
    if len(graph.streams) > most:
        count = len(graph.streams)
        raise UsageError(
            f"{graph.name}: ops run on {count} streams, more than the requested {most}"
        )
    return graph


def _is_placed(buffer: Buffer) -> bool:
    """Return True if a buffer has bytes of its own in the slab, or can get some as a constant."""
    return buffer.alias_of is None and not (
        buffer.external and buffer.input is not InputPolicy.CONSTANT
    )


_HINTS = {
    "DiGraph": ": convert it with from_networkx",
    "Question": ": answer(question) searches on, and question.graph is its graph",
}
"""Ways out for other objects, by a part of the name of their type."""


def plannable(
    graph: Graph | Answered, inplace: bool, align: str | SupportsIndex | None = None
) -> Graph:
    """Return the graph to plan: in the requested memory model.

    All functions that plan a graph start here. The buffers that count are plain data of the result.
    Arguments that are not graphs are rejected with a hint.
    """
    # A result has the graph that was planned.
    if has_both(graph):
        graph = graph.graph_and_plan[0]
    if isinstance(graph, str | Path):
        raise UsageError(f"expected a Graph, got {str(graph)!r}: read the file with read_graph")
    if not isinstance(graph, Graph):
        kind = type(graph).__name__
        hint = next((hint for part, hint in _HINTS.items() if part in kind), "")
        raise UsageError(f"expected a Graph, got {kind}{hint}")
    if align is not None:
        graph = _aligned(graph, parse_alignment(align))
    return _with_inplace(graph) if inplace else graph


def _with_inplace(graph: Graph) -> Graph:
    graph.refuse_streams("the in-place memory model")
    return graph.with_inplace()
