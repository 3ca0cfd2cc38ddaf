"""Results of the recompute planner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, Planned, make_plan
from optsched.model.question import Question
from optsched.model.runs import Unrolled, unroll
from optsched.runtime.limits import Limits, Objective, StopReason
from optsched.runtime.shown import Told
from optsched.solver.pack import pack
from optsched.solver.recompute.bound import IMPOSSIBLE
from optsched.solver.recompute.prove import Proof
from optsched.solver.recompute.regions import Checkpoints, checkpoints
from optsched.solver.status import Status, judge

if TYPE_CHECKING:
    # Type checkers take no other descriptor where a parameter wants an object with a property.
    cached_property = property
else:
    from functools import cached_property


@dataclass(frozen=True, slots=True)
class Repeat:
    """Repeats of one op, and why it runs again."""

    op: str
    """Its name."""
    count: int
    cost: int
    """`count` and `cost`: number of repeats, and their cost."""
    size: int
    """Bytes of its first run that need not be kept."""
    readers: tuple[str, ...]
    """Ops that read a repeat."""


@dataclass(frozen=True)
class RecomputeResult(Told):
    """The cheapest known sequence of runs within a peak, and what is proved about it."""

    graph: Graph
    """The training graph with costs; ops that read tangents wait for the loss."""
    loss: tuple[str, ...]
    """Names of the ops that make the loss."""
    budget: int
    """Bytes that the peak must not exceed."""
    sequence: tuple[int, ...] | None
    """Op ids in the order of their runs; None if no plan was found."""
    peak: int | None
    extra: int | None
    """`peak` and `extra`: most live bytes, and cost of the repeats, measured by the checker; None
    without a plan."""
    bound: int | None
    """No sequence within the budget has a smaller extra cost; None if none exists."""
    proof: Proof = field(repr=False)
    """Tree of integer multipliers that proves the bound."""
    total: int = 0
    """Cost of one run of each op."""
    stop_reason: StopReason = StopReason.EXHAUSTED
    """Why the search ended."""
    seconds: float = 0.0
    """Processor time."""
    blocker: str = ""
    """If none exists: an op, and what is known of the bytes that it needs."""

    def __repr__(self) -> str:
        plan = "no plan"
        if self.extra is not None:
            plan = f"peak {self.peak:,}, extra {self.extra:,} of {self.total:,}"
        most = "" if self.bound is None else f", at least {self.bound:,}"
        return f"RecomputeResult({self.status}, {plan}{most}, within {self.budget:,} bytes)"

    @property
    def status(self) -> Status:
        """State of knowledge about the least extra cost within the budget."""
        return judge(self.extra, self.bound or 0, refuted=self.bound is None)

    @property
    def extra_share(self) -> float | None:
        """Cost of the repeats as a share of the cost of one run of each op; None without a plan."""
        return None if self.extra is None else self.extra / max(1, self.total)

    @property
    def question(self) -> Question:
        """The question; its bound holds for those that it covers, such as smaller budgets."""
        # The loss decides which ops may run again, so the question shows it.
        return Question(self.graph, objective=Objective.COST, budget=self.budget, loss=self.loss)

    @cached_property
    def unrolled(self) -> Unrolled:
        """The graph with one op per run; its order is the order of the ops."""
        if self.sequence is None:
            raise UsageError(f"the result has no plan: {self.status}")
        return unroll(self.graph, self.sequence)

    def pack(self, seconds: float) -> Plan | None:
        """Return the runs with offsets, packed within a time; None if none were found."""
        order = range(len(self.unrolled.source))
        problem, _ = packing_problem(self.unrolled.graph, order)
        offsets = pack(problem, limits=Limits(seconds=seconds)).offsets
        return None if offsets is None else make_plan(self.unrolled.graph, order, offsets)

    @cached_property
    def graph_and_plan(self) -> Planned:
        """The unrolled graph, with one op per run, and its plan, packed within five seconds."""
        return Planned(self.unrolled.graph, self.pack(5.0))

    @cached_property
    def repeats(self) -> tuple[Repeat, ...]:
        """Ops that run again, the most expensive first; views are left out."""
        return repeats_of(self.graph, self.sequence or ())

    @cached_property
    def checkpoints(self) -> Checkpoints | None:
        """The nearest plan of `torch.utils.checkpoint`; None if that saves nothing."""
        return checkpoints(self.graph, self.loss, self.sequence or ())

    @property
    def gap(self) -> float:
        """Share of the extra cost that is not proved to be needed."""
        if not self.extra or self.bound is None:
            return 0.0
        return (self.extra - self.bound) / self.extra


def repeats_of(graph: Graph, sequence: tuple[int, ...]) -> tuple[Repeat, ...]:
    """Return the repeats of a sequence."""
    if len(sequence) <= len(graph.ops):
        return ()
    made = unroll(graph, sequence)
    readers: dict[int, set[str]] = {}
    for i, op in enumerate(made.graph.ops):
        for b in op.reads:
            maker = made.graph.producers[made.graph.roots[b]]
            if maker is not None and made.number[maker]:
                readers.setdefault(made.source[maker], set()).add(graph.ops[made.source[i]].name)
    found = []
    for v in sorted({u for u, n in zip(made.source, made.number, strict=True) if n}):
        size = sum(graph.buffers[b].size for b in graph.ops[v].writes)
        count = sequence.count(v) - 1
        if size or graph.ops[v].cost:
            names = tuple(sorted(readers.get(v, ())))
            op = graph.ops[v]
            found.append(Repeat(op.name, count, count * op.cost, size, names))
    return tuple(sorted(found, key=lambda x: (-x.cost, -x.size)))


def proved_bound(proof: Proof) -> int | None:
    """Return the bound of a proof; None if it says that no schedule exists."""
    return None if proof.bound >= IMPOSSIBLE else proof.bound
