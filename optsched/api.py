"""The functions that programs call: what may be written in several ways is made one here.

Limits may be keywords (`time_limit=5`) or a :class:`Limits`, capacities integers or texts with a
unit (`"64KiB"`), the in-place memory model an argument. The engines behind take one form of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypedDict, TypeVar, Unpack

from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.memory_model import MemoryModel
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.limits import Limits, Objective, OnEvent
from optsched.solver.pipeline import Engine
from optsched.solver.result import DEFAULT_LIMITS

if TYPE_CHECKING:
    from optsched.certificate import Written
    from optsched.counterexamples import Hunt
    from optsched.counterexamples.search import OnProgress
    from optsched.explanation import Explanation
    from optsched.formats.minimalloc import PackingTable
    from optsched.model.plan import Plan
    from optsched.model.reserved import Region
    from optsched.solver.result import PackingResult, Result


class LimitKeywords(TypedDict, total=False):
    """The fields of :class:`Limits` as keywords."""

    time_limit: float | None
    """Seconds; 60 by default, `math.inf` for as long as it takes."""
    work: int | None
    """Units of work instead of seconds, for runs that can be repeated."""
    workers: int | None
    """Threads."""
    seed: int | None
    """Of all random choices."""


_Member = TypeVar("_Member", bound=StrEnum)


def solve(
    graph: Graph,
    *,
    objective: Objective | str = Objective.SLAB,
    capacity: int | str | SupportsIndex | None = None,
    inplace: bool = False,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | None = None,
    warm_start: Plan | None = None,
    on_event: OnEvent | None = None,
    **named: Unpack[LimitKeywords],
) -> Result:
    """Choose an order and offsets of minimum slab or peak, with proof or an honest gap.

    Parameters
    ----------
    graph
        What to plan. Where its buffers name several pools each of these has a slab, the slab is
        the sum of them all, and the peak is over all pools together.
    objective
        `slab` (minimum slab, then minimum peak) or `peak` (minimum peak, then minimum slab).
    capacity
        Ask only whether a slab of this many bytes is enough: `65536` or `"64KiB"`.
    inplace
        Whether an op may write an output into a candidate input that dies at it.
    engine
        See :class:`Engine`.
    limits
        Time or work, threads, seed; a minute by default. Ctrl-C ends the search as they do.
    warm_start
        A plan to start from; it must be valid.
    on_event
        Called whenever the best plan or bound moves.
    named
        The limits one by one: `time_limit=5`, `work=`, `workers=`, `seed=`.

    Returns
    -------
    Result
        Its plan has passed the independent checker and is never worse than the best heuristic's.

    Raises
    ------
    UsageError
        If an option makes no sense, alone or beside another.
    PlanError
        If the warm start breaks a rule of the graph.
    """
    from optsched.solver import pipeline

    return pipeline.solve(
        _graph(graph, inplace),
        objective=_member(Objective, objective, "objective"),
        capacity=None if capacity is None else parse_bytes(capacity),
        engine=_member(Engine, engine, "engine"),
        limits=_limits(limits, named),
        warm_start=warm_start,
        on_event=on_event,
    )


def pack(
    problem: PackingProblem | PackingTable,
    *,
    capacity: int | str | SupportsIndex | None = None,
    reserved: Sequence[Region] = (),
    limits: Limits | None = None,
    on_event: OnEvent | None = None,
    **named: Unpack[LimitKeywords],
) -> PackingResult:
    """Find offsets of minimum slab for given live ranges, or ones that fit a capacity.

    Parameters
    ----------
    problem
        Buffers and their live ranges, or what :func:`read_packing` returns.
    capacity
        Stop at the first packing of at most this many bytes (`65536` or `"64KiB"`);
        `problem.capacity` if None.
    reserved
        Bytes that no buffer may use; they count as part of the slab.
    limits, on_event, named
        As for :func:`solve`.

    Raises
    ------
    GraphError
        If a region makes no sense or a buffer is pinned into one, or onto another buffer.
    UsageError
        If the buffers name pools, which :func:`pack_pools` is for, or an option makes no sense.
    """
    from optsched.solver import pack as engine

    return engine.pack(
        _problem(problem),
        capacity=None if capacity is None else parse_bytes(capacity),
        reserved=reserved,
        limits=_limits(limits, named),
        on_event=on_event,
    )


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

    chosen = _limits(limits, named)
    return explanation.explain(_graph(graph, inplace), changes=changes, limits=chosen)


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
        What :func:`solve` said of the graph; it is asked if None.
    inplace, limits, named
        As for :func:`solve`; the seconds are for the solver, and again for the certificate.

    Returns
    -------
    Written
        The certificate, accepted by the checker, its rung, and what it falls short of, if anything.
    """
    from optsched.certificate import certify_peak
    from optsched.formats import write_certificate

    graph = _graph(graph, inplace)
    chosen = _limits(limits, named)
    if result is None:
        result = solve(graph, limits=chosen)
    order = range(len(graph.ops)) if result.plan is None else result.plan.order
    written = certify_peak(graph, list(order), result.peak_bound, limits=chosen)
    if path is not None:
        write_certificate(written.certificate, path, graph)
    return written


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

    target = room.HuntTarget(
        method=method,
        versus=versus,
        objective=_member(room.LossObjective, objective, "objective"),
        max_ops=max_ops,
        max_bytes=max_bytes,
        seconds=Limits(seconds=time_limit).seconds,
        tries=max_tries,
        seed=Limits(seed=seed).seed,
        at_least=None if at_least is None else Fraction(at_least),
    )
    if source is not None:
        return room.hunt_from(source, target, on_progress=on_progress)
    if at_least is not None:
        raise UsageError("at_least goes with source")
    if target.seconds is None and max_tries is None:
        raise UsageError("a hunt without a time limit needs a number of tries: else it never ends")
    return room.hunt(target, name=name, on_progress=on_progress)


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
    from optsched.reports.report import make_packing_report, make_report
    from optsched.reports.write import require, write_report
    from optsched.solver.result import Result

    kinds = {".html": "html", ".png": "png", ".svg": "svg", ".json": "trace"}
    kind = kinds.get(Path(path).suffix.lower())
    if kind is None:
        raise UsageError(f"{path}: a report ends in {', '.join(kinds)}")
    require([kind])
    chosen = _limits(limits, named)
    if isinstance(what, Result | Graph):
        result = what if isinstance(what, Result) else solve(what, inplace=inplace, limits=chosen)
        graph = what if isinstance(what, Graph) else result.graph
        if graph is None or (plans is None and result.plan is None):
            raise UsageError("there is no plan to show")
        known = plans if isinstance(plans, Mapping) else {"plan": plans or result.plan}
        shown = [(name, plan, ()) for name, plan in known.items() if plan is not None]
        made = make_report(_graph(graph, inplace), result, shown)
    else:
        problem = _problem(what)
        packed = pack(problem, limits=chosen)
        if packed.offsets is None:
            raise UsageError("no packing was found in time: there is nothing to show")
        made = make_packing_report(problem, [packed], [("optsched", packed.offsets, ())])
    write_report(made, {kind: str(path)})


def _problem(problem: PackingProblem | PackingTable) -> PackingProblem:
    """Return the packing problem that is meant."""
    if not isinstance(problem, PackingProblem):
        if any(getattr(problem, "pools", None) or ()):
            raise UsageError("the buffers of this packing name pools: use pack_pools")
        problem = getattr(problem, "problem", problem)
    if not isinstance(problem, PackingProblem):
        raise UsageError(f"pack wants a PackingProblem, got {type(problem).__name__}")
    return problem


def _graph(graph: Graph, inplace: bool) -> Graph:
    """Return the graph in the memory model asked for; say what to do with what is no graph."""
    if isinstance(graph, str | Path):
        raise UsageError(f"{str(graph)!r} is no Graph: read_graph makes one of a file")
    if not isinstance(graph, Graph):
        kind = type(graph).__name__
        hint = ": from_networkx makes one of it" if "DiGraph" in kind else ""
        raise UsageError(f"a Graph is wanted, got {kind}{hint}")
    return MemoryModel(inplace=True).apply(graph) if inplace else graph


def _limits(limits: Limits | None, named: LimitKeywords) -> Limits:
    """Return the limits that are given as one object or as keywords, not as both."""
    given: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    if unknown := sorted(given.keys() - LimitKeywords.__annotations__.keys()):
        raise UsageError(f"there is no option {unknown[0]!r}")
    if limits is not None:
        if given:
            raise UsageError("give either limits= or time_limit=, work=, workers= and seed=")
        if not isinstance(limits, Limits):
            raise UsageError(f"limits wants a Limits, got {limits!r}: write time_limit={limits!r}")
        return limits
    if "time_limit" in given and "work" in given:
        raise UsageError("give either time_limit or work: one of them ends the search")
    if "time_limit" in given or "work" in given:
        given["seconds"] = given.pop("time_limit", None)
    return replace(DEFAULT_LIMITS, **given)


def _member(kind: type[_Member], value: str, what: str) -> _Member:
    """Return the member of an enumeration that a text names."""
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{what} {value!r} is none of {', '.join(kind)}") from None
