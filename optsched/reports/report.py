"""Contents of a report: checked plans, bounds and proofs, before they are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan
from optsched.reports.view import View, graph_subject, packing_view, plan_view
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Event, Limits, Proof
from optsched.solver.packing_result import PackingResult
from optsched.solver.result import Result

if TYPE_CHECKING:
    from optsched.compare import Comparison
    from optsched.compare.rows import StockPlan
    from optsched.model.saving import Saving

MANY_OPS = 20_000
"""Maximum number of ops for an explanation of the bound; beyond, it would take minutes."""


@dataclass(frozen=True, slots=True)
class Report:
    """The contents of a report."""

    result: Result
    """Result of our own solver: the bounds that all plans are measured against, with proofs."""
    views: Sequence[View]
    """Plans to show; the others are compared with the first."""
    comparison: Comparison | None = None
    """Comparison of heuristics with the optimum; None if not requested."""
    explained: Mapping[str, Any] | None = None
    """Explanation of the bound, in the form of :meth:`Explanation.to_dict`; None if unknown."""
    saving: Saving | None = None
    """Saving of the smallest plan shown against the framework's own; None if not worked out."""
    traces: Mapping[str, Sequence[Event]] = field(default_factory=dict)
    """Events of incumbent and bound, by the name of the search."""

    @property
    def bound_label(self) -> str:
        """Label of the bound in pictures; names the plans that it covers if these are not all."""
        return f"proven bound{among(self.result)}"


def among(result: Result) -> str:
    """Return the restriction of a result's bounds as " among ..."; empty for all plans."""
    return f" among {result.restriction}" if result.restriction else ""


def make_report(
    graph: Graph,
    result: Result,
    plans: Sequence[tuple[str, Plan, Sequence[Event]]],
    comparison: Comparison | None = None,
    limits: Limits | Clock | None = None,
) -> Report:
    """Check plans of a graph, and return a report of them beside our own solver's result.

    Each plan has a name and the events of its search, if known. `comparison` is a comparison of
    heuristics with the optimum, if one was made. A plan that breaks a rule of the graph, or that
    the result's question does not allow, raises :class:`PlanError`. The op that forces
    most bytes is looked for within `limits`, if there are any.
    """
    graph.refuse_streams("a picture of live bytes step by step")
    # A plan outside of the question would be measured against a bound that does not hold for it.
    for name, plan, _ in plans:
        if result.question is not None and not result.question.allows(plan.order):
            raise PlanError(
                f"{name}: plan moves more ops than the result covers ({result.restriction})"
            )
    if not all(plan.keeps_pools(graph) for _, plan, _ in plans):
        # Slab bounds assume that every buffer lies in its own pool. The bound on live bytes holds
        # for any pool.
        proof = Proof.JOINT if result.slab == result.peak_bound else None
        bound = result.peak_bound
        result = replace(
            result, slab_bound=bound, slab_proof=proof, claimed_bound=None, runtime=0.0, trace=()
        )
    explained = None
    # Explanations of very large graphs take longer than people wait for a page.
    if len(graph.ops) <= MANY_OPS:
        from optsched.explanation import explain_op

        explained = explain_op(graph, limits=limits).to_dict()
    subject = graph_subject(graph)
    views = [plan_view(graph, plan, name, subject) for name, plan, _ in plans]
    traces = {f"the search for {name}": trace for name, _, trace in plans}
    events = {**traces, "the proof": result.trace}
    return Report(result, views, comparison, explained, traces=events)


def report_saving(report: Report, what: Graph, known: StockPlan | None) -> Saving:
    """Return the saving of the smallest plan of a report of a graph against the framework's."""
    from optsched.compare.saving import figures_of, saving_of

    # The slab first: it is what a program allocates.
    best = min(report.views, key=lambda view: (view.slab, view.peak))
    own = {"peak": best.peak, "slab": best.slab, "order": [name for name, _ in best.steps]}
    return saving_of(what, known, **{**figures_of(report.result), **own})


def make_packing_report(
    problem: PackingProblem,
    results: Sequence[PackingResult],
    packings: Sequence[tuple[str, IntArray, Sequence[str]]],
) -> Report:
    """Check packings of given live ranges, and return a report of them.

    `results` are our own packer's results, one per pool. Each packing has a name, offsets and the
    pool of each buffer (empty if there is only one). A packing that breaks a rule raises
    :class:`PlanError`.
    """
    views = [packing_view(problem, offsets, name, pools) for name, offsets, pools in packings]
    proofs = {result.slab_proof for result in results}
    slabs = [result.slab for result in results if result.slab is not None]
    result = Result(
        plan=None,
        peak=problem.peak,
        # Several pools: the sum counts only if each one was packed.
        slab=sum(slabs) if len(slabs) == len(results) else None,
        peak_bound=problem.peak,
        slab_bound=sum(result.slab_bound for result in results),
        peak_proof=None,
        # One kind of proof for the sum only if all parts have it.
        slab_proof=proofs.pop() if len(proofs) == 1 else None,
        stop_reason=results[-1].stop_reason,
        runtime=sum(result.runtime for result in results),
    )
    return Report(result, views)
