"""Functions that programs call and that want more than one room: explain, certify, hunt, report.

Limits may be keywords (`time_limit=5`) or a :class:`Limits`, the in-place memory model is an
argument, as for :func:`optsched.solve`. Each imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Unpack, cast

from optsched.errors import UsageError, expect, expect_function
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.model.order_rules import NO_RULES, OrderRules
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import HasPlan, Plan
from optsched.model.steps import has_both
from optsched.runtime.clock import Clock
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import LimitKeywords, Limits, Objective, choose_limits, choose_member
from optsched.solver.pack import pack, problem_of
from optsched.solver.pipeline import solve
from optsched.solver.result import Result

SOLVER_SHARE = 0.7
"""Share of the time for the solver, in functions that process its result further."""

if TYPE_CHECKING:
    from optsched.certificate import Written
    from optsched.counterexamples import Hunt
    from optsched.counterexamples.search import OnProgress
    from optsched.explanation import Explanation
    from optsched.formats.minimalloc import PackingTable


@keywords
def explain(
    graph: Graph | HasPlan,
    *,
    inplace: bool = False,
    changes: int = 8,
    limits: Limits | None = None,
    **named: Unpack[LimitKeywords],
) -> Explanation:
    """Explain why no order has a smaller peak: `print(explain(graph))`.

    Parameters
    ----------
    graph
        The graph, or a result, whose graph is explained.
    changes
        Number of the largest live buffers for which a smaller size is tried.
    inplace, limits, named
        As for :func:`solve`. If the time is too short for the minimum peak, the explanation is
        about the bound that was proved.

    Returns
    -------
    Explanation
        The ops and buffers that force the peak, and the effect of changing them, in bytes.

    Examples
    --------
    >>> from optsched import GraphBuilder, explain
    >>> builder = GraphBuilder("chain")
    >>> builder.op("a", writes={"x": 4})
    >>> builder.op("b", reads=["x"], writes={"y": 3})
    >>> builder.output("y")
    >>> explain(builder.build()).bound
    7
    """
    from optsched import explanation

    chosen = choose_limits(limits, named)
    return explanation.explain(plannable(graph, inplace), changes=changes, limits=chosen)


@keywords
def certify(
    graph: Graph | HasPlan,
    path: str | Path | None = None,
    *,
    result: Result | None = None,
    inplace: bool = False,
    limits: Limits | Clock | None = None,
    **named: Unpack[LimitKeywords],
) -> Written:
    """Write a proof that no order has a smaller peak, in a form that `optsched check` verifies.

    Parameters
    ----------
    graph
        The graph, or a result, which is then the `result`.
    path
        File to write the certificate to (default: none).
    result
        Result of :func:`solve` for the graph (default: solve it first). The certificate of a result
        under order rules states the rules, and is about the orders that obey them.
    inplace, limits, named
        As for :func:`solve`; the solver and the certificate share the time.

    Returns
    -------
    Written
        The certificate, which the checker has accepted, its kind of proof, and the reason if its
        bound is below that of the result.

    Raises
    ------
    UsageError
        If the result is of another graph, or its bound is only about orders near a baseline.

    Notes
    -----
    For a graph on several streams the proof is about running one op at a time. That is a bound for
    the streams as well, but may be below the one that `solve` proves.

    Examples
    --------
    >>> from optsched import GraphBuilder, certify
    >>> builder = GraphBuilder("chain")
    >>> builder.op("a", writes={"x": 4})
    >>> builder.op("b", reads=["x"], writes={"y": 3})
    >>> builder.output("y")
    >>> certify(builder.build())  # L2: order bound
    Written(L2, 1 step, 7 bytes)
    """
    from heuristics.orderings.program import program
    from optsched.certificate import certify_peak
    from optsched.formats import write_certificate

    expect("result", result, Result, NoneType)
    if isinstance(graph, Result) and result is None:
        result, graph = graph, graph if graph.question is None else graph.question.graph
    # Rules of the result hold for the bound, so they become part of the certificate.
    graph = plannable(graph, inplace)
    clock = Clock.of(choose_limits(limits, named))
    rules = NO_RULES if result is None else _certified_rules(graph, result)
    if graph.on_streams:
        # A bound for running one op at a time also holds on streams, and has a certificate.
        graph, result = graph.without_streams(), None
    if result is None:
        result = solve(graph, objective=Objective.PEAK, limits=clock.share(SOLVER_SHARE))
    planned = rules.apply(graph)
    # Without a plan any order will do: the certificate is about all of them.
    order = program(planned).tolist() if result.plan is None else list(result.plan.order)
    written = certify_peak(planned, order, result.peak_bound, limits=clock)
    written = replace(written, certificate=replace(written.certificate, rules=rules))
    if path is not None:
        write_certificate(written.certificate, path, graph)
    return written


def _certified_rules(graph: Graph, result: Result) -> OrderRules:
    """Return the order rules under which a result's bound on the peak holds."""
    question = result.question
    if question is None:
        raise UsageError("the result has no question: pass a result that solve returned")
    # A graph that already has the rules as control edges needs no rules in the certificate.
    planned = graph.digest == question.planned.digest
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
    """Search for a small instance on which a method is as bad as possible.

    Parameters
    ----------
    method
        An ordering, a packing method, or `ordering+packing`.
    versus
        Method of the same kind to compare with (default: the optimum).
    source
        A graph or a packing problem to shrink instead, to the smallest instance on which the method
        still loses as much.
    objective
        Measure of the loss: `ratio` or `difference`, in bytes.
    max_ops, max_bytes
        Most ops (or buffers, for a packing method), and most bytes of a buffer.
    max_tries, time_limit
        Limits on instances tried and on seconds. If only the number of tries limits the search, the
        same seed gives the same result.
    at_least
        With `source`: the loss to keep (default: the loss on `source`).
    seed, name
        Seed of the random changes; name of the instance.
    on_progress
        Called now and then with the progress so far.

    Returns
    -------
    Hunt
        The instance, if one was found, with the plans of both methods and the loss.

    Raises
    ------
    UsageError
        If the method is unknown, or both time and tries are unlimited.

    Examples
    --------
    >>> from optsched import hunt
    >>> found = hunt("lpmf", max_ops=4, max_tries=50, time_limit=None)
    >>> found.counterexample is not None
    True
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
        raise UsageError("at_least needs source")
    if target.seconds is None and max_tries is None:
        raise UsageError("a hunt needs time_limit or max_tries, or it would never end")
    return room.hunt(target, name=name, on_progress=on_progress)


@keywords
def report(
    what: Graph | HasPlan | PackingProblem | PackingTable,
    path: str | Path,
    *,
    plans: Plan | Mapping[str, Plan] | None = None,
    inplace: bool = False,
    limits: Limits | None = None,
    **named: Unpack[LimitKeywords],
) -> None:
    """Write a report of plans to a file: `report(solve(graph), "plan.html")`.

    Parameters
    ----------
    what
        A result; or a graph, which is solved first; or live ranges, which are packed first.
    path
        File to write. Its ending is the kind of report: `.html`, `.png`, `.svg`, `.pdf`, or `.json`
        for a trace that Perfetto opens.
    plans
        Plans to show, by name; the others are compared with the first (default: the best plan
        found).
    inplace, limits, named
        As for :func:`solve`, if there is something to solve.

    Raises
    ------
    PlanError
        If a plan breaks a rule of the graph.
    MissingDependencyError
        If the packages of the extra `report` are not installed.

    Examples
    --------
    A trace needs no further package.

    >>> import os, tempfile
    >>> from optsched import GraphBuilder, report
    >>> builder = GraphBuilder("chain")
    >>> builder.op("a", writes={"x": 4})
    >>> builder.output("x")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report(builder.build(), os.path.join(folder, "trace.json"))
    ...     os.listdir(folder)
    ['trace.json']
    """
    from optsched.compare.saving import stock_plan
    from optsched.formats.minimalloc import PackingTable
    from optsched.reports.report import make_packing_report, make_report, report_saving
    from optsched.reports.write import kind_of, require, write_report

    kind = kind_of(path)
    require([kind])
    chosen = choose_limits(limits, named)
    if not isinstance(what, Result) and has_both(what):
        # The graph of another result is solved for its bounds.
        what, own = cast(HasPlan, what).graph_and_plan
        plans = own if plans is None else plans
    if isinstance(what, Result | Graph):
        clock = Clock.of(chosen)
        graph = what if isinstance(what, Graph) else what.graph
        # First what the saving is measured against: it takes no limit, so the search gets the rest.
        stock = None if graph is None else stock_plan(plannable(graph, inplace))
        part = clock.share(SOLVER_SHARE)
        result = what if isinstance(what, Result) else solve(what, inplace=inplace, limits=part)
        if graph is None or (plans is None and result.plan is None):
            raise UsageError("the result has no plan to show")
        expect("plans", plans, Plan, Mapping, NoneType)
        # A single plan is a mapping of one.
        known = plans if isinstance(plans, Mapping) else {"plan": plans or result.plan}
        for each in known.values():
            expect("plans", each, Plan)
        if not known:
            raise UsageError("the result has no plan to show")
        shown = [(name, plan, ()) for name, plan in known.items() if plan is not None]
        planned = plannable(graph, inplace)
        made = make_report(planned, result, shown, limits=clock)
        made = replace(made, saving=report_saving(made, planned, stock))
    else:
        expect("report", what, Graph, PackingProblem, PackingTable)
        ranges = cast("PackingProblem | PackingTable", what)
        problem = problem_of(ranges)
        packed = pack(ranges, limits=chosen)
        if packed.offsets is None:
            raise UsageError("no packing was found in time: there is nothing to show")
        # Pools were packed one by one; a single slab is the only part.
        parts = [part.result for part in packed.packed] or [packed]
        pools, _ = packed.places(len(problem))
        made = make_packing_report(problem, parts, [("optsched", packed.offsets, pools)])
    write_report(made, {kind: str(path)})
