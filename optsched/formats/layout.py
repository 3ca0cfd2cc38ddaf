"""Layout of a plan by names: order and offsets, and sizes and live ranges if known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optsched.check.inplace import dying_pairs, shared_spans
from optsched.errors import FormatError
from optsched.formats.fields import Record, check_format
from optsched.formats.native_plan import PLAN_FORMAT
from optsched.model.elements import MAX_ADDRESS
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges
from optsched.model.plan import Plan
from optsched.model.steps import steps_of


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """A buffer with an offset."""

    name: str
    offset: int
    pool: str = ""
    """`name`, `offset` and `pool`: as in the plan."""
    size: int | None = None
    start: int | None = None
    end: int | None = None
    alignment: int | None = None
    """`size`, `start`, `end` and `alignment`: bytes, half-open range of steps in which the buffer
    owns these bytes, and alignment of its offset; None if the graph is unknown."""
    view_of: str = ""
    """For a view, name of the buffer whose bytes it shows."""


@dataclass(frozen=True, slots=True)
class PlanLayout:
    """The layout of a plan by names."""

    graph: str
    """Name of the graph."""
    order: tuple[str, ...]
    """Names of the ops, first to run first."""
    buffers: tuple[PlacedBuffer, ...]
    """Buffers in the order of the graph, or of the plan file without a graph."""
    slabs: Mapping[str, int]
    """Bytes of the slab of each pool; a single pool is named ""."""
    sized: bool
    """True if sizes and live ranges are known."""
    births: tuple[int, ...] = ()
    """Step at which each buffer is first needed, parallel to `buffers`; empty if sizes are unknown.
    This is its `start`, or one step earlier if its op writes it into an input."""
    keep_apart: tuple[tuple[str, ...], ...] = ()
    must_share: tuple[tuple[str, ...], ...] = ()
    """`keep_apart` and `must_share`: names of buffers that never share bytes, and groups of buffers
    that start at one offset."""
    arrays: Mapping[int, int] = field(default_factory=dict)
    """Bytes of the array that the framework needs for slab and tail, by bytes of a pointer."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Name in the graph of each buffer that a run makes; empty if no op runs again."""
    runs: tuple[str, ...] = ()
    operands: tuple[tuple[str, ...], ...] = ()
    """`runs` and `operands`: op of the graph, and names of the buffers that are read and made, by
    step; empty if no op runs again."""


def layout_of_document(document: Mapping[str, Any]) -> PlanLayout:
    """Return the layout of an `optsched-plan/1` document, without sizes and live ranges."""
    top = Record(document, "plan")
    check_format(top, PLAN_FORMAT)
    offsets = Record(top.mapping("offsets"), "offsets")
    own_pools = Record(top.mapping("pool", {}), "pool")
    slabs = Record(top.mapping("slabs", {"": top.count("slab")}), "slabs")
    buffers = tuple(
        PlacedBuffer(name, offsets.count(name), own_pools.text(name, "")) for name in offsets.value
    )
    # The document has no graph, so this is the only limit that can be tested.
    limit = max([*(x.offset for x in buffers), *map(slabs.count, slabs.value)], default=0)
    if limit > MAX_ADDRESS:
        raise FormatError(
            f"plan has an offset or slab of {limit} bytes, above the limit of 2**63 - 1"
        )
    return PlanLayout(
        top.text("graph"),
        tuple(top.texts("order")),
        buffers,
        {pool: slabs.count(pool) for pool in slabs.value},
        sized=False,
    )


def layout_of(
    graph: Graph, plan: Plan, copies: Mapping[str, str] | None = None, runs: Sequence[str] = ()
) -> PlanLayout:
    """Return the layout of a plan that the checker accepts; views are listed as buffers.

    For plans with repeats, `copies` has the name in the graph of each buffer that a run makes, and
    `runs` the op of the graph by run.
    """
    graph.refuse_streams("a layout with live ranges by steps")
    placed = plan.placed(graph)
    ranges = live_ranges(placed, plan.order).tolist()
    kept = [b for b, x in enumerate(plan.offsets) if x is not None and placed.roots[b] == b]
    # A buffer that dies as its bytes are overwritten ends a step early, as its successor owns
    # them.
    spans = {b: (ranges[b][0], ranges[b][1]) for b in kept if ranges[b][1] > ranges[b][0]}
    dying = dying_pairs(placed, steps_of(placed, plan.order).tolist(), spans)
    spans = shared_spans(plan.offsets, dying, spans)
    buffers, births = [], []
    for b, offset in enumerate(plan.offsets):
        if offset is None:
            continue
        root = placed.roots[b]
        owner, (start, end) = placed.buffers[root], spans.get(root, (0, 0))
        view_of = "" if root == b else owner.name
        name, pool = placed.buffers[b].name, owner.pool
        size, alignment = owner.size, owner.alignment
        buffers.append(PlacedBuffer(name, offset, pool, size, start, end, alignment, view_of))
        births.append(ranges[root][0])
    order = tuple(placed.ops[v].name for v in plan.order)
    slabs = plan.slabs(placed)
    apart, shared = (
        tuple(tuple(placed.buffers[placed.roots[b]].name for b in row) for row in rows)
        for rows in (placed.keep_apart, placed.must_share)
    )
    return PlanLayout(
        placed.name,
        order,
        tuple(buffers),
        slabs,
        sized=True,
        births=tuple(births),
        keep_apart=apart,
        must_share=shared,
        arrays={} if len(slabs) != 1 else _arrays(graph, *slabs.values()),
        copies=copies or {},
        runs=tuple(runs),
        operands=tuple(
            tuple(placed.buffers[b].name for b in (*op.reads, *op.uses, *op.writes))
            for op in (placed.ops[v] for v in plan.order)
        )
        if runs
        else (),
    )


def _arrays(graph: Graph, slab: int) -> dict[int, int]:
    tails = graph.origin.tails if graph.origin is not None else ()
    return {tail.pointer: tail.needed(slab) for tail in tails}
