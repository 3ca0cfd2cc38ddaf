"""Comparison of a fleet's plans with those of the graphs' own frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from optsched.compare import Comparison, Skipped, Study, StudySettings, parse_methods
from optsched.compare.measure import MethodRunner
from optsched.compare.methods import Method, with_reference
from optsched.compare.rows import Measured, judge
from optsched.compare.saving import own_methods
from optsched.compare.task import digest_of
from optsched.errors import OptschedError
from optsched.fleet.graphs import FleetGraph, FleetState
from optsched.fleet.run import Fleet
from optsched.fleet.settings import FleetSettings
from optsched.fleet.unit import UnitContext, look_up
from optsched.model.graph import Graph
from optsched.runtime.facts import code_digest
from optsched.runtime.limits import Limits
from optsched.solver.result import Result


def fleet_study(fleet: Fleet, store: str | Path) -> Study:
    """Read graphs and plans again, check and measure them, and return a study.

    A graph without a plan, or with a plan that is missing in the store, is skipped with a reason.
    """
    settings = fleet.settings
    paths = [row.source for row in fleet.graphs if isinstance(row.source, str)]
    methods, _ = with_reference(parse_methods(own_methods(paths)))
    limits = Limits(settings.budget, work=settings.work, seed=settings.seed)
    context = UnitContext(settings, str(store), code_digest())
    found = [_compare(row, context, methods) for row in fleet.graphs]
    return Study(
        methods,
        StudySettings(methods, limits, reading=settings.reading),
        tuple(x for x in found if isinstance(x, Comparison)),
        tuple(x for x in found if isinstance(x, Skipped)),
        fleet.interrupted,
    )


def _compare(
    row: FleetGraph, context: UnitContext, methods: Sequence[Method]
) -> Comparison | Skipped:
    if row.peak is None:
        reason = row.reason or "the run ended before this graph"
        return Skipped(row.label, reason, row.state is FleetState.FAILED, cut_off=not row.reason)
    try:
        source = row.source
        graph = source if isinstance(source, Graph) else context.settings.reading.read(source)
        known = look_up(graph, context)
        if known is None:
            return Skipped(row.label, f"{row.label}: plan not found in the store", bad=True)
        made = _judge(graph, row, known, context.settings, methods)
        return made if isinstance(source, Graph) else _from_file(made, source)
    except OptschedError as error:
        return Skipped(row.label, str(error), bad=True)


def _judge(
    graph: Graph,
    row: FleetGraph,
    known: Result,
    settings: FleetSettings,
    methods: Sequence[Method],
) -> Comparison:
    _, reference = with_reference(methods)
    assert known.plan is not None
    assert known.peak is not None
    assert known.slab is not None
    # The solver's time is that of the whole run.
    result, order = replace(known, runtime=row.seconds, trace=()), known.plan.order
    figures = known.peak, known.slab, row.seconds
    own = Measured(reference.name, reference.kind, *figures, result, order)
    # Without time: only methods that need none are measured.
    runner = MethodRunner(graph, Limits(0.0))
    outcomes = {m.name: runner.measure(m) for m in methods if m.name != reference.name}
    found = {**outcomes, reference.name: own}
    made = judge(graph, methods, found, reference.name, among=row.among)
    assert made is not None  # our own plan has figures
    return made


def _from_file(made: Comparison, path: str) -> Comparison:
    return replace(made, path=path, digest=digest_of(path))
