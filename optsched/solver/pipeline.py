"""solve(): heuristics, bounds, exact search of orders, packing, the joint model; one checked plan.

The composition root: it says which stages an engine has, and holds no algorithm of its own. Each
stage runs only while something is left to prove, so an easy graph never imports a solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import SupportsIndex, Unpack

from heuristics.orderings.program import program
from optsched.errors import UsageError, expect
from optsched.model.arrays import Integers
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.model.order_rules import NO_RULES, OrderRules, make_baseline
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.ordering.inplace import TooManySavingsError
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.clock import Clock
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import (
    LimitKeywords,
    Limits,
    Objective,
    OnEvent,
    choose_limits,
    choose_member,
)
from optsched.solver import stages
from optsched.solver.driver import Feature, Stage, run_stages
from optsched.solver.effort import EFFORT
from optsched.solver.incumbent import PlanIncumbent
from optsched.solver.moves import begin_near, fewest_moves_stages, orders_near
from optsched.solver.result import Result
from optsched.solver.search_progress import SearchProgress
from optsched.solver.streams import STREAM_STAGES, stream_walk


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


@keywords
def solve(
    graph: Graph,
    *,
    objective: Objective | str = Objective.SLAB,
    capacity: int | str | SupportsIndex | None = None,
    inplace: bool = False,
    align: int | str | SupportsIndex | None = None,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | Clock | None = None,
    warm_start: Plan | None = None,
    progress: SearchProgress | None = None,
    order_rules: OrderRules = NO_RULES,
    baseline: Plan | Integers | Sequence[str] | None = None,
    max_moved: SupportsIndex | None = None,
    fewest_moves: bool = False,
    on_event: OnEvent | None = None,
    **named: Unpack[LimitKeywords],
) -> Result:
    """Choose an order and offsets of minimum slab or peak, with proof or an honest gap.

    Parameters
    ----------
    graph
        What to plan. Where its buffers name several pools each of these has a slab, the slab is
        the sum of them all, and the peak is over all pools together.
    objective
        `slab` (minimum slab, then minimum peak) or `peak` (minimum peak, then minimum slab).
    capacity
        Ask only whether a slab of this many bytes is enough, whatever the objective: `65536` or
        `"64KiB"`.
    inplace
        Whether an op may write an output into a candidate input that dies at it.
    align
        A power of two to whose multiples sizes are rounded up and offsets are placed.
    engine
        See :class:`Engine`.
    limits
        Time or work, threads, seed; a minute by default. Ctrl-C ends the search as they do.
    warm_start
        A plan to start from; it must be valid.
    progress
        What an earlier search of this graph left (`Result.progress`), to go on from there. Its
        bounds are believed: it must come from a search that you trust.
    order_rules
        Ops to run first or last, and groups to run in one sequence.
    baseline
        An order to stay near: a plan, or the ids or names of all ops. Where the next two ask for
        one and none is given, the order in which the graph lists its ops.
    max_moved
        Ops of the baseline that may be moved: `n` less the longest common subsequence. Bounds are
        then of the orders that do so.
    fewest_moves
        Whether of all plans with the best value of the objective one that moves fewest ops is
        wanted; only if that is proved as well, the status is optimal.
    on_event
        Called whenever the best plan or bound moves.
    named
        The limits one by one: `time_limit=5`, `work=`, `workers=`, `seed=`.

    Returns
    -------
    Result
        Its plan has passed the independent checker and is never worse than the best heuristic's.

    Raises
    ------
    UsageError
        If an option makes no sense, alone or beside another.
    GraphError
        If no order keeps the rules, or moves so few ops.
    PlanError
        If the warm start breaks a rule of the graph.
    """
    expect("warm_start", warm_start, Plan, NoneType)
    expect("progress", progress, SearchProgress, NoneType)
    expect("order_rules", order_rules, OrderRules)
    graph = plannable(graph, inplace, align)
    given = baseline.order if isinstance(baseline, Plan) else baseline
    asked = choose_member(Objective, objective, "objective")
    room = None if capacity is None else parse_bytes(capacity)
    near = make_baseline(graph, given, max_moved, fewest_moves)
    # A capacity is one of the slab, so the slab is what the search lowers.
    lowered = asked if room is None else Objective.SLAB
    question = Question(graph, order_rules, near, lowered, room)
    best = PlanIncumbent(question, choose_limits(limits, named), on_event)
    schedule = _schedule(best, choose_member(Engine, engine, "engine"))
    if warm_start is not None:
        best.start_from(warm_start)
    if progress is not None:
        best.go_on_from(progress)
    _run(best, schedule)
    if best.plan is None and best.interrupted:
        best.offer_order(program(graph), "program order")
    stages.pack_at_the_end(best)
    return best.result()


def _schedule(best: PlanIncumbent, engine: Engine) -> Schedule:
    """Return an engine's stages; on streams refuse what takes ops for running one at a time."""
    if not best.graph.on_streams:
        return _SCHEDULES[engine]
    if best.baseline is not None:
        best.graph.refuse_streams("a count of moved ops")
    if engine is Engine.AUTO:
        return Schedule(STREAM_STAGES, (Stage(stream_walk), Stage(stages.last_packing)))
    if engine is not Engine.HEURISTICS:
        best.graph.refuse_streams(f"engine {engine}")
    return _SCHEDULES[engine]


def _run(best: PlanIncumbent, schedule: Schedule) -> None:
    """Run all stages; where fewest moves are wanted too, those that count them come behind."""
    if best.baseline is not None:
        begin_near(best, best.baseline)
    whole = best.clock
    if best.fewest:
        best.clock = whole.share(best.effort.objective_share)
    try:
        run_stages(best, schedule.first, schedule.repeated)
        best.clock = whole
        if best.fewest and not best.interrupted:
            best.counts_moves = True
            run_stages(best, fewest_moves_stages(best.effort))
    except TooManySavingsError as error:
        op = f"{best.graph.name}: op {best.graph.ops[error.op].name!r}"
        raise UsageError(f"{op}: {error}; solve without in-place") from None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Stages that run once in turn, and those repeated after them while they may bring more."""

    first: tuple[Stage[PlanIncumbent], ...]
    repeated: tuple[Stage[PlanIncumbent], ...] = ()


def _pools_apart(best: PlanIncumbent, clock: Clock) -> None:
    """Plan each pool by itself, whatever order the others would like: a bound, and orders."""
    peaks = slabs = 0
    for number, graph in enumerate(best.pool_graphs):
        part = clock.share(1 / (len(best.pool_graphs) - number))
        found = solve(graph, limits=part)
        peaks, slabs = peaks + found.peak_bound, slabs + found.slab_bound
        if found.plan is not None:
            best.offer_order(found.plan.order, f"order of pool {number}")
        found.stop_reason.raise_if_interrupted()
    best.refute_slab(slabs - 1, "pools apart", pool_peaks=peaks)


def _schedules() -> dict[Engine, Schedule]:
    effort, small = EFFORT, EFFORT.small_ops
    bounds = (
        Stage(stages.heuristic_orders),
        Stage(stages.closure_bounds, share=effort.closure_share),
    )
    heuristics = (*bounds, Stage(stages.pack_heuristically))
    repeated = (
        Stage(stages.search_again, share=effort.again_share, lacks=Feature.MOVES),
        Stage(stages.other_orders, share=effort.others_share, lacks=stages.OTHER_ORDERS_LACK),
        Stage(stages.last_packing),
    )
    searches = (
        *bounds,
        Stage(stages.pack_before_search),
        Stage(_pools_apart, share=effort.pool_share, needs=Feature.POOLS, lacks=Feature.PEAK),
        Stage(stages.order_search),
        Stage(orders_near, share=effort.moves_share, needs=Feature.MOVES),
        Stage(stages.first_packing, share=effort.first_packing_share),
        Stage(
            stages.pooled_walk,
            share=effort.walk_share,
            needs=Feature.POOLS,
            lacks=Feature.PEAK | Feature.MOVES,
        ),
        Stage(stages.all_orders, share=effort.all_orders_share, most=small),
        Stage(
            stages.joint_model_if_exact, share=effort.joint_share, lacks=Feature.MOVES, most=small
        ),
    )
    cpsat = Stage(stages.joint_model, named=True)
    milp = Stage(stages.milp_order, named=True)
    return {
        Engine.AUTO: Schedule(searches, repeated),
        Engine.CPSAT: Schedule((*heuristics, cpsat)),
        Engine.MILP: Schedule((*heuristics, milp)),
        Engine.HEURISTICS: Schedule(heuristics),
    }


_SCHEDULES = _schedules()
