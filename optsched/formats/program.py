"""The slab form of a plan: a program that allocates the slab, slices it, runs the ops, releases.

It is Python text over three functions that whoever runs it brings along: `allocate_slab(bytes)`,
`run(op)` and `release_slab(slab)`. `tensors` holds the slice of each buffer from the op that first
needs it to the op that uses it last.

References
----------
PyTorch pull request 64347: `prim::AllocateSlab`, `prim::AllocateTensor`, `prim::ReleaseSlab`.
"""

from __future__ import annotations

from collections import defaultdict

from optsched.errors import UsageError
from optsched.formats.layout import PlacedBuffer, PlanLayout


def program_text(layout: PlanLayout) -> bytes:
    """Return the program of a plan.

    Raises
    ------
    UsageError
        If sizes and live ranges are not known.
    """
    if not layout.sized:
        raise UsageError("a program needs sizes and live ranges: give the graph as well")
    slabs = {pool: f"slab{number or ''}" for number, pool in enumerate(layout.slabs)}
    born, dying = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
    for buffer, birth in zip(layout.buffers, layout.births, strict=True):
        if buffer.end is None or buffer.end <= birth:
            continue
        born[birth].append(_slice(buffer, slabs[buffer.pool]))
        if buffer.end < len(layout.order):
            dying[buffer.end - 1].append(f"del tensors[{buffer.name!a}]")
    lines = [f"# {layout.graph!a}: {len(layout.order)} ops, {len(layout.buffers)} buffers"]
    for pool, size in layout.slabs.items():
        note = f"  # pool {pool!a}" if pool else ""
        lines.append(f"{slabs[pool]} = allocate_slab({size}){note}")
    lines.append("tensors = {}")
    for step, op in enumerate(layout.order):
        lines += [*born[step], f"run({op!a})", *dying[step]]
    if not layout.order:
        lines += born[0]
    lines += [f"release_slab({slab})" for slab in slabs.values()]
    return ("\n".join(lines) + "\n").encode("ascii")


def _slice(buffer: PlacedBuffer, slab: str) -> str:
    end = buffer.offset + (buffer.size or 0)
    note = f"  # a view of {buffer.view_of!a}" if buffer.view_of else ""
    return f"tensors[{buffer.name!a}] = {slab}[{buffer.offset}:{end}]{note}"
