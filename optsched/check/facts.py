"""Facts that the rules of the checker read: steps, live ranges, and the bytes of each buffer.

They are derived from ops, buffers and the plan alone, in plain integers. Nothing that solvers or
the flat arrays computed is used, so that an error there shows as a broken rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from optsched.check.inplace import Pairs, dying_pairs, shared_spans
from optsched.check.lives import Spans, live_spans
from optsched.check.precedence import Precedence
from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import Question

Extent = tuple[int, int]
"""Half-open range of bytes."""


@dataclass(frozen=True)
class OrderFacts:
    """An order that runs each op once, after all ops it needs."""

    graph: Graph
    order: Sequence[int]
    """`graph` and `order`: the graph, and its op ids, first to run first."""
    step: Sequence[int]
    """Position of each op in the order."""
    spans: Spans
    """Half-open live range of each root that is counted and live at some step."""

    @classmethod
    def of_order(cls, graph: Graph, order: Sequence[int]) -> OrderFacts:
        """Replay an order.

        Raise `PlanError` if an op is missing, unknown, listed twice, or listed before one that it
        needs.
        """
        step = steps_of_order(graph, order)
        return cls(graph, order, step, live_spans(graph, order, step))

    @cached_property
    def sizes(self) -> list[int]:
        """Bytes of each buffer, by id."""
        return [buffer.size for buffer in self.graph.buffers]

    @cached_property
    def dying(self) -> dict[int, Pairs]:
        """By op, the outputs that may be written into an input, with the root of that input."""
        return dying_pairs(self.graph, self.step, self.spans)

    @cached_property
    def precedence(self) -> Precedence:
        """Ops that precede each other whenever the streams run this order."""
        return Precedence(self.graph, self.order)


@dataclass(frozen=True)
class PlanFacts(OrderFacts):
    """A plan whose order is valid; its offsets are not checked yet."""

    question: Question
    """The question that the plan answers. Its graph is :attr:`graph`, except that buffers of the
    latter lie in the pools of the plan."""
    offsets: Sequence[int | None]
    """Offset of each buffer by id, or None."""

    @classmethod
    def of(cls, question: Question, plan: Plan) -> PlanFacts:
        """Replay the order of a plan.

        Raise `PlanError` if the order is not valid, or the plan is not one of this graph: other
        counts of buffers, or pools that it may not use.
        """
        given = question.graph
        if len(plan.offsets) != len(given.buffers):
            raise PlanError(
                f"plan has {len(plan.offsets)} offsets, the graph {len(given.buffers)} buffers"
            )
        # Pools of the plan become part of the graph, so that rules need not know of them.
        graph = plan.placed(given)
        order = OrderFacts.of_order(graph, plan.order)
        return cls(graph, order.order, order.step, order.spans, question, plan.offsets)

    @cached_property
    def pools(self) -> list[str]:
        """Pool of each buffer, by id."""
        return [buffer.pool for buffer in self.graph.buffers]

    @cached_property
    def own(self) -> Spans:
        """The live ranges, without the step that an output shares with the input it overwrites."""
        return shared_spans(self.offsets, self.dying, self.spans)

    @cached_property
    def placed(self) -> dict[int, int]:
        """Offsets of the roots that need bytes of their own at some step."""
        found = {}
        sizes, offsets = self.sizes, self.offsets
        for b, (start, end) in self.own.items():
            offset = offsets[b]
            # Outputs that lie in their input for all of their life need no bytes of their own.
            if offset is not None and start < end and sizes[b]:
                found[b] = offset
        return found

    @cached_property
    def filled(self) -> dict[int, Extent]:
        """Return the bytes that each placed root fills; a group counts as its largest member."""
        size = list(self.sizes)
        for group in self.graph.must_share:
            members = [b for b in group if b in self.placed]
            # All members fill as many bytes as the largest, wherever the others lie.
            for b in members:
                size[b] = max(self.sizes[i] for i in members)
        return {b: (at, at + size[b]) for b, at in self.placed.items()}

    @cached_property
    def slabs(self) -> dict[str, int]:
        """The slab of each pool that a buffer with an offset lies in: the end of its last byte."""
        ends: dict[str, int] = {}
        rows = zip(self.pools, self.sizes, self.graph.roots, self.offsets, strict=True)
        for b, (pool, size, root, offset) in enumerate(rows):
            if offset is not None and root == b and offset + size > ends.get(pool, -1):
                ends[pool] = offset + size
        return ends

    def name(self, b: int) -> str:
        """Return the quoted name of a buffer, for messages."""
        return repr(self.graph.buffers[b].name)


def steps_of_order(graph: Graph, order: Sequence[int]) -> list[int]:
    """Return the step of each op.

    Raise `PlanError` if an op is missing, unknown, listed twice, or listed before one that it
    needs.
    """
    count, before = len(graph.ops), graph.predecessors
    step: list[int | None] = [None] * count
    for position, v in enumerate(order):
        if not 0 <= v < count:
            raise PlanError(f"step {position}: unknown op number {v}")
        if step[v] is not None:
            raise PlanError(f"op {graph.ops[v].name!r} runs twice, at steps {step[v]}, {position}")
        for u in before[v]:
            if step[u] is None:
                raise PlanError(
                    f"op {graph.ops[v].name!r} (step {position}) runs before "
                    f"{graph.ops[u].name!r}, which it needs"
                )
        step[v] = position
    steps = [s for s in step if s is not None]
    if len(steps) != len(graph.ops):
        missing = graph.ops[step.index(None)].name
        raise PlanError(f"op {missing!r} is not in the order")
    return steps
