"""Export of a plan as a program that allocates a slab, and runs ops on slices of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from optsched.errors import UsageError
from optsched.formats.layout import PlacedBuffer, PlanLayout


def program(layout: PlanLayout) -> bytes:
    """Return a program that calls three functions of its user.

    These are `allocate_slab(bytes)`, `run(op)` and `release_slab(slab)`. `tensors` holds the slice
    of each buffer from the op that first needs it to the op that uses it last.

    References
    ----------
    PyTorch pull request 64347: `prim::AllocateSlab`, `prim::AllocateTensor`, `prim::ReleaseSlab`.
    """
    if not layout.sized:
        raise UsageError("a program needs sizes and live ranges; give the graph as well")
    slabs = {pool: f"slab{number or ''}" for number, pool in enumerate(layout.slabs)}
    born, dying = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
    for buffer, birth in zip(layout.buffers, layout.births, strict=True):
        if buffer.end is None or buffer.end <= birth:
            # A buffer that is not live in any step needs no slice.
            continue
        born[birth].append(_slice(buffer, slabs[buffer.pool]))
        if buffer.end < len(layout.order):
            # The last reader is the op before `end`.
            dying[buffer.end - 1].append(f"del tensors[{buffer.name!a}]")
    lines = [f"# {layout.graph!a}: {len(layout.order)} ops, {len(layout.buffers)} buffers"]
    for pool, size in layout.slabs.items():
        note = f"  # pool {pool!a}" if pool else ""
        lines.append(f"{slabs[pool]} = allocate_slab({size}){note}")
    lines.append("tensors = {}")
    if layout.operands:
        lines += _runs(layout, slabs)
    for step, op in enumerate(() if layout.operands else layout.order):
        lines += [*born[step], f"run({op!a})", *dying[step]]
    if not layout.order:
        # Without an op there is only step 0, where inputs are born.
        lines += born[0]
    lines += [f"release_slab({slab})" for slab in slabs.values()]
    return ("\n".join(lines) + "\n").encode("ascii")


def _slice(buffer: PlacedBuffer, slab: str, name: str = "") -> str:
    end = buffer.offset + (buffer.size or 0)
    note = f"  # a view of {buffer.view_of!a}" if buffer.view_of else ""
    return f"tensors[{name or buffer.name!a}] = {slab}[{buffer.offset}:{end}]{note}"


def _runs(layout: PlanLayout, slabs: Mapping[str, str]) -> list[str]:
    """Return the runs of a plan with repeats, by the names of the graph.

    Under the name of a buffer, `tensors` has the copy that the next run reads or makes.
    """
    bound = _Bound(layout, slabs)
    ends = defaultdict[int, list[str]](list)
    for buffer, birth in zip(layout.buffers, layout.births, strict=True):
        if buffer.end is not None and birth < buffer.end < len(layout.order):
            ends[buffer.end - 1].append(buffer.name)
    for step, operands in enumerate(layout.operands):
        for copy in operands:
            bound.put(copy)
        bound.lines.append(f"run({layout.runs[step]!a})")
        for copy in ends[step]:
            bound.drop(copy, step)
    return bound.lines


class _Bound:
    """Copies that `tensors` has while runs go by, by the names of the graph."""

    def __init__(self, layout: PlanLayout, slabs: Mapping[str, str]) -> None:
        self.layout, self.slabs = layout, slabs
        self.placed = {buffer.name: buffer for buffer in layout.buffers}
        self.now: dict[str, str] = {}
        self.lines: list[str] = []

    def put(self, copy: str) -> None:
        """Show a copy under its name in the graph, unless it is there."""
        name = self.layout.copies.get(copy, copy)
        if copy in self.placed and self.now.get(name) != copy:
            self.now[name] = copy
            buffer = self.placed[copy]
            self.lines.append(_slice(buffer, self.slabs[buffer.pool], name))

    def drop(self, copy: str, step: int) -> None:
        """Take back a copy that is not live after a step."""
        name = self.layout.copies.get(copy, copy)
        if self.now.get(name) != copy:
            return
        # The caller's copy of an output comes back after a later one that nobody reads.
        for other, buffer in self.placed.items():
            is_live = (buffer.start or 0) <= step < (buffer.end or 0) - 1
            if is_live and self.layout.copies.get(other, other) == name:
                self.put(other)
                return
        del self.now[name]
        self.lines.append(f"del tensors[{name!a}]")
