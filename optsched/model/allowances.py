"""A second relaxation of undecided choices: bytes that a kernel may have inside.

The relaxation of :mod:`optsched.model.fusion` gives undecided local buffers no bytes at all. This
one gives them their bytes, and allows each group those that may lie inside its own kernel, its
*allowance*. It is stronger where a buffer lives across kernels of other nodes: one that is inside
a kernel is not live then, and one that is not has its bytes.

The graph gets a scratch buffer for each group: the largest allowance, minus that of the group. The
least peak of this graph, minus the largest allowance, is a bound on all choices that agree with
what is decided.

*Lemma.* Let `F` be the finest split that keeps the buffers decided to stay, and let `P` be the
finest split of a choice that agrees with all decisions. Then each order of `merge(P)` gives an
order of `merge(F)` in which no group needs more than its allowance above the peak of `merge(P)`.

*Proof.* Replace each group `K` of `P` by its groups in `F`, in an order that keeps dependencies.
Let `A` be one of them. Undecided buffers that are inside groups of `P` are live in the order of `F`
only while groups of the same `K` run. Those of other groups of `P` are not live while `A` runs.
Those of `K` have their users in one group of the finest split that keeps all buffers but those that
are cut, which `A` is in as well; if one is live while `A` runs, no dependency puts `A` before its
maker or after all of its users. So the allowance has them. All other live buffers have the same
bytes in `P`, where they are live while `K` runs, as in the lemma of :mod:`optsched.model.fusion`;
what is said there of in-place pairs holds here too. There, an undecided buffer between the two of a
pair has no bytes; here, the allowance has them. A pair of an undecided buffer only lowers what `F`
needs. *End.*

Example: `exp` and `sum` of one node pass `t` of 8 bytes. While either runs, 8 bytes are allowed;
while an op of another node runs between them, `t` counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from optsched.errors import GraphError
from optsched.model.dependencies import reachable
from optsched.model.elements import Buffer, Op
from optsched.model.fused import FusedGraph, Split
from optsched.model.fusion import finest_split, inner_buffers, merge
from optsched.model.graph import Graph


def relaxation(
    fused: FusedGraph, split: Split, cut: frozenset[int], *, allowed: bool
) -> tuple[Graph, int]:
    """Return a graph and bytes: its least peak minus these bounds all choices that agree.

    `fused`, `split`: the fused graph, and the finest split that keeps the buffers decided to stay.
    `cut`: local buffers decided to be cut. `allowed`: True for undecided buffers that have bytes
    and are allowed; False for ones without bytes, which is also the answer if the scratch buffers
    are too many bytes for a graph.
    """
    undecided = fused.local - cut - inner_buffers(fused, split)
    if allowed:
        rows = allowances(fused, split, cut)
        with suppress(GraphError):
            return with_allowances(merge(fused, split), rows), max(rows)
    return merge(fused, split, undecided), 0


def allowances(fused: FusedGraph, split: Split, cut: Collection[int]) -> list[int]:
    """Return the bytes of undecided local buffers that may lie inside the kernel of each group.

    `fused`, `split`: the fused graph, and the finest split that keeps the buffers decided to stay.
    `cut`: local buffers decided to be cut.

    Examples
    --------
    >>> from optsched.model.builder import GraphBuilder
    >>> build = GraphBuilder("pair")
    >>> build.op("exp", writes={"t": 8})
    >>> build.op("other", writes={"x": 2})
    >>> build.op("sum", reads=["t"], writes={"y": 2})
    >>> build.output("x", "y")
    >>> fused = FusedGraph(graph=build.build(), nodes=((0, 2),), local=frozenset({0}))
    >>> allowances(fused, ((0,), (1,), (2,)), ())
    [8, 0, 8]
    """
    # Parts that no agreeing choice runs in one kernel are in different rooms.
    rooms = finest_split(fused, fused.local - set(cut))
    room = {v: group for group in rooms for v in group}
    owner = {v: i for i, group in enumerate(split) for v in group}
    before = reachable(merge(fused, split).predecessors)
    found = [0] * len(split)
    for b in fused.local - set(cut) - inner_buffers(fused, split):
        maker = fused.graph.producers[b]
        assert maker is not None
        first, users = owner[maker], {owner[v] for v in fused.users[b]}
        for i in {owner[v] for v in room[maker]}:
            # A buffer is not live before its maker, and not after all of its users.
            live = not before[first] >> i & 1 and any(not before[i] >> u & 1 for u in users)
            found[i] += fused.graph.buffers[b].size if live else 0
    return found


def with_allowances(graph: Graph, rows: Sequence[int]) -> Graph:
    """Return the graph with a scratch buffer per op: the largest allowance minus that of the op.

    Raise `GraphError` if the bytes of all buffers are too many then.
    """
    most = max(rows)
    buffers, ops = list(graph.buffers), list[Op]()
    names = (f"allowance {i}" for i in itertools.count())
    free = (name for name in names if name not in graph.buffer_ids)
    for op, allowed in zip(graph.ops, rows, strict=True):
        scratch = (len(buffers),) if allowed < most else ()
        ops.append(replace(op, writes=(*op.writes, *scratch)))
        buffers += [Buffer(next(free), most - allowed) for _ in scratch]
    return replace(graph, ops=tuple(ops), buffers=tuple(buffers))
