"""One unit of work: read a graph, search it for a while, and return the results.

A unit may be repeated or lost, because results are only ever merged, and only the driver writes the
store. A worker that can open the store continues from its content; a worker on another machine
receives the state from the driver.

Classes that are sent often have no slots, because pickle then copies them without running Python
code.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from heuristics import load_plugins
from optsched.compare.rows import StockPlan
from optsched.compare.saving import held_with, names_in, stock_plan
from optsched.errors import FormatError, OptschedError
from optsched.fleet.settings import FleetSettings
from optsched.formats.reading import is_broken_graph
from optsched.model.graph import Graph
from optsched.model.question import Question, restriction_words
from optsched.runtime.facts import code_digest, versions
from optsched.runtime.limits import Limits, Objective, Proof, StopReason
from optsched.runtime.memory import limited_memory
from optsched.runtime.worker_pool import Deadline
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.resume import Resume
from optsched.store import Bound, PlanStore, PreparedResult, StoredRecord, prepare_result


@dataclass(frozen=True)
class Unit:
    """A unit of work for a worker."""

    number: int
    source: str | Graph
    """`number` and `source`: index of the graph; its file's path or the graph itself."""
    limits: Limits | None
    """Limits of this unit; None: read the graph without a search."""
    first: bool = True
    """True for the first unit of the graph in this run: results in the store then suffice."""
    named: bool = True
    """True if the user named the file; it is then an error if it does not contain a graph."""
    look: bool = True
    """True if the store may contain results."""
    earlier: Result | None = None
    """State to continue from, if it is not yet in the store or the worker cannot open the store."""


@dataclass(frozen=True, slots=True)
class UnitContext:
    """Data that all units of a run share."""

    settings: FleetSettings
    """Settings of the run."""
    store: str
    """Path of the store."""
    code: str
    """Digest of the driver's code; workers with other code are excluded."""


@dataclass(kw_only=True)
class Figures:
    """Facts about a graph, and the best plan that is known, in a unit or in a fleet."""

    name: str = ""
    ops: int = 0
    buffers: int = 0
    before: StockPlan | None = None
    """Plan of the file's own framework; None if not computed."""
    among: str = ""
    """Plans that the bounds are about, in words; empty if they are all, or in later units."""
    peak: int | None = None
    slab: int | None = None
    held: int | str = ""
    """Bytes that the framework was measured to hold with the plan, or why they are not known."""
    peak_bound: int = 0
    slab_bound: int = 0
    proof: Proof | None = None
    """Proof of the objective's value if it is optimal."""
    slices: int = 0
    """Number of units that searched the graph, including those of earlier runs."""
    settled: bool = False
    """True if further units would not help."""
    earlier: Result | None = field(default=None, repr=False)
    """State for the next unit; None if there will be none."""
    seconds: float = 0.0
    processor_seconds: float = 0.0
    """Time of the unit, or of all units of this run."""

    def value(self, objective: Objective) -> int | None:
        """Return the objective's value (bytes) of the best plan."""
        return self.slab if objective is Objective.SLAB else self.peak

    def figures(self) -> dict[str, Any]:
        """Return the figures of the best plan for logs and tables."""
        names = ("peak", "slab", "peak_bound", "slab_bound")
        proof = None if self.proof is None else self.proof.value
        return {**{name: getattr(self, name) for name in names}, "proof": proof}


@dataclass(kw_only=True)
class Found(Figures):
    """Message with the results of a unit."""

    digest: str = ""
    """Digest that is equal for graphs that differ only in names; empty if not computed."""
    prepared: PreparedResult | None = None
    """Results for the store; None if there are none."""
    worker: str = ""
    """Name of the worker."""

    def without_search(self) -> Found:
        """Return the message without results of a search."""
        facts = ("name", "ops", "buffers", "before", "among", "digest")
        times = ("seconds", "processor_seconds", "worker")
        return Found(**{name: getattr(self, name) for name in (*facts, *times)})


@dataclass(frozen=True, slots=True)
class UnitFailed:
    """Message that the graph gets no more units in this run, or that the file is not a graph."""

    reason: str
    worker: str = ""
    """`reason` and `worker`: reason of the failure, and name of the worker."""
    is_graph: bool = True
    """True if the file contains a graph or was expected to."""
    name: str = ""
    ops: int = 0
    buffers: int = 0
    """`name`, `ops` and `buffers`: name and numbers of ops and buffers of the graph, if it was
    read."""


@dataclass(frozen=True, slots=True)
class UnitRefused:
    """Message that the worker has another version of this package."""

    worker: str
    version: str


def work_on_unit(
    context: UnitContext, unit: Unit, report: Callable[[Deadline], object]
) -> Found | UnitFailed | UnitRefused:
    """Run a unit and return its result or failure; first report its time limit to `report`."""
    # Results of other code are not comparable, so the unit is refused, not failed.
    if context.code != code_digest():
        version = f"{versions().get('optsched', 'unknown')} (code {code_digest()[:12]})"
        return UnitRefused(worker_name(), version)
    seconds = None if unit.limits is None else unit.limits.seconds
    if seconds is not None:
        # Reading a large graph may take longer than its search.
        report(Deadline(max(seconds, context.settings.effort.overhead_seconds)))
    if context.settings.memory is not None:
        # Memory for loading the compiler does not count toward the graph's limit.
        import_module("numba")
    graph = None
    try:
        with limited_memory(context.settings.memory):
            begun = time.perf_counter(), time.process_time()
            graph = _read(unit, context.settings)
            return _measured(_look_and_search(context, unit, graph), *begun)
    except OptschedError as error:
        # A file found in a folder may be anything; only a broken graph is a failure.
        is_graph = graph is not None or unit.named or is_broken_graph(str(unit.source))
        return replace(_failed(graph, str(error)), is_graph=is_graph)
    except MemoryError:
        limit = context.settings.memory
        text = "" if limit is None else f" (limit {limit:,} bytes)"
        return _failed(graph, f"out of memory{text}")
    except Exception as error:
        # An unexpected error fails its own graph only.
        return _failed(graph, " ".join(f"{type(error).__name__}: {error}".split()))


def _failed(graph: Graph | None, reason: str) -> UnitFailed:
    failed = UnitFailed(reason, worker_name())
    if graph is None:
        return failed
    return replace(failed, name=graph.name, ops=len(graph.ops), buffers=len(graph.buffers))


def worker_name() -> str:
    """Return a readable name of this worker: host and process."""
    return f"{socket.gethostname()}, process {os.getpid()}"


def _read(unit: Unit, settings: FleetSettings) -> Graph:
    load_plugins()
    if isinstance(unit.source, Graph):
        return unit.source
    if not unit.named and not Path(unit.source).is_file():
        # Reading a pipe found in a folder could block forever.
        raise FormatError(f"{unit.source}: not a regular file")
    return settings.reading.read(unit.source)


def _measured(found: Found, started: float, used: float) -> Found:
    """Add the time taken and the worker's name to a message."""
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    return replace(found, seconds=seconds, processor_seconds=processor, worker=worker_name())


def _look_and_search(context: UnitContext, unit: Unit, graph: Graph) -> Found:
    settings, earlier = context.settings, unit.earlier
    if earlier is None and unit.look:
        earlier = look_up(graph, context)
    if earlier is not None and (unit.first or is_proved(earlier, settings.objective)):
        # First units only survey the fleet; the choice of graphs to search follows once all are
        # known.
        found = _known(graph, earlier, settings)
    # Without limits nothing is searched: the unit only describes the graph.
    elif unit.limits is None:
        found = _known(graph, None, settings)
    else:
        found = _solve(graph, unit.limits, earlier, context)
    if not unit.first:
        return found
    among = restriction_words(streams=graph.streams)
    return replace(found, before=stock_plan(graph), among=among, digest=graph.digest.hex())


def _solve(graph: Graph, limits: Limits, earlier: Result | None, context: UnitContext) -> Found:
    """Continue the search from earlier results, and prepare the new ones for the store."""
    settings = context.settings
    result = solve(
        graph,
        objective=settings.objective,
        limits=limits,
        warm_start=None if earlier is None else earlier.plan,
        progress=None if earlier is None else earlier.resume,
    )
    before = _units(earlier)
    cut_short = result.stop_reason is StopReason.INTERRUPTED
    if cut_short and settings.work is not None:
        # A repeated unit gives identical results; a continued one would depend on when it was
        # interrupted.
        return _known(graph, earlier, settings)
    # An interrupted unit is repeated, so it does not count.
    units = before if cut_short else before + 1
    resume = None
    if result.plan is not None and result.resume is not None:
        resume = replace(result.resume, units=units, code=context.code)
    return replace(
        _figures(graph, result, settings.objective),
        slices=units,
        settled=result.stop_reason is StopReason.EXHAUSTED and _is_longest(limits, settings),
        prepared=prepare_result(graph, result, resume, check=False),
        earlier=None if resume is None else _for_next(replace(result, state=resume), settings),
    )


def _units(earlier: Result | None) -> int:
    """Return the number of units that led to a result."""
    return 0 if earlier is None or earlier.resume is None else earlier.resume.units


def _figures(graph: Graph, result: Result | None, objective: Objective) -> Found:
    """Return the figures of a result as a message, with the proof of the objective's value."""
    facts = Found(name=graph.name, ops=len(graph.ops), buffers=len(graph.buffers))
    if result is None:
        return facts
    return replace(
        facts,
        **{x: getattr(result, x) for x in ("peak", "slab", "peak_bound", "slab_bound")},
        proof=result.slab_proof if objective is Objective.SLAB else result.peak_proof,
        held="" if result.plan is None else held_with(graph, names_in(graph, result.plan.order)),
    )


def _is_longest(limits: Limits, settings: FleetSettings) -> bool:
    """Return True if no later unit is longer; a longer one may try what this one gave up."""
    return limits.seconds is not None and limits.seconds >= settings.effort.most_seconds


def _known(graph: Graph, earlier: Result | None, settings: FleetSettings) -> Found:
    """Return the stored results as a message."""
    figures = _figures(graph, earlier, settings.objective)
    left = None if earlier is None else _for_next(earlier, settings)
    return replace(figures, slices=_units(earlier), earlier=left)


def _for_next(known: Result, settings: FleetSettings) -> Result | None:
    """Return the result from which the next unit continues; None if all is proved."""
    if is_proved(known, settings.objective):
        return None
    # Workers have the graph and the question, and a trace is of no use to them.
    return replace(known, question=None, trace=(), order_search={})


def is_proved(known: Result, objective: Objective) -> bool:
    """Return True if the plan of a result is proved optimal."""
    if objective is Objective.PEAK:
        return known.peak is not None and known.peak <= known.peak_bound
    return known.slab is not None and known.slab <= known.slab_bound


# Reading of the store.


def look_up(graph: Graph, context: UnitContext) -> Result | None:
    """Return the trusted part of the store's results of a graph; None without a plan.

    A bound is trusted if the checker accepted a certificate of it or if this version proved it.
    Other search state is trusted if the current code produced it.
    """
    return PlanStore(context.store).at_once(partial(_look_up, graph, context))


def _look_up(graph: Graph, context: UnitContext, store: PlanStore) -> Result | None:
    question = Question(graph, objective=context.settings.objective)
    record = store.record(question)
    stored = None if record is None else store.get(question)
    if record is None or stored is None:
        return None
    peak, slab = (_believed(record, quantity) for quantity in (Objective.PEAK, Objective.SLAB))
    known = Resume(
        peak_bound=peak.value,
        # A search that is resumed refutes slabs below its bound.
        peak_proof=Proof(peak.proof or Proof.SEARCH),
        refuted_slab=slab.value - 1,
        graph=graph.digest,
    )
    # Damaged states of searches are ignored; plan and bounds remain usable.
    with suppress(FormatError):
        left = store.search(question)
        if left is not None and left.code == context.code:
            known = _unrefuted(left.trusted(known), stored)
    return _with_bounds(stored, known, question.objective)


def _unrefuted(state: Resume, stored: Result) -> Resume:
    """Return the state of a search if the stored plan does not contradict its bounds.

    Raise `FormatError` if a bound is above the plan's value.
    """
    # A bound above a checked plan shows that the search state is wrong.
    if state.peak_bound > (stored.peak or 0) or state.slab_bound > (stored.slab or 0):
        raise FormatError("search bounds exceed the stored plan")
    return state


def _with_bounds(stored: Result, known: Resume, objective: Objective) -> Result:
    """Return a stored plan with the bounds of a search in place of its own."""
    peak, slab = stored.peak or 0, stored.slab or 0
    # A slab that meets a bound on the peak needs no packing proof.
    proof = Proof.JOINT if slab <= max(known.peak_bound, known.pool_peaks) else Proof.JOINT_SEARCH
    result = replace(
        stored,
        peak_bound=known.peak_bound,
        slab_bound=known.slab_bound,
        peak_proof=known.peak_proof if peak <= known.peak_bound else None,
        slab_proof=proof if slab <= known.slab_bound else None,
        state=known,
    )
    reason = StopReason.PROVED if is_proved(result, objective) else StopReason.EXHAUSTED
    return replace(result, stop_reason=reason)


def _believed(record: StoredRecord, quantity: Objective) -> Bound:
    """Return the highest trusted bound on a quantity."""
    ours = versions().get("optsched")
    known = [
        bound
        for bound in record.bounds
        if bound.counts
        and bound.quantity is quantity
        and (bound.certified or bound.provenance.get("versions", {}).get("optsched") == ours)
    ]
    return max(known, key=lambda bound: bound.value, default=Bound(quantity, 0))
