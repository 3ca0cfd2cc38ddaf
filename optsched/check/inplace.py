"""The checker's reading of in-place: which bytes an output may share with an input, and when.

Own code on the graph's ops and buffers only, like the rest of the checker. What is admissible is
said in :mod:`optsched.model.inplace`; here the pairs that a plan makes use of are found in it:

* the input dies at the step of the op, and no view of it is written there;
* output and input have the same offset;
* each input serves one output at most.

In the step of the op the output of such a pair fills bytes of the input, so its rectangle starts
one step later; all else is kept apart as ever.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.check.lives import Spans
from optsched.model.graph import Graph


def dying_pairs(
    graph: Graph, step: Sequence[int], spans: Spans
) -> dict[int, list[tuple[int, int]]]:
    """Return the `(output, root of the input)` that may share bytes in an order, by op."""
    found: dict[int, list[tuple[int, int]]] = {}
    for v, pairs in sharable_pairs(graph).items():
        for output, root in pairs:
            # Dying here leaves no later user.
            born = output in spans and spans[output][0] == step[v]
            if born and root in spans and spans[root][1] == step[v] + 1:
                found.setdefault(v, []).append((output, root))
    return found


def sharable_pairs(graph: Graph) -> dict[int, list[tuple[int, int]]]:
    """Return the `(output, root of the input)` that may share bytes if the input dies, by op."""
    found: dict[int, list[tuple[int, int]]] = {}
    for v, output, named in graph.inplace:
        root = graph.roots[named]
        written = graph.ops[v].writes
        if output == graph.ops[v].workspace or root in [graph.roots[b] for b in written]:
            continue
        if graph.kept[root] or graph.buffers[output].birth not in (None, v):
            continue
        if (output, root) not in found.get(v, ()) and _fits(graph, output, named, root):
            found.setdefault(v, []).append((output, root))
    return found


def _fits(graph: Graph, output: int, named: int, root: int) -> bool:
    small, large = graph.buffers[output], graph.buffers[root]
    if small.alias_of is not None or small.external or large.external:
        return False
    if not 0 < small.size <= large.size or (named != root and small.size != large.size):
        return False
    if small.pool != large.pool or large.alignment % small.alignment:
        return False
    return small.pin is None or small.pin == large.pin


def bytes_spared(graph: Graph, step: Sequence[int], spans: Spans) -> dict[int, int]:
    """Return by how much each step's live bytes fall if its op takes the most it can."""
    return {step[v]: heaviest(graph, pairs) for v, pairs in dying_pairs(graph, step, spans).items()}


def heaviest(graph: Graph, pairs: Sequence[tuple[int, int]]) -> int:
    """Bytes of the heaviest matching: outputs by size, each where a chain of moves makes room."""
    holder: dict[int, int] = {}
    total = 0
    outputs = sorted({output for output, _ in pairs}, key=lambda b: -graph.buffers[b].size)
    for output in outputs:
        came_from: dict[int, int] = {}
        wave = [output]
        free = None
        while wave and free is None:
            at = wave.pop()
            for other, root in pairs:
                if other != at or root in came_from:
                    continue
                came_from[root] = at
                if root not in holder:
                    free = root
                    break
                wave.append(holder[root])
        if free is None:
            continue
        total += graph.buffers[output].size
        while True:
            mover = came_from[free]
            left = next((root for root, other in holder.items() if other == mover), None)
            holder[free] = mover
            if left is None:
                break
            del holder[left]
            free = left
    return total


def shared_spans(
    graph: Graph, offsets: Sequence[int | None], step: Sequence[int], spans: Spans
) -> Spans:
    """Return the spans in which each root needs bytes that no other root has, given the offsets."""
    found = dict(spans)
    for pairs in dying_pairs(graph, step, spans).values():
        served: set[int] = set()
        for output, root in pairs:
            if offsets[output] is None or offsets[output] != offsets[root] or root in served:
                continue
            start, end = found[output]
            if start == spans[output][0]:
                served.add(root)
                found[output] = (start + 1, end)
    return found
