"""solve(): heuristics, bounds, exact search of orders, packing, the joint model; one checked plan.

The composition root: it chooses engines and keeps the best plan and bounds, and holds no
algorithm of its own. Each stage runs only while something is left to prove, so an easy graph
never imports a solver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from heuristics.orderings.program import program
from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.memory_model import refuse_inplace
from optsched.model.plan import Plan
from optsched.runtime.interrupt import held_interrupts, take_interrupt
from optsched.runtime.limits import Limits, Objective, OnEvent
from optsched.solver import stages
from optsched.solver.incumbent import Run
from optsched.solver.result import Result

DEFAULT_LIMITS = Limits(seconds=60.0)
"""Where a caller sets no limits: some questions have no answer in useful time."""
POOL_SHARE = 0.3
"""Part of the time left that the pools of a graph may take, each by itself."""


class Engine(StrEnum):
    """Who closes what the heuristics and simple bounds leave open."""

    AUTO = "auto"
    """Our search first, the joint CP-SAT model where the graph is small."""
    CPSAT = "cpsat"
    """The joint CP-SAT model, whatever the size."""
    MILP = "milp"
    """The order by MILP: an independent second opinion on small graphs."""
    HEURISTICS = "heuristics"
    """Nobody: heuristics and bounds only."""


def solve(
    graph: Graph,
    *,
    objective: Objective | str = Objective.SLAB,
    capacity: int | None = None,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | None = None,
    warm_start: Plan | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Choose an order and offsets of least slab or peak, with proof or an honest gap.

    Parameters
    ----------
    graph
        What to plan. Where its buffers name several pools each of these has a slab, the slab is
        the sum of them all, and the peak is over all pools together.
    objective
        `slab` (least slab, then least peak) or `peak` (least peak, then least slab).
    capacity
        Ask only whether a slab of this many bytes is enough.
    engine
        See :class:`Engine`.
    limits
        Time, workers, seed; a minute if None. Ctrl-C ends the search as a time limit does.
    warm_start
        A plan to start from; it must be valid.
    on_event
        Called whenever the best plan or bound moves.

    Returns
    -------
    Result
        Its plan has passed the independent checker and is never worse than the best heuristic's.

    Raises
    ------
    UsageError
        If an option makes no sense: the models of `cpsat` and `milp` know nothing of in-place.
    PlanError
        If the warm start breaks a rule of the graph.
    """
    run = Run(
        graph,
        Objective(objective),
        capacity,
        limits or DEFAULT_LIMITS,
        on_event or (lambda event: None),
    )
    turn = _STAGES[Engine(engine)]
    if MODELS & set(turn):
        refuse_inplace(graph, f"engine {engine}")
    if warm_start is not None and warm_start.placed(graph) != graph:
        raise UsageError("the warm start has buffers in other pools than their own")
    try:
        with held_interrupts():
            _run_stages(run, turn, warm_start)
    except KeyboardInterrupt:
        run.interrupted = True
        if run.plan is None:
            run.offer_order(program(graph), "program order")
    return run.result()


def _run_stages(run: Run, turn: Sequence[Stage], warm_start: Plan | None) -> None:
    """Start from the warm start; run each stage while something is left to prove."""
    if warm_start is not None:
        run.offer(warm_start, "warm start")
        run.offer_order(warm_start.order, "warm start")
    for stage in turn:
        take_interrupt()
        if run.plan is not None and run.seconds_left() == 0:
            break
        # A model asked for by name has its say even where the question is answered.
        if not run.done() or stage in MODELS:
            stage(run)


def _pools_apart(run: Run) -> None:
    """What each pool needs by itself, whatever order the others would like: a bound, and orders."""
    if not run.pool_graphs or run.objective is Objective.PEAK:
        return
    peaks = slabs = 0
    for number, graph in enumerate(run.pool_graphs):
        share = POOL_SHARE / (len(run.pool_graphs) - number * POOL_SHARE)
        found = solve(graph, limits=run.limits_left(share))
        peaks, slabs = peaks + found.peak_bound, slabs + found.slab_bound
        if found.plan is not None:
            run.offer_order(found.plan.order, f"order of pool {number}")
        run.stop_if(found.stop_reason)
    run.raise_pool_bounds(peaks, slabs, "pools apart")


Stage = Callable[[Run], None]
MODELS: frozenset[Stage] = frozenset({stages.joint_model, stages.milp_order})
"""Stages that know nothing of in-place."""
_BOUND_STAGES: tuple[Stage, ...] = (stages.heuristic_orders, stages.closure_bounds)
_HEURISTIC_STAGES: tuple[Stage, ...] = (*_BOUND_STAGES, stages.pack_heuristically)
_STAGES: dict[Engine, Sequence[Stage]] = {
    Engine.AUTO: (
        *_BOUND_STAGES,
        stages.pack_before_search,
        _pools_apart,
        stages.order_search,
        stages.first_packing,
        stages.pooled_walk,
        stages.all_orders,
        stages.other_orders,
        stages.joint_model_if_small,
        stages.packing_search,
    ),
    Engine.CPSAT: (*_HEURISTIC_STAGES, stages.joint_model),
    Engine.MILP: (*_HEURISTIC_STAGES, stages.milp_order),
    Engine.HEURISTICS: _HEURISTIC_STAGES,
}
