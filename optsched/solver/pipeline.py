"""solve(): heuristics, bounds, exact search of orders, packing, the joint model; one checked plan.

:func:`solve` makes a question of its arguments, and :func:`answer` runs the stages of an engine on
it (:mod:`optsched.solver.schedule`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import NoneType
from typing import SupportsIndex, Unpack

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
    SIZES,
    LimitKeywords,
    Limits,
    Objective,
    OnEvent,
    choose_limits,
    choose_member,
    choose_size,
)
from optsched.solver import near
from optsched.solver.driver import run_stages
from optsched.solver.effort import NEAR
from optsched.solver.features import Feature
from optsched.solver.known import Known
from optsched.solver.result import Result
from optsched.solver.resume import Resume
from optsched.solver.schedule import Engine, Stages, schedule
from optsched.solver.spill.bounds import find_own_pools
from optsched.solver.spill.stage import run_in_own_pools, spill
from optsched.solver.start import make_a_plan, take_up


@keywords
def solve(
    graph: Graph,
    *,
    pools: Sequence[Pool] = (),
    objective: Objective | str = Objective.SLAB,
    capacity: int | str | SupportsIndex | None = None,
    inplace: bool = False,
    align: int | str | SupportsIndex | None = None,
    order_rules: OrderRules = NO_RULES,
    baseline: Plan | Integers | Sequence[str] | None = None,
    max_moved: SupportsIndex | None = None,
    fewest_moves: bool = False,
    limits: Limits | Clock | None = None,
    engine: Engine | str = Engine.AUTO,
    independent: bool = False,
    on_event: OnEvent | None = None,
    warm_start: Plan | None = None,
    progress: Resume | None = None,
    **named: Unpack[LimitKeywords],
) -> Result:
    """Choose an order and offsets of minimum slab or peak, with a proof or a gap.

    The arguments up to `fewest_moves` say what is asked; they make a :class:`Question`, which
    :func:`answer` answers. Those up to `on_event` say how long and with what to search, and the
    last two where the search starts.

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
    limits
        Time or work, threads and seed (default: 60 seconds). Ctrl-C ends the search as they do.
    engine
        Exact engine, see :class:`Engine`.
    independent
        True to run engine `cpsat` or `milp` without our reductions and bounds, so that its claims
        are a second opinion.
    on_event
        Called with every better plan and bound.
    warm_start
        A valid plan to start from.
    progress
        State of an earlier search to resume (`Result.resume`), with the question of that search or
        another one about the same graph and rules. Its bounds are believed: it must come from a
        search that you trust.
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

    Examples
    --------
    Both branches must run before `join`. Running `big` first is better: its 9 bytes shrink to 1
    before the 5 bytes of `c` exist.

    >>> from optsched import GraphBuilder, solve
    >>> build = GraphBuilder("fork")
    >>> build.op("other", writes={"c": 5})
    >>> build.op("big", writes={"a": 9})
    >>> build.op("sum", reads=["a"], writes={"b": 1})
    >>> build.op("join", reads=["b", "c"], writes={"y": 1})
    >>> build.output("y")
    >>> graph = build.build()
    >>> result = solve(graph, time_limit=5)
    >>> result.slab, [graph.ops[op].name for op in result.plan.order]
    (10, ['big', 'sum', 'other', 'join'])
    """
    expect("order_rules", order_rules, OrderRules)
    graph = plannable(graph, inplace, align)
    order = baseline.order if isinstance(baseline, Plan) else baseline
    near_by = make_baseline(graph, order, max_moved, fewest_moves)
    enough = None if capacity is None else parse_bytes(capacity)
    question = Question(graph, order_rules, near_by, choose_size(objective), enough, tuple(pools))
    return answer(
        question,
        limits=limits,
        engine=engine,
        independent=independent,
        on_event=on_event,
        warm_start=warm_start,
        progress=progress,
        **named,
    )


@keywords
def answer(
    question: Question,
    *,
    limits: Limits | Clock | None = None,
    engine: Engine | str = Engine.AUTO,
    independent: bool = False,
    on_event: OnEvent | None = None,
    warm_start: Plan | None = None,
    progress: Resume | None = None,
    **named: Unpack[LimitKeywords],
) -> Result:
    """Answer a question about a graph, such as that of an earlier result.

    Parameters
    ----------
    question
        The graph in its memory model, order rules, baseline, objective, capacity
        and pools.
    limits, engine, independent, on_event, warm_start, progress, named
        As for :func:`solve`.

    Returns
    -------
    Result
        As of :func:`solve`. With a capacity the slab is minimized, for each objective.

    Raises
    ------
    UsageError
        If an option is invalid, alone or with the question, or the question has a budget, which
        :func:`recompute` answers.
    GraphError
        If no order keeps the rules or the limit on moved ops.
    PlanError
        If the warm start breaks a rule of the graph.

    Examples
    --------
    A limit ends a search. It is resumed with its question and its state, without naming alignment
    and order rules again:

    >>> from optsched import GraphBuilder, OrderRules, answer, solve
    >>> build = GraphBuilder("pair")
    >>> build.op("load", writes={"x": 5})
    >>> build.op("scale", reads=["x"], writes={"y": 4})
    >>> build.output("y")
    >>> first = solve(build.build(), align=8, order_rules=OrderRules(last=["scale"]), work=1)
    >>> later = answer(first.question, progress=first.resume, time_limit=5)
    >>> later.slab, later.question == first.question
    (16, True)
    """
    # Refused here: a dict or a path would fail deep inside, with a message that explains nothing.
    expect("answer", question, Question)
    expect("warm_start", warm_start, Plan, NoneType)
    expect("progress", progress, Resume, NoneType)
    question = _about_sizes(question)
    clock = Clock.of(choose_limits(limits, named))
    engine = choose_member(Engine, engine, "engine")
    own_pools = find_own_pools(question) if question.pools else None
    question = question if own_pools is None else own_pools.question
    known, resume = Known(question, clock, on_event, own_pools), Resume.of(question, progress)
    stages = schedule(known, engine, answer, independent=independent)
    for finding in take_up(known, resume, warm_start):
        known.merge(finding)
    cut_short = _run(known, resume, stages)
    # If limits or an interrupt left no plan, the best order known is packed now.
    # Also without time: an order is known from the start, and some plan is better than none.
    for finding in make_a_plan(known):
        known.merge(finding)
    for finding in near.back_to_own_order(known):
        known.merge(finding)
    if known.own_pools is not None:
        spill(known, resume, warm_start)
    return known.result(resume, cut_short)


def _about_sizes(question: Question) -> Question:
    """Return a question with the quantity that the search lowers as its objective."""
    if question.objective not in SIZES:
        raise UsageError("the question limits the cost of repeats: call recompute with its graph")
    # A capacity limits the slab, so that the slab is what the search lowers.
    return question if question.capacity is None else replace(question, objective=Objective.SLAB)


def _run(known: Known, resume: Resume, stages: Stages) -> bool:
    """Run all stages, then those that minimize moves if that is asked for.

    Return True if a stage was stopped by its share of the time.
    """
    near_by, clock = known.question.near, known.clock
    minimizes_moves = near_by is not None and near_by.fewest_moves
    try:
        if minimizes_moves:
            # The objective must not take all the time, as moves are minimized only after it.
            known.clock = clock.share(NEAR.objective_share)
        run = run_stages if known.own_pools is None else run_in_own_pools
        cut_short = run(known, resume, stages)
        known.clock = clock
        if minimizes_moves and not known.interrupted:
            # From now on a plan as good as the best, but with fewer moves, counts as better.
            known.features |= Feature.FEWEST
            run_stages(known, resume, near.FEWEST_STAGES)
    except TooManySavingsError as error:
        op = f"{known.graph.name}: op {known.graph.ops[error.op].name!r}"
        raise UsageError(f"{op}: {error}; solve without in-place") from None
    return cut_short
