"""Fusing two ops of a graph, and the graphs that the notes' examples become."""

from __future__ import annotations

from optsched.errors import GraphError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph


def can_share(graph: Graph, u: int, v: int) -> bool:
    """Return True if a compiler may fuse two ops: one reads the other's result, or both read one.

    Parameters
    ----------
    graph
        Without views.
    u, v
        Op ids, `u` before `v` in the program.
    """
    first, second = graph.ops[u], graph.ops[v]
    return bool((set(first.writes) | set(first.reads)) & set(second.reads))


def fuse(graph: Graph, u: int, v: int) -> Graph | None:
    """Replace two ops by one that reads and writes what both did; None where that makes a cycle.

    The fused op allocates all its buffers when it starts and releases when it ends. A buffer that
    only went from `u` to `v` lives in registers and is gone.

    Parameters
    ----------
    graph
        Without views, workspace or in-place candidates; ops in an order that can be run.
    u, v
        Op ids, `u < v`.
    """
    first, second = graph.ops[u], graph.ops[v]
    readers = {b: {w for w, op in enumerate(graph.ops) if b in op.reads} for b in first.writes}
    gone = {b for b in first.writes if readers[b] == {v} and not graph.kept[b]}
    build = GraphBuilder(f"{graph.name}_fused")
    names = [buffer.name for buffer in graph.buffers]
    for buffer in graph.buffers:
        if buffer.input is not None:
            build.input(buffer.name, buffer.size, buffer.input)
    for w, op in enumerate(graph.ops):
        if w == u:
            continue
        reads, writes, name = op.reads, op.writes, op.name
        if w == v:
            reads = tuple(b for b in (*first.reads, *op.reads) if b not in first.writes)
            writes = (*(b for b in first.writes if b not in gone), *op.writes)
            name = f"{first.name}+{second.name}"
        build.op(
            name,
            reads=[names[b] for b in dict.fromkeys(reads)],
            writes={names[b]: graph.buffers[b].size for b in writes},
        )
    build.output(*(b.name for b in graph.buffers if b.output is not None))
    try:
        return build.build()
    except GraphError:
        return None


def accumulate(terms: int, size: int, at_once: int) -> Graph:
    """Return a sum of random tensors, several at a time; 1 is unfused, `terms` is one op.

    Each sum may be written over the one before: in-place candidates, as eager PyTorch reuses it.

    Parameters
    ----------
    terms
        Number of tensors that are added to the first.
    size
        Bytes of each.
    at_once
        Number of tensors that one op adds; the last may add fewer.
    """
    build = GraphBuilder(f"accumulate_{terms}_by_{at_once}")
    build.op("rand0", writes={"total0": size}, kind="rand")
    done = 0
    while done < terms:
        upto = min(done + at_once, terms)
        for i in range(done + 1, upto + 1):
            build.op(f"rand{i}", writes={f"x{i}": size}, kind="rand")
        reads = [f"total{done}", *(f"x{i}" for i in range(done + 1, upto + 1))]
        build.op(f"add{upto}", reads=reads, writes={f"total{upto}": size}, kind="add")
        build.inplace(f"add{upto}", f"total{upto}", f"total{done}")
        done = upto
    build.output(f"total{terms}")
    return build.build()


def reductions(count: int, size: int, small: int, *, fused: bool) -> Graph:
    """Products of `size` bytes, each summed up to `small` bytes: one by one, or all in one op.

    The second example of the notes has two.
    """
    build = GraphBuilder(f"reductions_{count}_{'fused' if fused else 'unfused'}")
    sums = [f"sum{i}" for i in range(count)]
    for i in range(count):
        build.op(f"matmul{i}", writes={f"product{i}": size}, kind="matmul")
        if not fused:
            build.op(f"reduce{i}", reads=[f"product{i}"], writes={sums[i]: small}, kind="sum")
    if fused:
        products = [f"product{i}" for i in range(count)]
        build.op("reduce", reads=products, writes={"total": small}, kind="sum")
    else:
        build.op("add", reads=sums, writes={"total": small}, kind="add")
    build.output("total")
    return build.build()
