"""In-place: an op writes an output into an input that dies with it, so the two share their bytes.

An option of the memory model (:class:`optsched.model.memory_model.MemoryModel`); without it the
graph's candidates mean nothing. A pair of an output and an input of an op is *admissible* if

* the output is allocated by the op itself, is no workspace and no view, and has bytes;
* the bytes of the input are not kept to the end, and the op writes no view of them;
* both count, lie in the same pool, and any offset that is right for the input is right for the
  output: its alignment divides the input's, and it has no pin or the same one;
* the output is no larger than the input or, where the input is named by a view, as large as the
  view's root: a smaller one might not lie at the start of the bytes that the op reads.

In an order a pair is *available* if all other users of the input have ended before the op starts.
An op may take any matching of its available pairs: no output and no input in two of them. Every
byte taken is one byte less while the op runs; nothing changes before it and after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from optsched.model.arrays import GraphArrays, IntArray
from optsched.model.wiring import Wired

Pair = tuple[int, int]
"""An output and the root of an input."""


def admissible_pairs(
    graph: Wired, candidates: Iterable[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Return the admissible `(op, output, root of the input)` among the candidates, ascending."""
    found = set()
    for v, output, source in candidates:
        root = graph.roots[source]
        if _admissible(graph, v, output, root, by_view=root != source):
            found.add((v, output, root))
    return sorted(found)


def _admissible(graph: Wired, v: int, output: int, root: int, *, by_view: bool) -> bool:
    op, target, source = graph.ops[v], graph.buffers[output], graph.buffers[root]
    if target.alias_of is not None or target.birth not in (None, v) or output == op.workspace:
        return False
    if graph.kept[root] or any(graph.roots[b] == root for b in op.writes):
        return False
    if target.external or source.external or target.pool != source.pool:
        return False
    if source.alignment % target.alignment or target.pin not in (None, source.pin):
        return False
    if by_view:
        return 0 < target.size == source.size
    return 0 < target.size <= source.size


def heaviest_matching(pairs: Iterable[Pair], size: Mapping[int, int] | IntArray) -> dict[int, int]:
    """Return the matching of most bytes, input to output; each pair weighs as much as its output.

    Sets of outputs that can be matched form a matroid, so the largest outputs come first and are
    kept wherever the ones before them can make room along an alternating path.
    """
    inputs: dict[int, list[int]] = {}
    for output, source in pairs:
        inputs.setdefault(output, []).append(source)
    taken: dict[int, int] = {}

    def place(output: int, seen: set[int]) -> bool:
        for source in inputs[output]:
            if source not in seen:
                seen.add(source)
                if source not in taken or place(taken[source], seen):
                    taken[source] = output
                    return True
        return False

    for output in sorted(inputs, key=lambda b: (-int(size[b]), b)):
        place(output, set())
    return taken


def available_pairs(
    arrays: GraphArrays, steps: IntArray, ranges: IntArray
) -> dict[int, list[Pair]]:
    """Return the available pairs of an order, by op.

    The order is given by the steps of its ops, shape `(n,)`, and its live ranges, shape `(m, 2)`.
    """
    found: dict[int, list[Pair]] = {}
    for i in _available(arrays, steps, ranges).tolist():
        pair = (int(arrays.inplace_output[i]), int(arrays.inplace_source[i]))
        found.setdefault(int(arrays.inplace_op[i]), []).append(pair)
    return found


def bytes_saved(arrays: GraphArrays, steps: IntArray, ranges: IntArray) -> IntArray:
    """Return how many bytes each op can do without in an order, shape `(n,)`.

    Parameters as those of :func:`available_pairs`.
    """
    saved = np.zeros(arrays.op_count, np.int64)
    chosen = _available(arrays, steps, ranges)
    if not len(chosen):
        return saved
    op, output = arrays.inplace_op[chosen], arrays.inplace_output[chosen]
    # An op with one output that has a place, however many: no need to match anything.
    first, last = np.full_like(saved, arrays.buffer_count), np.full_like(saved, -1)
    np.minimum.at(first, op, output)
    np.maximum.at(last, op, output)
    plain = first == last
    saved[plain] = arrays.size[first[plain]]
    several = np.flatnonzero(first < last)
    if len(several):
        rows = available_pairs(arrays, steps, ranges)
        for v in several.tolist():
            saved[v] = matched_bytes(rows[v], arrays.size)
    return saved


def matched_bytes(pairs: Sequence[Pair], size: IntArray) -> int:
    """Return the bytes of the heaviest matching."""
    return sum(int(size[output]) for output in heaviest_matching(pairs, size).values())


def _available(arrays: GraphArrays, steps: IntArray, ranges: IntArray) -> IntArray:
    """Numbers of the admissible pairs whose input dies at the op."""
    dies = ranges[arrays.inplace_source, 1] == steps[arrays.inplace_op] + 1
    return np.flatnonzero(dies)
