"""solve(): heuristics, bounds, exact search of orders, packing, the joint model; one checked plan.

:func:`solve` makes a question of its arguments (:mod:`optsched.solver.ask`), and :func:`answer`
runs the stages of an engine on it (:mod:`optsched.solver.schedule`).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import SupportsIndex, Unpack

from optsched.errors import UsageError, expect
from optsched.model.arrays import Integers
from optsched.model.graph import Graph
from optsched.model.order_rules import NO_RULES, OrderRules
from optsched.model.plan import Plan
from optsched.model.pools import Pool
from optsched.model.question import Question
from optsched.ordering.inplace import TooManySavingsError
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
from optsched.solver import near
from optsched.solver.ask import ask
from optsched.solver.driver import run_stages
from optsched.solver.effort import NEAR
from optsched.solver.features import Feature
from optsched.solver.known import Known
from optsched.solver.result import Result
from optsched.solver.resume import Resume
from optsched.solver.schedule import Engine, Stages, schedule
from optsched.solver.start import make_a_plan, take_up


@keywords
def solve(
    graph: Graph | Question,
    *,
    pools: Sequence[Pool] = (),
    objective: Objective | str | None = None,
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

    The arguments up to `fewest_moves` say what is asked; they make a :class:`Question`. Those up to
    `on_event` say how long and with what to search, and the last two where the search starts.

    Parameters
    ----------
    graph
        Graph to plan. If its buffers name several pools, each pool has a slab, the slab is the sum
        of these, and the peak is that of all pools together. Or a :class:`Question`, such as
        `result.question`, without the arguments that make one.
    pools
        Pools with capacities, in order of preference: a buffer that does not fit into its pool
        spills to the next one. A buffer that names no pool belongs to the first; a pinned buffer
        stays in its own (default: the pools that buffers name, without capacities).
    objective
        `slab` (minimum slab, then minimum peak) or `peak` (minimum peak, then minimum slab);
        `slab` by default.
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

    A search that a limit ended is resumed with its question and its state:

    >>> solve(result.question, progress=result.resume, time_limit=5).slab
    10
    """
    # Refused here: a dict or a path would fail deep inside, with a message that explains nothing.
    expect("warm_start", warm_start, Plan, NoneType)
    expect("progress", progress, Resume, NoneType)
    question = ask(
        graph,
        pools=pools,
        objective=objective,
        capacity=capacity,
        inplace=inplace,
        align=align,
        order_rules=order_rules,
        baseline=baseline,
        max_moved=max_moved,
        fewest_moves=fewest_moves,
    )
    clock = Clock.of(choose_limits(limits, named))
    engine = choose_member(Engine, engine, "engine")
    return answer(question, clock, engine, warm_start, progress, on_event, independent)


def answer(
    question: Question,
    clock: Clock,
    engine: Engine = Engine.AUTO,
    plan: Plan | None = None,
    start: Resume | None = None,
    on_event: OnEvent | None = None,
    independent: bool = False,
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
    independent
        True to run the engine without our reductions and bounds.
    """
    if question.pools:
        from optsched.solver.spill.solve import answer_in_pools

        _refuse_with_pools(question, start, independent)
        return answer_in_pools(question, clock, engine, plan, on_event)
    known, resume = Known(question, clock, on_event), Resume.of(question, start)
    stages = schedule(known, engine, answer, independent=independent)
    for finding in take_up(known, resume, plan):
        known.merge(finding)
    cut_short = _run(known, resume, stages)
    # If limits or an interrupt left no plan, the best order known is packed now.
    # Also without time: an order is known from the start, and some plan is better than none.
    for finding in make_a_plan(known):
        known.merge(finding)
    return known.result(resume, cut_short)


def _refuse_with_pools(question: Question, start: Resume | None, independent: bool) -> None:
    if question.capacity is not None:
        raise UsageError("pools exclude capacity: give each pool its own, Pool(name, bytes)")
    excluded = {
        "progress": start is not None,
        "baseline, max_moved and fewest_moves": question.near is not None,
        "independent": independent,
    }
    for name, given in excluded.items():
        if given:
            raise UsageError(f"pools exclude {name}")


def _run(known: Known, resume: Resume, stages: Stages) -> bool:
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
            # The objective must not take all the time, as moves are minimized only after it.
            known.clock = clock.share(NEAR.objective_share)
        cut_short = run_stages(known, resume, stages)
        known.clock = clock
        if minimizes_moves and not known.interrupted:
            # From now on a plan as good as the best, but with fewer moves, counts as better.
            known.features |= Feature.FEWEST
            run_stages(known, resume, near.FEWEST_STAGES)
    except TooManySavingsError as error:
        op = f"{known.graph.name}: op {known.graph.ops[error.op].name!r}"
        raise UsageError(f"{op}: {error}; solve without in-place") from None
    return cut_short
