"""In-place writes as the checker reads them: the bytes an output may share with an input, and when.

It uses the graph's ops and buffers only, like the rest of the checker. Admissible pairs are defined
in :mod:`optsched.model.inplace`. A plan writes an output into an input if

* the input dies at the step of the op, and the op writes no view of it;
* output and input have the same offset;
* no other output of the op is written into this input.

In the step of the op, the output then fills bytes of the input, so its own bytes are needed from
the next step on. Apart from that, the two are separate buffers.

Example: `relu` reads `x` for the last time and writes `y`; both have 8 bytes. With equal offsets
they need 8 bytes of slab in that step, with different ones 16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optsched.check.lives import Spans
from optsched.model.graph import Graph

Pairs = list[tuple[int, int]]
"""Outputs of an op, each with the root of an input."""


def dying_pairs(graph: Graph, step: Sequence[int], spans: Spans) -> dict[int, Pairs]:
    """Return by op the `(output, root of the input)` that may share bytes in an order."""
    found: dict[int, Pairs] = {}
    for v, pairs in sharable_pairs(graph).items():
        for output, root in pairs:
            # An input that dies at this step has no later user.
            born = output in spans and spans[output][0] == step[v]
            if born and root in spans and spans[root][1] == step[v] + 1:
                # Kept as a list per op: several outputs may go into several inputs.
                found.setdefault(v, []).append((output, root))
    return found


def sharable_pairs(graph: Graph) -> dict[int, Pairs]:
    """Return by op the `(output, root of the input)` that may share bytes if the input dies."""
    found: dict[int, dict[tuple[int, int], None]] = {}
    written: dict[int, set[int]] = {}
    for v, output, named in graph.inplace:
        root, op = graph.roots[named], graph.ops[v]
        if v not in written:
            written[v] = {graph.roots[b] for b in op.writes}
        # Workspace does not count as an output; an op that writes a view of the input changes it.
        if output == op.workspace or root in written[v] or graph.kept[root]:
            continue
        if graph.buffers[output].birth in (None, v) and _fits(graph, output, named, root):
            found.setdefault(v, {})[output, root] = None
    return {v: list(pairs) for v, pairs in found.items()}


def _fits(graph: Graph, output: int, named: int, root: int) -> bool:
    small, large = graph.buffers[output], graph.buffers[root]
    if small.alias_of is not None or small.external or large.external:
        return False
    if not 0 < small.size <= large.size or (named != root and small.size != large.size):
        return False
    if small.pool != large.pool or large.alignment % small.alignment:
        return False
    return small.pin is None or small.pin == large.pin


def heaviest(graph: Graph, pairs: Sequence[tuple[int, int]]) -> int:
    """Return the bytes of the outputs in a heaviest matching of outputs and inputs.

    Outputs are added by descending size, each one if it finds an input.
    """
    inputs: dict[int, list[int]] = {}
    for output, root in pairs:
        inputs.setdefault(output, []).append(root)
    matching = _Matching(inputs)
    # Greedy by size is optimal, as sets of matched outputs form a matroid.
    outputs = sorted(inputs, key=lambda b: -graph.buffers[b].size)
    return sum(graph.buffers[output].size for output in outputs if matching.add(output))


class _Matching:
    """A matching of outputs and inputs that grows by one output at a time."""

    def __init__(self, inputs: Mapping[int, Sequence[int]]) -> None:
        self.inputs = inputs
        self.output_in: dict[int, int] = {}
        self.input_of: dict[int, int] = {}

    def add(self, output: int) -> bool:
        """Give an output an input, moving others along a chain; return False if that fails."""
        came_from: dict[int, int] = {}
        wave = [output]
        while wave:
            at = wave.pop()
            for root in self.inputs[at]:
                # Each input is asked once per chain.
                if root in came_from:
                    continue
                came_from[root] = at
                if root not in self.output_in:
                    self._move(root, came_from)
                    return True
                wave.append(self.output_in[root])
        return False

    def _move(self, free: int | None, came_from: Mapping[int, int]) -> None:
        """Move each output of a chain into the input that the next one has left."""
        while free is not None:
            mover = came_from[free]
            left = self.input_of.get(mover)
            self.output_in[free], self.input_of[mover] = mover, free
            free = left


def shared_spans(offsets: Sequence[int | None], dying: Mapping[int, Pairs], spans: Spans) -> Spans:
    """Return the steps in which each root needs bytes that no other root has.

    `offsets`: offset of each buffer of the plan by id, or None. `dying`: result of
    :func:`dying_pairs`. `spans`: half-open live range of each root.
    """
    found = dict(spans)
    for pairs in dying.values():
        served: set[int] = set()
        for output, root in pairs:
            if offsets[output] is None or offsets[output] != offsets[root] or root in served:
                continue
            start, end = found[output]
            # Its first step is not shared yet: one input per output.
            if start == spans[output][0]:
                served.add(root)
                found[output] = (start + 1, end)
    return found
