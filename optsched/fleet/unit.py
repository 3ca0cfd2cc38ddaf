"""One unit of work: read a graph, search it for a while, hand over what was found.

A unit may be done twice or be lost: what it finds is only ever added to what is known, and nothing
but the driver writes the store. A worker looks into the store where it can see it, to go on from
what is there; one on another machine is told by the driver.

What travels often has no slots: then pickle copies it without a line of Python.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from heuristics import ORDERINGS, PACKINGS, load_plugins
from heuristics.packings.common import Packing
from heuristics.portfolio import pack_apart
from optsched.errors import FormatError, OptschedError
from optsched.fleet.notes import checked, read_search, search_notes
from optsched.fleet.settings import BASELINE, FleetSettings
from optsched.formats.reading import is_broken_graph
from optsched.model.graph import Graph
from optsched.model.inplace_choice import pair_choices
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan
from optsched.model.pools import pool_rows, sum_of_slabs
from optsched.model.question import digest_of
from optsched.model.steps import Order
from optsched.runtime.facts import code_digest, versions
from optsched.runtime.limits import Limits, Objective, Proof, StopReason
from optsched.runtime.memory import limited_memory
from optsched.runtime.worker_pool import Deadline
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.search_progress import SearchProgress
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
    """What a worker is to do.

    Parameters
    ----------
    number, source
        Which graph: the file or the graph itself.
    limits
        Of this unit; None to read the graph and not to search.
    first
        Whether nobody has looked at the graph in this run: what the store knows is enough then.
    named
        Whether the file was asked for by name: what is no graph is then an error.
    look
        Whether the store may know more.
    earlier
        What to go on from, where the store does not have it yet, or the worker may not see it.
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
    """What all units of a run share.

    Parameters
    ----------
    settings
        Of the run.
    store
        The store's file.
    code
        Digest of the driver's code: a worker of another version is refused.
    """

    settings: FleetSettings
    store: str
    code: str

    @property
    def question(self) -> StoredQuestion:
        """What is asked of every graph."""
        return StoredQuestion(self.settings.objective)


@dataclass(frozen=True, slots=True)
class Earlier:
    """What is known of a graph from earlier units, as far as it is to be believed.

    Parameters
    ----------
    plan
        The best plan.
    progress
        Bounds and orders.
    slices
        Units that came to it.
    peak, slab
        Bytes of the plan.
    proof
        What stands behind the bound on the objective.
    """

    plan: Plan
    progress: SearchProgress
    slices: int
    peak: int
    slab: int
    proof: Proof | None

    def is_proved(self, objective: Objective) -> bool:
        """Whether no plan is better."""
        if objective is Objective.PEAK:
            return self.peak <= self.progress.peak_bound
        return self.slab <= self.progress.slab_bound


@dataclass(frozen=True)
class Found:
    """A message: what is known of a graph now.

    Parameters
    ----------
    name, ops, buffers
        Of the graph.
    peak, slab, peak_bound, slab_bound, proof
        Of the best plan this unit knows.
    slices
        Units behind it.
    settled
        Whether more units would bring nothing.
    baseline
        Bytes that the baseline needs; None where it was not asked.
    digest
        The same for equal graphs, whatever their names and order; empty where it was not asked.
    prepared
        For the store; None where there is nothing new.
    earlier
        For the next unit; None if there is to be none.
    seconds, processor_seconds, worker
        What it took, and where it ran.
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
    baseline: int | None = None
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
        """Return what is known of the graph by reading it."""
        return Found(
            self.name,
            self.ops,
            self.buffers,
            baseline=self.baseline,
            digest=self.digest,
            seconds=self.seconds,
            processor_seconds=self.processor_seconds,
            worker=self.worker,
        )


@dataclass(frozen=True, slots=True)
class UnitFailed:
    """A message: the graph has no more units in this run, and why; or the file is no graph.

    Parameters
    ----------
    reason, worker
        Why, and where.
    is_graph
        Whether the file is a graph, or was to be one.
    name, ops, buffers
        Of the graph, if it was read.
    """

    reason: str
    worker: str = ""
    is_graph: bool = True
    name: str = ""
    ops: int = 0
    buffers: int = 0


@dataclass(frozen=True, slots=True)
class UnitRefused:
    """A message: the worker has another version of this package."""

    worker: str
    version: str


def work_on_unit(
    context: UnitContext, unit: Unit, tell: Callable[[Deadline], object]
) -> Found | UnitFailed | UnitRefused:
    """Do a unit and return what came of it, whatever went wrong; tell before what it may take."""
    if context.code != code_digest():
        version = f"{versions().get('optsched', 'unknown')} (code {code_digest()[:12]})"
        return UnitRefused(worker_name(), version)
    seconds = None if unit.limits is None else unit.limits.seconds
    if seconds is not None:
        tell(Deadline(max(seconds, context.settings.effort.overhead_seconds)))
    if context.settings.memory is not None:
        # What compiled code needs to be there at all is no part of what a graph may take.
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
        # A defect costs its graph and nothing else.
        return _failed(graph, " ".join(f"{type(error).__name__}: {error}".split()))


def _failed(graph: Graph | None, reason: str) -> UnitFailed:
    failed = UnitFailed(reason, worker_name())
    if graph is None:
        return failed
    return replace(failed, name=graph.name, ops=len(graph.ops), buffers=len(graph.buffers))


def worker_name() -> str:
    """Return where this runs, for people."""
    return f"{socket.gethostname()}, process {os.getpid()}"


def _read(unit: Unit, settings: FleetSettings) -> Graph:
    load_plugins()
    if isinstance(unit.source, Graph):
        return unit.source
    if not unit.named and not Path(unit.source).is_file():
        # A pipe in a folder would keep who reads it waiting for ever.
        raise FormatError(f"{unit.source}: this is no regular file")
    return settings.reading.read(unit.source)


def _measured(found: Found, started: float, used: float) -> Found:
    """Add what it took since then, and where."""
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    return replace(found, seconds=seconds, processor_seconds=processor, worker=worker_name())


def _look_and_search(context: UnitContext, unit: Unit, graph: Graph) -> Found:
    settings, earlier = context.settings, unit.earlier
    if earlier is None and unit.look:
        earlier = look_up(graph, context)
    if earlier is not None and (unit.first or earlier.is_proved(settings.objective)):
        # The fleet is sized up: what is to be searched on is decided when all are.
        found = _known(graph, earlier, settings)
    elif unit.limits is None:
        found = _known(graph, None, settings)
    else:
        found = _solve(graph, unit.limits, earlier, context)
    if not unit.first:
        return found
    baseline = _baseline(graph, settings.objective)
    return replace(found, baseline=baseline, digest=graph_digest(graph))


def _solve(graph: Graph, limits: Limits, earlier: Earlier | None, context: UnitContext) -> Found:
    """Search on from what is known, and pack what comes of it for the store."""
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
        # Done again it comes to the same; gone on with, the table would depend on when that was.
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
    """Return what a next unit can go on from."""
    if result.plan is None or result.progress is None:
        return None
    peak, slab = result.peak or 0, result.slab or 0
    return Earlier(result.plan, result.progress, slices, peak, slab, _proof_of(result))


def _proof_of(result: Result) -> Proof | None:
    """Return what stands behind the bound on the objective."""
    return result.slab_proof if result.objective is Objective.SLAB else result.peak_proof


def _is_longest(limits: Limits, settings: FleetSettings) -> bool:
    """Whether later units have no more time: more of it may try what a shorter one gave up."""
    return limits.seconds is not None and limits.seconds >= settings.effort.most_seconds


def _known(graph: Graph, earlier: Earlier | None, settings: FleetSettings) -> Found:
    """Say what the store holds."""
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
    """Return what the next unit is to be told; there is none where all is proved."""
    return None if known is None or known.is_proved(settings.objective) else known


def _baseline(graph: Graph, objective: Objective) -> int | None:
    """Return the bytes that are needed where nobody plans; None where that is not known.

    It is not checked: an overlap would make the baseline less, and so what is saved.
    """
    ordering, packing = BASELINE.split("+")
    try:
        order = ORDERINGS[ordering](graph, 0)
        if objective is Objective.PEAK:
            return peak_memory(graph, order)
        return min(_slabs(graph, order, PACKINGS[packing]))
    except Exception:
        # It costs this figure, not the plan.
        return None


def _slabs(graph: Graph, order: Order, packing: Packing) -> Iterator[int]:
    """Yield the bytes of a packing for each choice of in-place pairs that is tried."""
    for taken in pair_choices(graph, order, tries=0):
        problem, ids = packing_problem(graph, order, taken)
        rows = pool_rows(graph, ids)
        yield sum_of_slabs(problem, rows, pack_apart(problem, rows, packing))


# What is in the store.


def look_up(graph: Graph, context: UnitContext) -> Earlier | None:
    """Return what the store holds of a graph and what of it is to be believed; None without a plan.

    A bound counts if the checker accepted a certificate of it, or if this version proved it; the
    rest of what a search left counts if this code left it.
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
        # Damaged notes are worth nothing, the rest is.
        with suppress(FormatError):
            progress, slices = checked(read_search(graph, search, progress), stored)
    found = Earlier(stored.plan, progress, slices, stored.peak, stored.slab, None)
    return replace(found, proof=_proof(found, question.objective))


def _proof(earlier: Earlier, objective: Objective) -> Proof | None:
    """Return what stands behind a plan, as the solver says it; bounds may be older than plans."""
    progress = earlier.progress
    if not earlier.is_proved(objective):
        return None
    if objective is Objective.PEAK:
        return progress.peak_proof
    at_peak = earlier.slab <= max(progress.peak_bound, progress.pool_peaks)
    return Proof.JOINT if at_peak else Proof.JOINT_SEARCH


def _believed(record: StoredRecord, quantity: Objective) -> Bound:
    """Return the highest bound that counts here."""
    ours = versions().get("optsched")
    known = [
        bound
        for bound in record.bounds
        if bound.counts
        and bound.quantity is quantity
        and (bound.certified or bound.provenance.get("versions", {}).get("optsched") == ours)
    ]
    return max(known, key=lambda bound: bound.value, default=Bound(quantity, 0))
