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
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from heuristics import load_plugins
from optsched.compare.saving import StockPlan, stock_plan
from optsched.errors import FormatError, OptschedError
from optsched.fleet.notes import checked, read_search, search_notes
from optsched.fleet.settings import FleetSettings
from optsched.formats.reading import is_broken_graph
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import digest_of
from optsched.runtime.facts import code_digest, versions
from optsched.runtime.limits import Limits, Objective, Proof, StopReason
from optsched.runtime.memory import limited_memory
from optsched.runtime.worker_pool import Deadline
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.resume import SearchProgress
from optsched.store import (
    Bound,
    PlanStore,
    PreparedResult,
    StoredQuestion,
    StoredRecord,
    graph_digest,
    prepare_result,
)


@dataclass(frozen=True)
class Unit:
    """A unit of work for a worker.

    Parameters
    ----------
    number, source
        Index of the graph; its file's path or the graph itself.
    limits
        Limits of this unit; None to read the graph without a search.
    first
        True for the first unit of the graph in this run: results in the store then suffice.
    named
        True if the user named the file; it is then an error if it does not contain a graph.
    look
        True if the store may contain results.
    earlier
        State to continue from, if it is not yet in the store or the worker cannot open the store.
    """

    number: int
    source: str | Graph
    limits: Limits | None
    first: bool = True
    named: bool = True
    look: bool = True
    earlier: Earlier | None = None


@dataclass(frozen=True, slots=True)
class UnitContext:
    """Data that all units of a run share.

    Parameters
    ----------
    settings
        Settings of the run.
    store
        Path of the store.
    code
        Digest of the driver's code; workers with other code are excluded.
    """

    settings: FleetSettings
    store: str
    code: str

    @property
    def question(self) -> StoredQuestion:
        """Question that is answered for every graph."""
        return StoredQuestion(self.settings.objective)


@dataclass(frozen=True, slots=True)
class Earlier:
    """Trusted results of a graph from earlier units.

    Parameters
    ----------
    plan
        Best plan.
    progress
        Bounds and orders.
    slices
        Number of units that produced them.
    peak, slab
        Peak and slab of the plan, in bytes.
    proof
        Proof of the bound on the objective.
    """

    plan: Plan
    progress: SearchProgress
    slices: int
    peak: int
    slab: int
    proof: Proof | None

    def is_proved(self, objective: Objective) -> bool:
        """Return True if the plan is proved optimal."""
        if objective is Objective.PEAK:
            return self.peak <= self.progress.peak_bound
        return self.slab <= self.progress.slab_bound


@dataclass(frozen=True)
class Found:
    """Message with the results of a unit.

    Parameters
    ----------
    name, ops, buffers
        Name and numbers of ops and buffers of the graph.
    peak, slab, peak_bound, slab_bound, proof
        Figures of the best plan that this unit knows, in bytes, and its proof.
    slices
        Number of units of the graph so far.
    settled
        True if further units would not help.
    before
        Plan of the file's own framework; None if not computed.
    digest
        Digest that is equal for graphs that differ only in names and numbering; empty if not
        computed.
    prepared
        Results for the store; None if there are none.
    earlier
        State for the next unit; None if there will be none.
    seconds, processor_seconds, worker
        Time taken, and name of the worker.
    """

    name: str
    ops: int
    buffers: int
    peak: int | None = None
    slab: int | None = None
    peak_bound: int = 0
    slab_bound: int = 0
    proof: Proof | None = None
    slices: int = 0
    settled: bool = False
    before: StockPlan | None = None
    digest: str = ""
    prepared: PreparedResult | None = None
    earlier: Earlier | None = None
    seconds: float = 0.0
    processor_seconds: float = 0.0
    worker: str = ""

    def value(self, objective: Objective) -> int | None:
        """Bytes of the best plan."""
        return self.slab if objective is Objective.SLAB else self.peak

    def without_search(self) -> Found:
        """Return the message without results of a search."""
        return Found(
            self.name,
            self.ops,
            self.buffers,
            before=self.before,
            digest=self.digest,
            seconds=self.seconds,
            processor_seconds=self.processor_seconds,
            worker=self.worker,
        )


@dataclass(frozen=True, slots=True)
class UnitFailed:
    """Message that the graph gets no more units in this run, or that the file is not a graph.

    Parameters
    ----------
    reason, worker
        Reason of the failure, and name of the worker.
    is_graph
        True if the file contains a graph or was expected to.
    name, ops, buffers
        Name and numbers of ops and buffers of the graph, if it was read.
    """

    reason: str
    worker: str = ""
    is_graph: bool = True
    name: str = ""
    ops: int = 0
    buffers: int = 0


@dataclass(frozen=True, slots=True)
class UnitRefused:
    """Message that the worker has another version of this package."""

    worker: str
    version: str


def work_on_unit(
    context: UnitContext, unit: Unit, tell: Callable[[Deadline], object]
) -> Found | UnitFailed | UnitRefused:
    """Run a unit and return its result or failure; first report its time limit to `tell`."""
    if context.code != code_digest():
        version = f"{versions().get('optsched', 'unknown')} (code {code_digest()[:12]})"
        return UnitRefused(worker_name(), version)
    seconds = None if unit.limits is None else unit.limits.seconds
    if seconds is not None:
        tell(Deadline(max(seconds, context.settings.effort.overhead_seconds)))
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
        is_graph = graph is not None or unit.named or is_broken_graph(str(unit.source))
        return replace(_failed(graph, str(error)), is_graph=is_graph)
    except MemoryError:
        limit = context.settings.memory
        said = "" if limit is None else f" (limit {limit:,} bytes)"
        return _failed(graph, f"out of memory{said}")
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
    if earlier is not None and (unit.first or earlier.is_proved(settings.objective)):
        # First units only survey the fleet; the choice of graphs to search follows once all are
        # known.
        found = _known(graph, earlier, settings)
    elif unit.limits is None:
        found = _known(graph, None, settings)
    else:
        found = _solve(graph, unit.limits, earlier, context)
    if not unit.first:
        return found
    path = "" if isinstance(unit.source, Graph) else str(unit.source)
    before = stock_plan(graph, path, profile=settings.reading.profile)
    return replace(found, before=before, digest=graph_digest(graph))


def _solve(graph: Graph, limits: Limits, earlier: Earlier | None, context: UnitContext) -> Found:
    """Continue the search from earlier results, and prepare the new ones for the store."""
    settings = context.settings
    result = solve(
        graph,
        objective=settings.objective,
        limits=limits,
        warm_start=None if earlier is None else earlier.plan,
        progress=None if earlier is None else earlier.progress,
    )
    before = 0 if earlier is None else earlier.slices
    cut_short = result.stop_reason is StopReason.INTERRUPTED
    if cut_short and settings.work is not None:
        # A repeated unit gives identical results; a continued one would depend on when it was
        # interrupted.
        return _known(graph, earlier, settings)
    left = _left_by(result, before if cut_short else before + 1)
    notes = None if left is None else search_notes(left.progress, left.slices, context.code)
    proof = _proof_of(result)
    return Found(
        graph.name,
        len(graph.ops),
        len(graph.buffers),
        result.peak,
        result.slab,
        result.peak_bound,
        result.slab_bound,
        proof,
        before if cut_short else before + 1,
        settled=result.stop_reason is StopReason.EXHAUSTED and _is_longest(limits, settings),
        prepared=prepare_result(graph, result, notes, check=False),
        earlier=_for_next(left, settings),
    )


def _left_by(result: Result, slices: int) -> Earlier | None:
    """Return the state from which the next unit can continue."""
    if result.plan is None or result.progress is None:
        return None
    peak, slab = result.peak or 0, result.slab or 0
    return Earlier(result.plan, result.progress, slices, peak, slab, _proof_of(result))


def _proof_of(result: Result) -> Proof | None:
    """Return the proof of the bound on the objective."""
    return result.slab_proof if result.objective is Objective.SLAB else result.peak_proof


def _is_longest(limits: Limits, settings: FleetSettings) -> bool:
    """Return True if no later unit is longer; a longer one may try what this one gave up."""
    return limits.seconds is not None and limits.seconds >= settings.effort.most_seconds


def _known(graph: Graph, earlier: Earlier | None, settings: FleetSettings) -> Found:
    """Return the stored results as a message."""
    if earlier is None:
        return Found(graph.name, len(graph.ops), len(graph.buffers))
    progress = earlier.progress
    return Found(
        graph.name,
        len(graph.ops),
        len(graph.buffers),
        earlier.peak,
        earlier.slab,
        progress.peak_bound,
        progress.slab_bound,
        earlier.proof,
        earlier.slices,
        earlier=_for_next(earlier, settings),
    )


def _for_next(known: Earlier | None, settings: FleetSettings) -> Earlier | None:
    """Return the state for the next unit; None if all is proved."""
    return None if known is None or known.is_proved(settings.objective) else known


# Reading of the store.


def look_up(graph: Graph, context: UnitContext) -> Earlier | None:
    """Return the trusted part of the store's results of a graph; None without a plan.

    A bound is trusted if the checker accepted a certificate of it or if this version proved it.
    Other search state is trusted if the current code produced it.
    """
    return PlanStore(context.store).at_once(partial(_look_up, graph, context))


def _look_up(graph: Graph, context: UnitContext, store: PlanStore) -> Earlier | None:
    question = context.question
    record = store.record(graph, question)
    stored = None if record is None else store.get(graph, question)
    if record is None or stored is None:
        return None
    peak, slab = (_believed(record, quantity) for quantity in (Objective.PEAK, Objective.SLAB))
    progress = SearchProgress(
        peak_bound=peak.value,
        peak_proof=Proof(peak.proof or Proof.SEARCH),
        refuted_slab=slab.value - 1,
        graph=digest_of(graph),
    )
    slices = 0
    search = store.search(graph, question)
    if search is not None and search.notes.get("code") == context.code:
        # Damaged search notes are ignored; plan and bounds remain usable.
        with suppress(FormatError):
            progress, slices = checked(read_search(graph, search, progress), stored)
    found = Earlier(stored.plan, progress, slices, stored.peak, stored.slab, None)
    return replace(found, proof=_proof(found, question.objective))


def _proof(earlier: Earlier, objective: Objective) -> Proof | None:
    """Return the proof of a plan's optimality, named as by the solver; bounds may be older."""
    progress = earlier.progress
    if not earlier.is_proved(objective):
        return None
    if objective is Objective.PEAK:
        return progress.peak_proof
    at_peak = earlier.slab <= max(progress.peak_bound, progress.pool_peaks)
    return Proof.JOINT if at_peak else Proof.JOINT_SEARCH


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
