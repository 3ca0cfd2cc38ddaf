"""solve(): heuristics, bounds, exact search of orders, packing, the joint model; one checked plan.

:func:`solve` makes a question of its arguments, and :func:`answer` runs the stages of an engine on
it. Each stage runs only while something is left to prove, so that an easy graph imports no solver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from types import NoneType
from typing import SupportsIndex, Unpack

from heuristics.orderings.program import program
from optsched.check.plan import check_order
from optsched.errors import UsageError, expect
from optsched.model.arrays import Integers
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.model.order_rules import NO_RULES, OrderRules, make_baseline
from optsched.model.plan import Plan
from optsched.model.pools import Pool
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
    Proof,
    choose_limits,
    choose_member,
)
from optsched.solver import near, order_packing, stages, streams
from optsched.solver.driver import Feature, Stage, run_stages
from optsched.solver.effort import EFFORT
from optsched.solver.finding import Finding, slab_bound
from optsched.solver.known import Known
from optsched.solver.order_packing import Findings, found_orders
from optsched.solver.result import Result
from optsched.solver.resume import Resume

Stages = tuple[Stage[Known], ...]


class Engine(StrEnum):
    """Exact engine to run after heuristics and simple bounds."""

    AUTO = "auto"
    """Our own search; then the joint CP-SAT model if the graph is small."""
    CPSAT = "cpsat"
    """The joint CP-SAT model, regardless of the size."""
    MILP = "milp"
    """The order by MILP: an independent second opinion on small graphs."""
    HEURISTICS = "heuristics"
    """None: heuristics and bounds only."""


@keywords
def solve(
    graph: Graph,
    *,
    pools: Sequence[Pool] = (),
    objective: Objective | str = Objective.SLAB,
    capacity: int | str | SupportsIndex | None = None,
    inplace: bool = False,
    align: int | str | SupportsIndex | None = None,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | Clock | None = None,
    warm_start: Plan | None = None,
    progress: Resume | None = None,
    order_rules: OrderRules = NO_RULES,
    baseline: Plan | Integers | Sequence[str] | None = None,
    max_moved: SupportsIndex | None = None,
    fewest_moves: bool = False,
    independent: bool = False,
    on_event: OnEvent | None = None,
    **named: Unpack[LimitKeywords],
) -> Result:
    """Choose an order and offsets of minimum slab or peak, with a proof or a gap.

    Parameters
    ----------
    graph
        Graph to plan. If its buffers name several pools, each pool has a slab, the slab is the sum
        of these, and the peak is that of all pools together.
    pools
        Pools with capacities, in order of preference: a buffer that does not fit into its pool
        spills to the next one. A buffer that names no pool belongs to the first; a pinned buffer
        stays in its own (default: the pools that buffers name, without capacities).
    objective
        `slab` (minimum slab, then minimum peak) or `peak` (minimum peak, then minimum slab).
    capacity
        Bytes of slab that are enough, regardless of the objective: `65536` or `"64KiB"` (default:
        minimize).
    inplace
        True if an op may write an output into a candidate input that dies at it.
    align
        A power of two; sizes are rounded up and offsets placed at its multiples.
    engine
        Exact engine, see :class:`Engine`.
    limits
        Time or work, threads and seed (default: 60 seconds). Ctrl-C ends the search as they do.
    warm_start
        A valid plan to start from.
    progress
        State of an earlier search of this graph (`Result.progress`) to resume. Its bounds are
        believed: it must come from a search that you trust.
    order_rules
        Ops to run first or last, and groups to run in a given sequence.
    baseline
        An order to stay near: a plan, or the ids or names of all ops (default: the order in which
        the graph lists its ops, if one of the next two asks for a baseline).
    max_moved
        Maximum number of moved ops of the baseline: all but those of a longest common subsequence.
        Bounds are then about the orders within this limit.
    fewest_moves
        True to minimize moved ops among the plans with the best value of the objective. The status
        is optimal only if that is proved as well.
    independent
        True to run engine `cpsat` or `milp` without our reductions and bounds, so that its claims
        are a second opinion.
    on_event
        Called with every better plan and bound.
    named
        Single limits: `time_limit=5`, `work=`, `workers=`, `seed=`.

    Returns
    -------
    Result
        Its plan was accepted by the independent checker and is at least as good as those of the
        heuristics.

    Raises
    ------
    UsageError
        If an option is invalid, alone or with another one, or a buffer names no given pool.
    GraphError
        If no order keeps the rules or the limit on moved ops.
    PlanError
        If the warm start breaks a rule of the graph.
    """
    expect("warm_start", warm_start, Plan, NoneType)
    expect("progress", progress, Resume, NoneType)
    expect("order_rules", order_rules, OrderRules)
    graph = plannable(graph, inplace, align)
    given = baseline.order if isinstance(baseline, Plan) else baseline
    asked = choose_member(Objective, objective, "objective")
    room = None if capacity is None else parse_bytes(capacity)
    question = Question(
        graph,
        order_rules,
        make_baseline(graph, given, max_moved, fewest_moves),
        # A capacity limits the slab, so that the slab is what the search lowers.
        asked if room is None else Objective.SLAB,
        room,
        tuple(pools),
    )
    if question.pools:
        _refuse_with_pools(question, progress, independent)
    clock = Clock.of(choose_limits(limits, named))
    engine = choose_member(Engine, engine, "engine")
    if independent and engine not in _INDEPENDENT:
        raise UsageError(f"independent needs engine cpsat or milp, got {engine.value!r}")
    stages_of = _INDEPENDENT if independent else None
    return answer(question, clock, engine, warm_start, progress, on_event, stages_of)


def _refuse_with_pools(question: Question, progress: Resume | None, independent: bool) -> None:
    if question.capacity is not None:
        raise UsageError("pools exclude capacity: give each pool its own, Pool(name, bytes)")
    excluded = {
        "progress": progress is not None,
        "baseline, max_moved and fewest_moves": question.near is not None,
        "independent": independent,
    }
    for name, given in excluded.items():
        if given:
            raise UsageError(f"pools exclude {name}")


def answer(
    question: Question,
    clock: Clock,
    engine: Engine = Engine.AUTO,
    plan: Plan | None = None,
    start: Resume | None = None,
    on_event: OnEvent | None = None,
    stages_of: Mapping[Engine, Stages] | None = None,
) -> Result:
    """Answer a question about one graph: run an engine's stages until their findings settle it.

    Parameters
    ----------
    question
        The question.
    clock
        Time or work left.
    engine
        Exact engine.
    plan, start
        A plan and the state of an earlier search to start from.
    on_event
        Called with every better plan and bound.
    stages_of
        Stages of each engine (default: with all bounds).
    """
    if question.pools:
        from optsched.solver.spill.solve import answer_in_pools

        return answer_in_pools(question, clock, engine, plan, on_event)
    known, resume = Known(question, clock, on_event), Resume.of(question, start)
    schedule = _schedule(known, engine, stages_of or _STAGES)
    for finding in _take_up(known, resume, plan):
        known.merge(finding)
    cut_short = _run(known, resume, schedule)
    for finding in _make_a_plan(known):
        known.merge(finding)
    return known.result(resume, cut_short)


def _schedule(known: Known, engine: Engine, stages_of: Mapping[Engine, Stages]) -> Stages:
    """Return an engine's stages; refuse engines that assume one op at a time on streams."""
    if not known.graph.on_streams:
        return stages_of[engine]
    if known.question.near is not None:
        known.graph.refuse_streams("a count of moved ops")
    if engine is Engine.AUTO:
        return _STREAM_STAGES
    if engine is not Engine.HEURISTICS:
        known.graph.refuse_streams(f"engine {engine}")
    return stages_of[engine]


def _run(known: Known, resume: Resume, schedule: Stages) -> bool:
    """Run all stages, then those that minimize moves if that is asked for.

    Returns
    -------
    bool
        True if a stage was stopped by its share of the time.
    """
    near_by, clock = known.question.near, known.clock
    minimizes_moves = near_by is not None and near_by.fewest_moves
    try:
        if minimizes_moves:
            known.clock = clock.share(EFFORT.objective_share)
        cut_short = run_stages(known, resume, schedule)
        known.clock = clock
        if minimizes_moves and not known.interrupted:
            known.features |= Feature.FEWEST
            run_stages(known, resume, near.FEWEST_STAGES)
    except TooManySavingsError as error:
        op = f"{known.graph.name}: op {known.graph.ops[error.op].name!r}"
        raise UsageError(f"{op}: {error}; solve without in-place") from None
    return cut_short


# What is known before, and at the end.


def _take_up(known: Known, resume: Resume, plan: Plan | None) -> Findings:
    """Yield the caller's plan, and what an earlier search has found and proved."""
    if plan is not None:
        _refuse_start(known.question, plan)
        yield Finding("warm start", plans=(plan,))
        yield from found_orders(known, "warm start", plan.order)
    if resume.graph:
        yield from _resumed(known, resume)
    if known.question.near is not None:
        yield from near.baseline_order(known)


def _refuse_start(question: Question, plan: Plan) -> None:
    if plan.placed(question.planned) != question.planned:
        raise UsageError("the warm start has buffers in other pools than their own")
    if not question.allows(plan.order):
        raise UsageError(f"the warm start moves more than {question.max_moved} ops of the baseline")


def _resumed(known: Known, resume: Resume) -> Findings:
    name, source = known.graph.name, "earlier search"
    for order in resume.orders:
        check_order(known.graph, order)
        yield from found_orders(known, source, order)
    least = known.orders.least_peak()
    if least is not None and least < resume.peak_bound:
        raise UsageError(f"{name}: an order refutes the bound of an earlier search")
    yield Finding(source, bounds=resume.bounds)
    if known.plan is not None and known.measured.slab < known.slab_bound:
        raise UsageError(f"{name}: a plan refutes the bound of an earlier search")
    # Heuristics and bounds are not repeated once there are orders.
    resume.orders = tuple(tuple(order.tolist()) for _, order in known.best_orders(1))
    if known.plan is None:
        # Without the plan that came of them, these packings are worth another look.
        resume.packed.clear()
        resume.seen.clear()


def _make_a_plan(known: Known) -> Findings:
    """Yield a plan of the best order if limits or an interrupt left none, however late it is."""
    if known.plan is None and known.interrupted:
        yield from found_orders(known, "program order", program(known.question.graph))
    yield from order_packing.pack_at_the_end(known)


# The stages of each engine.


def _pools_apart(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Plan each pool separately, regardless of the other pools' orders: a bound, and orders."""
    peaks = slabs = 0
    parts = known.question.pool_graphs
    for number, graph in enumerate(parts):
        found = answer(Question(graph), clock.share(1 / (len(parts) - number)))
        peaks, slabs = peaks + found.peak_bound, slabs + found.slab_bound
        if found.plan is not None:
            yield from found_orders(known, f"order of pool {number}", found.plan.order)
        found.stop_reason.raise_if_interrupted()
    bounds = (*slab_bound(slabs), *slab_bound(peaks, Proof.JOINT))
    yield Finding("pools apart", bounds=bounds)


def _stages() -> dict[Engine, Stages]:
    effort, small = EFFORT, EFFORT.small_ops
    bounds = (
        Stage(stages.heuristic_orders),
        Stage(stages.closure_bounds, share=effort.closure_share),
    )
    heuristics = (*bounds, Stage(order_packing.pack_heuristically))
    searches = (
        *bounds,
        Stage(order_packing.pack_before_search),
        Stage(_pools_apart, share=effort.pool_share, needs=Feature.POOLS, lacks=Feature.PEAK),
        Stage(stages.order_search),
        Stage(near.orders_near, share=effort.moves_share, needs=Feature.MOVES),
        Stage(order_packing.first_packing, share=effort.first_packing_share),
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
        Stage(stages.search_again, share=effort.again_share, lacks=Feature.MOVES, repeat=True),
        Stage(
            stages.other_orders,
            share=effort.others_share,
            lacks=stages.OTHER_ORDERS_LACK,
            repeat=True,
        ),
        Stage(
            stages.neighbourhoods,
            share=effort.neighbourhood_share,
            lacks=stages.OTHER_ORDERS_LACK,
            repeat=True,
        ),
        Stage(order_packing.last_packing, repeat=True),
    )
    return {
        Engine.AUTO: searches,
        Engine.CPSAT: (*heuristics, Stage(stages.joint_model, named=True)),
        Engine.MILP: (*heuristics, Stage(stages.milp_order, named=True)),
        Engine.HEURISTICS: heuristics,
    }


_STAGES = _stages()
_ORDERS_ONLY = (
    Stage(stages.heuristic_orders_alone),
    Stage(order_packing.pack_heuristically),
)
_INDEPENDENT: dict[Engine, Stages] = {
    Engine.CPSAT: (*_ORDERS_ONLY, Stage(partial(stages.joint_model, independent=True), named=True)),
    Engine.MILP: (*_ORDERS_ONLY, Stage(partial(stages.milp_order, independent=True), named=True)),
}
"""Stages that give an engine orders to start from, but no reductions and no bounds of ours."""
_STREAM_STAGES: Stages = (
    Stage(stages.heuristic_orders),
    Stage(streams.only_order, needs=Feature.ONE_ORDER),
    Stage(order_packing.pack_before_search),
    Stage(streams.one_at_a_time, share=EFFORT.one_stream_share),
    Stage(streams.stream_walk, share=EFFORT.walk_share),
    Stage(order_packing.first_packing, share=EFFORT.first_packing_share),
    Stage(streams.all_stream_orders, share=EFFORT.all_orders_share, most=EFFORT.small_ops),
    Stage(streams.stream_walk, repeat=True),
    Stage(order_packing.last_packing, repeat=True),
)
"""Stages of engine AUTO on several streams."""
