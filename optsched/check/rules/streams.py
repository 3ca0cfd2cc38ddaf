"""Rule: on several streams, buffers that share bytes come one before the other in every execution.

Precedence between buffers is defined in :mod:`optsched.check.precedence`.

Example: `a` is used by op `p` only, and `p` precedes the op that allocates `c`: `a` and `c` may
share bytes. If an op of another stream also reads `a`, and nothing orders it before `c`, they may
not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from optsched.check.facts import PlanFacts
from optsched.check.lives import maker
from optsched.check.precedence import Precedence
from optsched.errors import PlanError
from optsched.model.graph import Graph


def check(facts: PlanFacts) -> None:
    """Check the buffers of each pool, if the graph is on several streams."""
    if not facts.graph.on_streams:
        return
    pools: dict[str, dict[int, int]] = {}
    for b, offset in facts.placed.items():
        pools.setdefault(facts.graph.buffers[b].pool, {})[b] = offset
    for placed in pools.values():
        check_sharing(facts.graph, facts.precedence, placed)


def check_sharing(graph: Graph, known: Precedence, placed: Mapping[int, int]) -> None:
    """Check that buffers which share a byte come one before the other.

    Buffers are visited in the sequence in which the order allocates them. Only the last owner of
    each byte is compared with the next one: earlier owners are before the last one.

    `placed`: offsets of the buffers of one pool that have bytes, by id.
    """
    step = {v: at for at, v in enumerate(known.order)}
    makers = {b: maker(graph, b) for b in placed}
    birth = {b: -1 if op is None else step[op] for b, op in makers.items()}
    # Stretch `i` of bytes is `[edges[i], edges[i + 1])`.
    # All bytes start without an owner.
    edges = [0]
    owners: list[int | None] = [None]
    for b in sorted(placed, key=lambda b: birth[b]):
        low, high = placed[b], placed[b] + graph.buffers[b].size
        first, last = _cut(edges, owners, low), _cut(edges, owners, high)
        for owner in dict.fromkeys(owners[first:last]):
            if owner is not None and not known.before(owner, b):
                raise PlanError(_clash(graph, owner, b, placed))
        # From now on these bytes belong to the new buffer.
        edges[first:last], owners[first:last] = [low], [b]


def _cut(edges: list[int], owners: list[int | None], at: int) -> int:
    """Split the stretch that contains byte `at`; return the number of the stretch from there."""
    i = bisect_right(edges, at) - 1
    # The stretch is cut in two; both halves have the same owner.
    if edges[i] < at:
        i += 1
        edges.insert(i, at)
        owners.insert(i, owners[i - 1])
    return i


def _clash(graph: Graph, one: int, other: int, placed: Mapping[int, int]) -> str:
    where = " and ".join(
        f"{graph.buffers[b].name!r} at [{placed[b]}, {placed[b] + graph.buffers[b].size})"
        for b in (one, other)
    )
    return f"buffers {where} overlap and may be in use at once on several streams"
