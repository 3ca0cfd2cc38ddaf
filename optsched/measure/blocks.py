"""Causes of a difference between a plan and the blocks that a runtime took.

Each block is that of a buffer of the plan, of an output that was not written in place, or scratch
of a kernel. Blocks are matched to buffers by their rounded size. If there are more blocks of a size
than buffers, those returned soonest are scratch, since a kernel returns its scratch at its end.

Example: a plan has buffers of 64 and 128 bytes, and the runtime took blocks of 64, 640 and 128.
The block of 640 bytes is scratch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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


def explain(graph: Graph, order: Sequence[int], blocks: Blocks) -> dict[str, int]:
    """Return the parts of the bytes held above the peak of an order, by cause.

    `graph` is in the memory model of the plan; the parts sum up to the difference unless ops other
    than those of the graph ran.
    """
    planned, held = peak_memory(graph, order), blocks.peak()
    rounded = MemoryModel(align=BLOCK).apply(graph)
    # Rounded sizes first: what they add has nothing to do with blocks.
    least = peak_memory(rounded, order)
    parts = {ROUNDING: least - planned}
    if any(op.workspace is not None for op in graph.ops):
        # Blocks of subgraphs and of known scratch are inside of workspaces.
        parts["kernel scratch and subgraphs"] = held - least
        return {what: value for what, value in parts.items() if value}
    overwriting = set(rounded.arrays.inplace_output.tolist())
    sizes = rounded.arrays.size.tolist()
    in_place = Counter(sizes[b] for b in overwriting)
    wanted = Counter(size for b, size in enumerate(sizes) if size and b not in overwriting)
    # Blocks that no buffer of the plan explains.
    extra = Counter(blocks.sizes) - wanted
    scratch, apart, doubtful = set[int](), 0, 0
    for size, count in extra.items():
        # As many as outputs that were planned to overwrite inputs.
        copies = min(count, in_place[size])
        apart += copies * size
        scratch.update(blocks.shortest(count - copies, size))
        doubtful += (count - copies) * size if wanted[size] else 0
    # Peaks without scratch, then with it: the difference is what scratch adds.
    tensors = blocks.peak(frozenset(scratch))
    if apart:
        most = peak_memory(rounded.without_inplace(), order)
        parts[APART] = max(0, min(tensors, most) - least)
    parts[SCRATCH] = held - tensors
    rest = tensors - least - parts.get(APART, 0)
    absent = wanted - Counter(blocks.sizes)
    if 0 < rest <= doubtful:
        # Scratch as large as some buffer: of blocks of equal size, those returned soonest need not
        # be the scratch.
        parts[SCRATCH] += rest
    elif 0 < -rest <= sum(size * count for size, count in absent.items()):
        parts[ABSENT] = rest
    return {what: value for what, value in parts.items() if value}
