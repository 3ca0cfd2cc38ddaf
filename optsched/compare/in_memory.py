"""Comparison of methods on graphs in memory, in the current process."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Unpack, overload

from optsched.compare.methods import OwnMethod, parse_methods
from optsched.compare.rows import Comparison
from optsched.compare.study import Study, compare_graphs
from optsched.compare.task import StudySettings
from optsched.errors import UsageError, expect, expect_function
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import LimitKeywords, Limits, OnEvent, choose_limits, choose_member
from optsched.runtime.worker_pool import GRACE
from optsched.solver.schedule import Engine


@overload
def compare_methods(
    graph: Graph | Module,
    *,
    methods: str | Sequence[str | OwnMethod] | None = None,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | None = None,
    on_event: OnEvent | None = None,
    grace: float = GRACE,
    **named: Unpack[LimitKeywords],
) -> Comparison: ...
@overload
def compare_methods(
    graph: Sequence[Graph | Module],
    *,
    methods: str | Sequence[str | OwnMethod] | None = None,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | None = None,
    on_event: OnEvent | None = None,
    grace: float = GRACE,
    **named: Unpack[LimitKeywords],
) -> Study: ...
@keywords
def compare_methods(
    graph: Graph | Module | Sequence[Graph | Module],
    *,
    methods: str | Sequence[str | OwnMethod] | None = None,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | None = None,
    on_event: OnEvent | None = None,
    grace: float = GRACE,
    **named: Unpack[LimitKeywords],
) -> Comparison | Study:
    """Run methods on a graph and measure each against the best known result.

    All methods run in the current process. optsched's own solver always runs, because its lower
    bounds show how far the other methods can be from the optimum.

    Parameters
    ----------
    graph
        Graph, or a module. On a module, methods order and pack every computation, callees first,
        and are measured on the module as a whole. A list of graphs makes a study.
    methods
        Names as in :func:`optsched.compare.parse_methods` (a list, or one string with commas), and
        functions `(graph, seed) -> order` that return the op ids, first to run first. None runs all
        orderings, all packings and `optsched`.
    engine, limits, on_event
        Engine, limits (per graph) and progress callback of `optsched` and of other solvers without
        limits of their own.
    grace
        Seconds past the time limit after which a method that is not part of optsched is abandoned.
    named
        Single limits: `time_limit=5` (seconds), `work=`, `workers=`, `seed=`.

    Returns
    -------
    Comparison or Study
        One row per method with its peak and slab in bytes, its excess over the best known value and
        its run time in seconds; the methods that failed, with reasons; the proved bounds. A study
        has a comparison per graph; graphs on which no method finds a plan are in `skipped`.

    Raises
    ------
    UsageError
        If a method is unknown, or no method finds a plan.

    Examples
    --------
    >>> from optsched import GraphBuilder
    >>> build = GraphBuilder("pair")
    >>> build.op("a", writes={"x": 4})
    >>> build.op("b", reads=["x"], writes={"y": 8})
    >>> def backwards(graph, seed):
    ...     return range(len(graph.ops))[::-1]
    >>> found = compare_methods(build.build(), methods=["lpmf", backwards])
    >>> found.row("lpmf").excess, str(found.failure("backwards").trouble)
    (0.0, 'refused')
    """
    expect("compare_methods", graph, Graph, Module, list, tuple)
    expect_function("on_event", on_event)
    listed = methods.split(",") if isinstance(methods, str) else methods
    expect("methods", listed, Sequence, NoneType)
    settings = StudySettings(
        parse_methods(listed),
        choose_limits(limits, named),
        choose_member(Engine, engine, "engine"),
        # All methods in this process, as callers may pass functions that no worker could import.
        jobs=0,
        grace=grace,
    )
    graphs = [graph] if isinstance(graph, Graph | Module) else graph
    if not graphs:
        raise UsageError("compare_methods wants at least one graph, got an empty list")
    # Before the first run, which may take long.
    for each in graphs:
        expect("compare_methods", each, Graph, Module)
    study = compare_graphs(graphs, settings, on_event)
    if not isinstance(graph, Graph | Module):
        return study
    if study.skipped:
        raise UsageError(study.skipped[0].reason)
    return study.comparisons[0]
