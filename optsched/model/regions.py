"""Separate regions for workspace and constants, laid out as in AITemplate's runtime.

A region is a pool of the graph in which each buffer is pinned to its place in the layout:

* Workspace is laid out as `[scratch of op 1][scratch of op 2]...[shared]`. Buffers of policy
  `scratch`, which ops keep from run to run, lie side by side. They are followed by a range as large
  as the largest op needs while it runs, shared by all ops.
* Constants lie side by side in the order of the graph, either in a region of their own or at the
  start of the slab.

Example: ops `p` and `q` keep 16 and 8 bytes from run to run and need 100 and 60 bytes of workspace.
The region has 16 + 8 + 100 = 124 bytes, and both workspaces start at offset 24.

References
----------
aitemplate/compiler/transform/memory_planning.py: `_compute_workspace`, and the triple `(max_blob,
constant_offset, workspace)` that each of its planners returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from optsched.errors import GraphError
from optsched.model.elements import Buffer, InputPolicy
from optsched.model.graph import Graph
from optsched.model.plan import Plan

WORKSPACE, CONSTANTS = "workspace", "constants"
"""Names of the two regions."""


class ConstantsRegion(StrEnum):
    """Place of constants."""

    OUTSIDE = "outside"
    """Outside the planned memory: not counted."""
    BESIDE = "beside"
    """In a separate region."""
    BEFORE = "before"
    """At the start of the slab."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Scratch bytes of all ops."""

    shared: int
    """Maximum of the bytes that an op needs while it runs."""
    unique: int
    """Sum of the bytes that ops keep from run to run."""

    @property
    def total(self) -> int:
        """Bytes of the region."""
        return self.shared + self.unique


@dataclass(frozen=True, slots=True)
class RegionSizes:
    """Bytes of a plan by region: `(blob, constants, workspace)`."""

    blob: int
    constants: int
    workspace: Workspace


def with_workspace_apart(graph: Graph) -> Graph:
    """Return the graph in which workspace lies in the region :data:`WORKSPACE`.

    Raise `GraphError` if a pool of the graph has that name, or scratch is pinned or used by several
    ops.
    """
    shared = {op.workspace for op in graph.ops if op.workspace is not None}
    # What ops keep comes first, so that the shared range starts after it, for all ops at one
    # offset.
    buffers, top = _stacked(graph, _scratch(graph), WORKSPACE)
    for b in shared:
        start = -(-top // buffers[b].alignment) * buffers[b].alignment
        buffers[b] = _moved(buffers[b], WORKSPACE, start)
    return replace(graph, buffers=tuple(buffers))


def with_constants(graph: Graph, place: ConstantsRegion) -> Graph:
    """Return the graph in which constants are counted and lie at the given place.

    Raise `GraphError` if constants need a region and a pool of the graph has its name.
    """
    constants = [b for b, x in enumerate(graph.buffers) if x.input is InputPolicy.CONSTANT]
    # Without constants no region is made.
    if place is ConstantsRegion.OUTSIDE or not constants:
        return graph
    # The slab itself is the pool without a name.
    pool = CONSTANTS if place is ConstantsRegion.BESIDE else ""
    buffers, _ = _stacked(graph, constants, pool)
    for b in constants:
        buffers[b] = replace(buffers[b], input=InputPolicy.KEPT)
    return replace(graph, buffers=tuple(buffers))


def region_sizes(graph: Graph, plan: Plan) -> RegionSizes:
    """Return the bytes of each region of a plan.

    `graph` is the graph that was planned, after :func:`with_workspace_apart` and
    :func:`with_constants`. Constants at the start of the slab are part of the blob.
    """
    slabs = dict(plan.slabs(graph))
    constants, scratch = slabs.pop(CONSTANTS, 0), slabs.pop(WORKSPACE, 0)
    ends = [
        (buffer.pin or 0) + buffer.size
        for buffer in graph.buffers
        if buffer.pool == WORKSPACE and buffer.input is InputPolicy.SCRATCH
    ]
    # The end of what ops keep; the rest of the region is the shared range.
    unique = max(ends, default=0)
    return RegionSizes(sum(slabs.values()), constants, Workspace(scratch - unique, unique))


def _scratch(graph: Graph) -> list[int]:
    """Return the buffers that ops keep from run to run, in the order of the graph."""
    found = [b for b, buffer in enumerate(graph.buffers) if buffer.input is InputPolicy.SCRATCH]
    for b in found:
        # Scratch of two ops would have to survive between them, which a region for one op cannot
        # promise.
        users = [op.name for op in graph.ops if b in (*op.reads, *op.uses)]
        if len(users) > 1:
            raise GraphError(
                f"scratch {graph.buffers[b].name!r} is used by ops {users[0]!r} and {users[1]!r}: "
                "scratch belongs to a single op"
            )
    return found


def _stacked(graph: Graph, ids: Sequence[int], pool: str) -> tuple[list[Buffer], int]:
    """Return all buffers, with some of them side by side in a pool, and the end of the last one."""
    taken = next((x for x in graph.buffers if pool and x.pool == pool), None)
    if taken is not None:
        raise GraphError(
            f"buffer {taken.name!r} lies in a pool {pool!r}, which is the name of the region"
        )
    buffers, top = list(graph.buffers), 0
    for b in ids:
        # Each one at the next offset that its alignment allows.
        at = -(-top // buffers[b].alignment) * buffers[b].alignment
        buffers[b] = _moved(buffers[b], pool, at)
        top = at + buffers[b].size
    return buffers, top


def _moved(buffer: Buffer, pool: str, offset: int) -> Buffer:
    if buffer.pin is not None and (buffer.pin, buffer.pool) != (offset, pool):
        raise GraphError(
            f"buffer {buffer.name!r} is pinned to {buffer.pin} and cannot lie at {offset} "
            f"of region {pool or 'slab'!r}"
        )
    return replace(buffer, pool=pool, pin=offset)
