"""In-place execution: an op writes an output into an input that dies at this op.

In-place execution is an option of the memory model
(:class:`optsched.model.memory_model.MemoryModel`); without it, the candidates of a graph have no
effect. A pair of an output and an input of an op is *admissible* if

* the output is allocated by the op itself, is not a workspace or a view, and has bytes;
* the bytes of the input are not kept to the end, and the op does not write a view of them;
* both are counted and lie in the same pool, and every valid offset of the input is valid for the
  output: the output's alignment divides the input's, and the output has the same pin or none;
* the output is at most as large as the input. If the input is a view, the output must be exactly as
  large as the root of the view, since a smaller output might not lie at the start of the bytes that
  the op reads.

In an order, a pair is *available* if all other users of the input have ended before the op starts.
An op may use any matching of its available pairs: a set in which no output and no input occurs
twice. Each byte written in place saves one live byte while the op runs; live bytes before and after
the op do not change.

Example: an op reads `x` of 8 bytes for the last time and writes `y` of 6 bytes. With separate
buffers 14 bytes are live while it runs; in place, 8 bytes are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from optsched.model.arrays import GraphArrays, IntArray
from optsched.model.wiring import Wired

Pair = tuple[int, int]
"""An output, and the root of the input into which it is written."""


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
    # A view has no bytes; bytes allocated at another op are not free to choose; workspace is
    # scratch.
    if target.alias_of is not None or target.birth not in (None, v) or output == op.workspace:
        return False
    # The op would write into bytes that live on, or that it also changes as a view.
    if graph.kept[root] or any(graph.roots[b] == root for b in op.writes):
        return False
    if target.external or source.external or target.pool != source.pool:
        return False
    # Any offset of the input must be valid for the output, or the choice would restrict the input.
    if source.alignment % target.alignment or target.pin not in (None, source.pin):
        return False
    if by_view:
        return 0 < target.size == source.size
    return 0 < target.size <= source.size


def heaviest_matching(pairs: Iterable[Pair], size: Mapping[int, int] | IntArray) -> dict[int, int]:
    """Return a matching of maximum total output size, as a dict from input to output.

    Sets of outputs that can be matched form a matroid. The outputs are therefore added greedily by
    descending size, each one if an alternating path makes room for it.
    """
    inputs: dict[int, list[int]] = {}
    for output, source in pairs:
        inputs.setdefault(output, []).append(source)
    taken: dict[int, int] = {}

    def place(output: int, seen: set[int]) -> bool:
        for source in inputs[output]:
            if source not in seen:
                seen.add(source)
                # The usual alternating path: the present output of the input moves to another one.
                if source not in taken or place(taken[source], seen):
                    taken[source] = output
                    return True
        return False

    # Largest first is optimal since sets of matched outputs form a matroid.
    for output in sorted(inputs, key=lambda b: (-int(size[b]), b)):
        place(output, set())
    return taken


def available_pairs(
    arrays: GraphArrays, steps: IntArray, ranges: IntArray
) -> dict[int, list[Pair]]:
    """Return the available pairs of each op.

    `arrays`: the graph. `steps`: shape `(n,)`: step of each op in the order. `ranges`: shape `(m,
    2)`: live ranges in the order.
    """
    found: dict[int, list[Pair]] = {}
    for i in _available(arrays, steps, ranges).tolist():
        pair = (int(arrays.inplace_output[i]), int(arrays.inplace_source[i]))
        found.setdefault(int(arrays.inplace_op[i]), []).append(pair)
    return found


def bytes_saved(arrays: GraphArrays, steps: IntArray, ranges: IntArray) -> IntArray:
    """Return the bytes that each op can save by writing in place, shape `(n,)`.

    The parameters are those of :func:`available_pairs`.
    """
    saved = np.zeros(arrays.op_count, np.int64)
    chosen = _available(arrays, steps, ranges)
    if not len(chosen):
        return saved
    op, output = arrays.inplace_op[chosen], arrays.inplace_output[chosen]
    # An op with a single output in its available pairs needs no matching.
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
    """Return the bytes of a heaviest matching."""
    return sum(int(size[output]) for output in heaviest_matching(pairs, size).values())


def _available(arrays: GraphArrays, steps: IntArray, ranges: IntArray) -> IntArray:
    """Return the indices of the admissible pairs whose input dies at the op."""
    # The last step of the input is that of the op: no later op needs its bytes.
    dies = ranges[arrays.inplace_source, 1] == steps[arrays.inplace_op] + 1
    return np.flatnonzero(dies)
