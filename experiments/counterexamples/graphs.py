"""The graphs that comments and commit notes describe, encoded as drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph

XLA_SIZES = {"A": 1, "B": 2, "C": 1, "D": 1, "E": 1, "F": 2, "G": 0}
XLA_EDGES = (
    ("A", "B"),
    ("A", "D"),
    ("A", "E"),
    ("B", "C"),
    ("D", "F"),
    ("E", "F"),
    ("C", "G"),
    ("F", "G"),
)
"""In the comment's drawing; G is drawn without a buffer of its own."""


def one_buffer_per_op(
    name: str, sizes: Mapping[str, int], edges: Sequence[tuple[str, str]]
) -> Graph:
    """Each op writes one buffer, shared by all its readers; what nobody reads is an output."""
    build = GraphBuilder(name)
    for op, size in sizes.items():
        reads = [u for u, v in edges if v == op]
        build.op(op, reads=reads, writes={op: size})
    build.output(*(op for op in sizes if all(u != op for u, _ in edges)))
    return build.build()


def one_buffer_per_edge(
    name: str, sizes: Mapping[str, int], edges: Sequence[tuple[str, str]]
) -> Graph:
    """Each edge is a buffer of its own, of the size of its tail's arrow."""
    build = GraphBuilder(name)
    for op, size in sizes.items():
        build.op(
            op,
            reads=[f"{u}->{v}" for u, v in edges if v == op],
            writes={f"{u}->{v}": size for u, v in edges if u == op},
        )
    return build.build()


def accumulated_reads(terms: int, size: int, *, fused: bool) -> Graph:
    """A total of random tensors: added one by one, or by one op that reads them all."""
    build = GraphBuilder(f"accumulate{terms}_{'fused' if fused else 'unfused'}")
    build.op("rand0", writes={"total0": size}, kind="rand")
    for i in range(1, terms + 1):
        build.op(f"rand{i}", writes={f"x{i}": size}, kind="rand")
        if not fused:
            build.op(
                f"add{i}", reads=[f"total{i - 1}", f"x{i}"], writes={f"total{i}": size}, kind="add"
            )
    if fused:
        reads = ["total0", *(f"x{i}" for i in range(1, terms + 1))]
        build.op("add", reads=reads, writes={f"total{terms}": size}, kind="add")
    build.output(f"total{terms}")
    return build.build()
