"""compare_methods(): one graph in memory, in this process."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.compare.measure import Bench
from optsched.compare.methods import parse_methods, with_reference
from optsched.compare.rows import Comparison, Failed, Outcome, judge
from optsched.compare.task import Started, measure_all
from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits, OnEvent
from optsched.solver.pipeline import Engine
from optsched.solver.result import DEFAULT_LIMITS


def compare_methods(
    graph: Graph,
    *,
    methods: Sequence[str] | None = None,
    engine: Engine = Engine.AUTO,
    limits: Limits | None = None,
    on_event: OnEvent | None = None,
) -> Comparison:
    """Run methods on a graph and measure each against the best known plan and bound.

    Parameters
    ----------
    graph
        The graph.
    methods
        Names as of :func:`optsched.compare.parse_methods`; all orderings, packings and our own plan
        if None. Our own plan is always made: it brings the bound.
    engine, limits, on_event
        For our own plan, and other solvers without a limit of their own.

    Raises
    ------
    UsageError
        If a method is not known, or none of them made a plan.
    """
    chosen, reference = with_reference(parse_methods(methods))
    bench = Bench(graph, limits or DEFAULT_LIMITS, engine, on_event=on_event)
    outcomes: dict[str, Outcome] = {}

    def keep(message: Started | Outcome) -> None:
        if not isinstance(message, Started):
            outcomes[message.method] = message

    measure_all(bench, chosen, reference, keep)
    found = judge(graph, chosen, outcomes, reference.name)
    if found is None:
        reasons = "; ".join(
            f"{x.method}: {x.reason}" for x in outcomes.values() if isinstance(x, Failed)
        )
        raise UsageError(f"no method made a plan of {graph.name}: {reasons}")
    return found
