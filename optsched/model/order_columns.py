"""Columns of the packing problem of an order: live ranges, conflicts of streams, in-place gaps.

Streams leave the problem here: conflicts that do not show as overlapping live ranges become pairs
to keep apart, so nothing after this module has to know of streams.

*Proof.* Let an order of a graph on several streams be given. Two buffers may share bytes in every
execution exactly if one is before the other (:mod:`optsched.model.stream_relation`), so exactly if
they do not conflict. Buffers whose ranges by depth overlap do conflict. The other conflicts are
listed as pairs. Offsets are therefore valid for the problem exactly if they are valid for the
order, and minimum slabs are equal. If too many pairs would have to be examined, live ranges are
widened instead until all conflicting buffers overlap. Offsets then remain valid, but a lower bound
need not hold for the order; the problem says so (`is_widened`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optsched.model.arrays import IntArray, Rows, pack_rows
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs, heads
from optsched.model.limits import upper_limits
from optsched.model.liveness import live_ranges
from optsched.model.parts import Gap
from optsched.model.sharing import among
from optsched.model.steps import Order, steps_of
from optsched.model.stream_relation import StreamRelation, stream_relation
from optsched.runtime.collector import paused_collector


@paused_collector()
def order_columns(graph: Graph, order: Order, chosen: Pairs) -> tuple[dict[str, Any], IntArray]:
    """Return the arguments of :class:`PackingProblem` for an order, and ids of its buffers."""
    relation = stream_relation(graph, order) if graph.on_streams else None
    ranges = live_ranges(graph, order) if relation is None else relation.ranges()
    # On streams the depth of an op takes the place of its step.
    steps = steps_of(graph, order) if relation is None else relation.depth
    size, owner = graph.arrays.size, heads(chosen)
    packed = (size > 0) & (ranges[:, 1] > ranges[:, 0])
    # Outputs written in place lie inside their input's buffer.
    packed[list(owner)] = False
    gaps = _gaps(size, ranges, owner)
    # That buffer lives as long as the last output written into it.
    for output, head in owner.items():
        ranges[head, 1] = max(ranges[head, 1], ranges[output, 1])
    ids = np.flatnonzero(packed)
    apart = np.array(graph.keep_apart, np.int64).reshape(-1, 2)
    pairs, groups = among(ids, len(size), apart, graph.must_share)
    hidden = _hidden_conflicts(relation, ids, ranges)
    buffers = [graph.buffers[b] for b in ids.tolist()]
    columns = {
        "names": tuple(buffer.name for buffer in buffers),
        "start": ranges[ids, 0],
        "end": ranges[ids, 1],
        "size": size[ids],
        "alignment": np.array([buffer.alignment for buffer in buffers], np.int64),
        "pin": np.array([-1 if b.pin is None else b.pin for b in buffers], np.int64),
        "below": upper_limits(graph)[ids],
        "gaps": tuple(gaps.get(b, ()) for b in ids.tolist()) if any(gaps.values()) else (),
        "name": graph.name,
        "memory_model": graph.memory_model,
        "uses": _steps_of_use(graph, steps, owner).select(ids),
        "must_share": groups,
        "keep_apart": pairs if hidden is None else np.concatenate([pairs, hidden]),
        "is_widened": hidden is None,
    }
    return columns, ids


def _hidden_conflicts(
    relation: StreamRelation | None, ids: IntArray, ranges: IntArray
) -> IntArray | None:
    """Return the pairs of conflicts that no overlap shows, shape `(pairs, 2)`.

    Return None if there are too many of them; ranges are then widened in place.
    """
    if relation is None:
        return np.zeros((0, 2), np.int64)
    hidden = relation.hidden_conflicts(ids)
    if hidden is None:
        # Wider ranges only forbid more, so offsets stay valid; a bound would not.
        ranges[:, 1] = relation.cover_ends()
    return hidden


def _gaps(size: IntArray, ranges: IntArray, owner: Mapping[int, int]) -> dict[int, tuple[Gap, ...]]:
    """Return the gaps of the buffers into which outputs are written; `owner` is by output."""
    written: dict[int, list[int]] = {}
    for output, head in owner.items():
        written.setdefault(head, []).append(output)
    return {head: _written_over(size, ranges, head, row) for head, row in written.items()}


def _steps_of_use(graph: Graph, steps: IntArray, owner: Mapping[int, int]) -> Rows:
    """Return the steps at which each buffer is read or written.

    Uses of outputs written in place count for the buffer into which they are written.
    """
    arrays, count = graph.arrays, graph.arrays.buffer_count
    made = np.flatnonzero(arrays.producer >= 0)
    buffers = np.concatenate([arrays.user.owners(), made])
    at = np.concatenate([steps[arrays.user.idx], steps[arrays.producer[made]]])
    if owner:
        head = np.arange(count, dtype=np.int64)
        head[list(owner)] = list(owner.values())
        # One number per pair, so that duplicates fall away in one sort.
        # An op that writes into its input uses the common buffer once.
        pairs = np.unique(head[buffers] * len(steps) + at)
        buffers, at = pairs // len(steps), pairs % len(steps)
    return pack_rows(buffers, at, count)


def _written_over(
    size: IntArray, ranges: IntArray, head: int, outputs: Sequence[int]
) -> tuple[Gap, ...]:
    """Return the gaps of a buffer into which outputs are written, one after another.

    While an op runs, all previous bytes are still needed; from the next step on only its output is.
    """
    gaps: list[Gap] = []
    ends = [int(ranges[b, 0]) + 1 for b in outputs[1:]] + [int(ranges[outputs[-1], 1])]
    for output, end in zip(outputs, ends, strict=True):
        start = int(ranges[output, 0]) + 1
        # An output as large as the buffer leaves no bytes free.
        if size[output] < size[head] and start < end:
            gaps.append(Gap(start, end, (0, int(size[output]))))
    return tuple(gaps)
