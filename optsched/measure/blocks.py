"""Causes of a difference between a plan and the blocks that a runtime took.

Each block is that of a buffer of the plan, of an output that was not written in place, or scratch
of a kernel. Blocks are matched to buffers by their rounded size. If there are more blocks of a size
than buffers, those returned soonest are scratch, since a kernel returns its scratch at its end.

Example: a plan has buffers of 64 and 128 bytes, and the runtime took blocks of 64, 640 and 128.
The block of 640 bytes is scratch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.memory_model import MemoryModel

BLOCK = 64
"""Bytes to which ONNX Runtime's allocator rounds up."""
SCRATCH = "kernel scratch"
APART = "in-place not taken"
ROUNDING = "blocks rounded up"
ABSENT = "buffers not allocated"


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks that a run took.

    Parameters
    ----------
    sizes
        Bytes of each block, in time's order.
    steps
        Block `n` taken as `n + 1` and returned as `-(n + 1)`, in time's order.
    """

    sizes: Sequence[int]
    steps: Sequence[int]

    def peak(self, without: frozenset[int] = frozenset()) -> int:
        """Return the most bytes held at once, not counting some blocks."""
        live = most = 0
        for step in self.steps:
            number = abs(step) - 1
            if number not in without:
                live += self.sizes[number] if step > 0 else -self.sizes[number]
                most = max(most, live)
        return most

    def shortest(self, count: int, size: int) -> list[int]:
        """Return the blocks of a size that were returned soonest after they were taken."""
        begin, end = dict[int, int](), dict[int, int]()
        for time, step in enumerate(self.steps):
            (begin if step > 0 else end)[abs(step) - 1] = time
        same = [n for n in range(len(self.sizes)) if self.sizes[n] == size]
        # A block that was never returned counts as longest.
        never = len(self.steps)
        return sorted(same, key=lambda n: end.get(n, never) - begin.get(n, 0))[:count]


def explain(
    graph: Graph, order: Sequence[int], blocks: Blocks, absent: Collection[str] = ()
) -> dict[str, int]:
    """Return the parts of the bytes held above the peak of an order, by cause.

    `graph` is in the memory model of the plan, and `absent` names buffers of it that the runtime
    does not have, for example those of ops that it folded. The parts sum up to the difference
    unless ops other than those of the graph ran.
    """
    planned, held = peak_memory(graph, order), blocks.peak()
    rounded = MemoryModel(align=BLOCK).apply(graph)
    # Rounded sizes first: what they add has nothing to do with blocks.
    least = peak_memory(rounded, order)
    parts = {ROUNDING: least - planned}
    if any(op.workspace is not None for op in graph.ops):
        # Blocks of subgraphs and of known scratch are inside of workspaces.
        parts["kernel scratch and subgraphs"] = held - least
        return _nonzero(parts)
    there = _without(rounded, absent)
    present = peak_memory(there, order)
    parts[ABSENT] = present - least
    expected = _Expected(there, order, present)
    found = expected.scratch_and_copies(blocks)
    if sum(found.values()) != held - present:
        found = expected.only_scratch(blocks) or found
    for what, value in found.items():
        parts[what] = parts.get(what, 0) + value
    return _nonzero(parts)


def _nonzero(parts: Mapping[str, int]) -> dict[str, int]:
    return {what: value for what, value in parts.items() if value}


def _without(graph: Graph, absent: Collection[str]) -> Graph:
    """Return a graph in which the absent buffers have no bytes."""
    if not absent:
        return graph
    sizes = (replace(b, size=0) if b.name in absent else b for b in graph.buffers)
    return graph.with_sizes(tuple(sizes))


class _Expected:
    """Blocks that a graph's buffers take, in an order with this peak."""

    def __init__(self, graph: Graph, order: Sequence[int], peak: int) -> None:
        self.graph, self.order, self.peak = graph, order, peak
        overwriting = set(graph.arrays.inplace_output.tolist())
        sizes = graph.arrays.size.tolist()
        self.in_place = Counter(sizes[b] for b in overwriting)
        self.wanted = Counter(size for b, size in enumerate(sizes) if size and b not in overwriting)

    def only_scratch(self, blocks: Blocks) -> dict[str, int] | None:
        """Return the scratch if the other blocks have the expected peak exactly, else None."""
        # Blocks that no buffer of the plan explains.
        extra = Counter(blocks.sizes) - self.wanted
        scratch = {n for size, count in extra.items() for n in blocks.shortest(count, size)}
        if blocks.peak(frozenset(scratch)) != self.peak:
            return None
        return {SCRATCH: blocks.peak() - self.peak}

    def scratch_and_copies(self, blocks: Blocks) -> dict[str, int]:
        """Return parts if outputs that were planned to overwrite inputs may have own blocks."""
        scratch, apart, doubtful = set[int](), 0, 0
        for size, count in (Counter(blocks.sizes) - self.wanted).items():
            # As many as outputs that were planned to overwrite inputs.
            copies = min(count, self.in_place[size])
            apart += copies * size
            scratch.update(blocks.shortest(count - copies, size))
            doubtful += (count - copies) * size if self.wanted[size] else 0
        # Peaks without scratch, then with it: the difference is what scratch adds.
        tensors, parts = blocks.peak(frozenset(scratch)), dict[str, int]()
        if apart:
            most = peak_memory(self.graph.without_inplace(), self.order)
            parts[APART] = max(0, min(tensors, most) - self.peak)
        parts[SCRATCH] = blocks.peak() - tensors
        rest = tensors - self.peak - parts.get(APART, 0)
        absent = self.wanted - Counter(blocks.sizes)
        if 0 < rest <= doubtful:
            # Scratch as large as some buffer: of blocks of equal size, those returned soonest need
            # not be the scratch.
            parts[SCRATCH] += rest
        elif 0 < -rest <= sum(size * count for size, count in absent.items()):
            parts[ABSENT] = rest
        return parts
