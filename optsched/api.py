"""Functions that programs call and that want more than one room: explain, certify, hunt, report.

Limits may be keywords (`time_limit=5`) or a :class:`Limits`, the in-place memory model is an
argument, as for :func:`optsched.solve`. Each imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, SupportsIndex, Unpack, cast

from optsched.errors import UsageError, expect, expect_function
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.model.order_rules import NO_RULES, OrderRules
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan
from optsched.model.question import digest_of
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.clock import Clock
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import LimitKeywords, Limits, Objective, choose_limits, choose_member
from optsched.solver.pack import pack, problem_of
from optsched.solver.pipeline import solve
from optsched.solver.result import Result

SOLVER_SHARE = 0.7
"""Part of the time for the solver, where more is made of what it finds."""

if TYPE_CHECKING:
    from optsched.certificate import Written
    from optsched.counterexamples import Hunt
    from optsched.counterexamples.search import OnProgress
    from optsched.explanation import Explanation
    from optsched.formats.minimalloc import PackingTable
    from optsched.solver.recompute.result import RecomputeResult


@keywords
def explain(
    graph: Graph,
    *,
    inplace: bool = False,
    changes: int = 8,
    limits: Limits | None = None,
    **named: Unpack[LimitKeywords],
) -> Explanation:
    """Say why no order has a smaller peak: `print(explain(graph))`.

    Parameters
    ----------
    graph
        The graph.
    changes
        How many of the largest live buffers are tried smaller.
    inplace, limits, named
        As for :func:`solve`. Where the time is too short for the minimum peak, the bound that was
        proved is explained.
    """
    from optsched import explanation

    chosen = choose_limits(limits, named)
    return explanation.explain(plannable(graph, inplace), changes=changes, limits=chosen)


@keywords
def recompute(
    graph: Graph,
    peak: int | str | SupportsIndex | Sequence[int | str],
    *,
    cost: str | None = None,
    costs: Mapping[str, int] | None = None,
    loss: Sequence[str] = (),
    limits: Limits | None = None,
    **named: Unpack[LimitKeywords],
) -> RecomputeResult | tuple[RecomputeResult, ...]:
    """Find the least extra compute with which a training graph fits a peak, and prove it.

    Forward ops may run again after the loss. In-place writing is not counted.

    Parameters
    ----------
    graph
        A training graph, such as :func:`from_fx` reads from a joint graph.
    peak
        Bytes such as `"8GiB"`, or several budgets, which share their work.
    cost
        `kernel`, `roofline`, `flops`, `bytes` or `given` (:mod:`optsched.formats.costs`); by
        default `kernel`, or the costs that the graph states in a unit of its own.
    costs
        Cost of each op by name, instead of `cost`.
    loss
        Ops that make the loss; found by the inputs named `tangents` by default.
    limits, named
        As for :func:`solve`.

    Returns
    -------
    RecomputeResult or tuple
        One per budget. The order of `result.sequence` may name an op more than once, and
        `result.unrolled.graph` is the ordinary graph of these runs.

    Raises
    ------
    UsageError
        If the graph has no loss, or an option makes no sense.

    Examples
    --------
    >>> from optsched import GraphBuilder, recompute
    >>> build = GraphBuilder("step", cost_unit="ms")
    >>> build.input("tangents_1", 0, "excluded")
    >>> build.op("a", writes={"x": 5}, cost=2)
    >>> build.op("b", reads=["x"], writes={"y": 1}, cost=3)
    >>> build.op("loss", reads=["y"], writes={"l": 6}, cost=1)
    >>> build.output("l")
    >>> build.op("back", reads=["x", "tangents_1"], writes={"g": 1})
    >>> build.output("g")
    >>> result = recompute(build.build(), peak=12)
    >>> result.status, result.extra, [repeat.op for repeat in result.repeats]
    ('optimal', 0, [])
    """
    from optsched.formats.costs import costs_of, with_costs
    from optsched.solver.recompute.solve import recompute as plan

    expect("recompute", graph, Graph)
    if costs is not None and cost is not None:
        raise UsageError("give either cost= or costs=, not both")
    if isinstance(loss, str):
        raise UsageError(f"loss must be a list of op names: write [{loss!r}]")
    for name in loss:
        expect("loss", name, str)
    several = isinstance(peak, Sequence) and not isinstance(peak, str | bytes)
    given: Sequence[Any] = cast(Sequence[Any], peak) if several else [peak]
    peaks = [parse_bytes(x) for x in given]
    priced = with_costs(graph, cost) if costs is None else costs_of(graph, costs, "given")
    found = plan(priced, peaks, loss=loss, limits=choose_limits(limits, named))
    return found if several else found[0]


@keywords
def certify(
    graph: Graph,
    path: str | Path | None = None,
    *,
    result: Result | None = None,
    inplace: bool = False,
    limits: Limits | None = None,
    **named: Unpack[LimitKeywords],
) -> Written:
    """Prove that no order has a smaller peak in a form that `optsched check` verifies.

    Parameters
    ----------
    graph
        The graph.
    path
        File to write the certificate to, if any.
    result
        Result of :func:`solve` for the graph; None to solve it here. The certificate of a result
        under order rules states the rules and is about the orders that keep them.
    inplace, limits, named
        As for :func:`solve`; the solver and the certificate share the time.

    On several streams the proof is of ops that run one at a time: a bound on streams' orders, which
    may be below what `solve` proves of them.

    Returns
    -------
    Written
        The certificate, accepted by the checker, its rung, and what it falls short of, if anything.

    Raises
    ------
    UsageError
        If the result is of another graph, or its bound is about few orders near a baseline.
    """
    from heuristics.orderings.program import program
    from optsched.certificate import certify_peak
    from optsched.formats import write_certificate

    graph = plannable(graph, inplace)
    clock = Clock.of(choose_limits(limits, named))
    rules = NO_RULES if result is None else _certified_rules(graph, result)
    if graph.on_streams:
        # What ops need that run one at a time is a bound on streams too, and has a certificate.
        graph, result = graph.without_streams(), None
    if result is None:
        result = solve(graph, objective=Objective.PEAK, limits=clock.share(SOLVER_SHARE))
    planned = rules.apply(graph)
    order = program(planned).tolist() if result.plan is None else list(result.plan.order)
    written = certify_peak(planned, order, result.peak_bound, limits=clock)
    written = replace(written, certificate=replace(written.certificate, rules=rules))
    if path is not None:
        write_certificate(written.certificate, path, graph)
    return written


def _certified_rules(graph: Graph, result: Result) -> OrderRules:
    """Return the order rules that a result's bound on the peak of a graph is under."""
    question = result.question
    if question is None:
        raise UsageError("the result does not carry its question: give one that solve returned")
    # A graph that has the rules as control edges already needs none beside it.
    planned = digest_of(graph) == digest_of(question.planned)
    if not planned:
        question.require_about(graph)
    if question.max_moved is not None:
        raise UsageError(
            f"a certificate is about all orders, the result about {question.restriction}: "
            "certify a result without max_moved"
        )
    return NO_RULES if planned else question.rules


def _fraction(loss: float | Fraction) -> Fraction:
    try:
        return Fraction(loss)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"at_least must be a number, got {loss!r}") from None


@keywords
def hunt(
    method: str,
    *,
    versus: str | None = None,
    source: Graph | PackingProblem | None = None,
    objective: str = "ratio",
    max_ops: int = 10,
    max_bytes: int = 100,
    max_tries: int | None = None,
    at_least: float | Fraction | None = None,
    time_limit: float | None = 60.0,
    seed: int = 0,
    name: str = "found",
    on_progress: OnProgress | None = None,
) -> Hunt:
    """Find a small instance on which a method is as bad as possible.

    Parameters
    ----------
    method
        An ordering, a packing method, or `ordering+packing`.
    versus
        A method of the same kind that is to do better; None for the optimum.
    source
        A graph, or a packing problem, that is shrunk to what loses as much, instead of a search.
    objective
        `ratio` or `difference`: what the loss is measured as.
    max_ops, max_bytes
        Ops (or buffers, for a packing method), and bytes of a buffer, at most.
    max_tries, time_limit
        Limits; where the number of tries ends the hunt, the same seed gives the same find.
    at_least
        With `source`: the loss to be kept; its own if None.
    seed, name
        Of the random changes; of what is found.
    on_progress
        Called now and then.
    """
    from optsched import counterexamples as room

    expect("source", source, Graph, PackingProblem, NoneType)
    expect_function("on_progress", on_progress)
    target = room.HuntTarget(
        method=method,
        versus=versus,
        objective=choose_member(room.LossObjective, objective, "objective"),
        max_ops=max_ops,
        max_bytes=max_bytes,
        seconds=Limits(seconds=time_limit).seconds,
        tries=max_tries,
        seed=Limits(seed=seed).seed,
        at_least=None if at_least is None else _fraction(at_least),
    )
    if source is not None:
        return room.hunt_from(source, target, on_progress=on_progress)
    if at_least is not None:
        raise UsageError("at_least goes with source")
    if target.seconds is None and max_tries is None:
        raise UsageError("a hunt without a time limit needs a number of tries: else it never ends")
    return room.hunt(target, name=name, on_progress=on_progress)


@keywords
def report(
    what: Graph | Result | PackingProblem | PackingTable,
    path: str | Path,
    *,
    plans: Plan | Mapping[str, Plan] | None = None,
    inplace: bool = False,
    limits: Limits | None = None,
    **named: Unpack[LimitKeywords],
) -> None:
    """Show plans to people: `report(solve(graph), "plan.html")`.

    Parameters
    ----------
    what
        What :func:`solve` returned; or a graph, which is solved first; or live ranges, which are
        packed.
    path
        The file, and by its ending what it is: `.html`, `.png`, `.svg`, or `.json` for a trace that
        Perfetto opens.
    plans
        Plans to show, by name, the first one as what the others are compared with; the best plan
        found if None.
    inplace, limits, named
        As for :func:`solve`, where there is something to solve.

    Raises
    ------
    PlanError
        If a plan breaks a rule of the graph.
    MissingDependencyError
        If the packages of the extra `report` are not installed.
    """
    from optsched.compare.saving import stock_plan
    from optsched.reports.report import make_packing_report, make_report, saving_of
    from optsched.reports.write import require, write_report

    kinds = {".html": "html", ".png": "png", ".svg": "svg", ".json": "trace"}
    kind = kinds.get(Path(path).suffix.lower())
    if kind is None:
        raise UsageError(f"{path}: a report ends in {', '.join(kinds)}")
    require([kind])
    chosen = choose_limits(limits, named)
    if isinstance(what, Result | Graph):
        clock = Clock.of(chosen)
        part = clock.share(SOLVER_SHARE)
        result = what if isinstance(what, Result) else solve(what, inplace=inplace, limits=part)
        graph = what if isinstance(what, Graph) else result.graph
        if graph is None or (plans is None and result.plan is None):
            raise UsageError("there is no plan to show")
        expect("plans", plans, Plan, Mapping, NoneType)
        known = plans if isinstance(plans, Mapping) else {"plan": plans or result.plan}
        for plan in known.values():
            expect("plans", plan, Plan)
        if not known:
            raise UsageError("there is no plan to show")
        shown = [(name, plan, ()) for name, plan in known.items() if plan is not None]
        planned = plannable(graph, inplace)
        made = make_report(planned, result, shown, limits=clock)
        made = replace(made, saving=saving_of(made, stock_plan(planned)))
    else:
        problem = problem_of(what)
        packed = pack(problem, limits=chosen)
        if packed.offsets is None:
            raise UsageError("no packing was found in time: there is nothing to show")
        made = make_packing_report(problem, [packed], [("optsched", packed.offsets, ())])
    write_report(made, {kind: str(path)})
