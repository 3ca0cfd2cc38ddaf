"""The command solve: order and offsets for a graph or a module, with bounds and proofs."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.options import (
    GRAPH,
    GRAPH_MODEL,
    NEAR,
    OBJECTIVE,
    ORDER_RULES,
    POOL,
    SOLVER,
    TAIL,
    Command,
    flag,
    option,
)
from optsched.cli.saving import add_saving
from optsched.cli.tile import tiling_hint
from optsched.errors import UsageError
from optsched.reports.progress import ProgressLine
from optsched.runtime.limits import Proof

if TYPE_CHECKING:
    from optsched.formats.format import Session
    from optsched.model.graph import Graph
    from optsched.model.module import Module
    from optsched.runtime.limits import OnEvent
    from optsched.solver.module_result import ModuleResult
    from optsched.solver.result import Result


PATIENCE = 10.0
"""Most seconds to wait for what the model's runtime holds, after the search."""
_OF_ONE_GRAPH = (
    *("first", "last", "keep_order", "baseline", "max_moved", "fewest_moves", "independent"),
    *("pool", "warm_start", "keep_trace"),
)
"""Options that a module of several computations excludes."""


def _solve(args: argparse.Namespace) -> int:
    from optsched.compare.saving import figures_of
    from optsched.formats import session_of
    from optsched.reports.arena import arena_fields, within_fields
    from optsched.reports.module import result_record, result_text, write_result
    from optsched.reports.results import trace_rows

    if args.unfuse or args.page:
        return _solve_unfused(args)
    # The record of a result has all settings.
    args.objective = args.objective or "slab"
    _refuse_pairs(args)
    module = common.read_module(args, args.graph)
    # Options that name ops of one graph have no meaning for several computations.
    if module.calls and (given := common.given(args, *_OF_ONE_GRAPH)):
        raise UsageError(f"{module.name} is a module of computations: no {given[0]} for it")
    graph = module.graphs[module.entry]
    common.protect([args.output, args.certificate], args.graph, args.warm_start, args.baseline)
    asked, tail = common.capacity(args), common.tail(args, graph)
    seconds, begun = common.limits(args).seconds, time.monotonic()
    # Beside the search.
    session = session_of(graph)
    # The tail takes its part of the array, however small the slab is.
    enough = max(0, asked - tail.tail) if asked is not None and tail else asked
    with ProgressLine(seconds=seconds) as show:
        found = _search(args, module, enough, show)
    result = found.entry
    # Plan files have order and offsets of their own.
    record = result_record(found, listed=args.json)
    if graph.origin is not None and not result.in_pools:
        record |= arena_fields(graph.origin.tails, result.slab)
    if asked is not None:
        record |= within_fields(asked, tail, result.slab)
    text = result_text(found, record)
    # The saving is against the framework, which has no rules.
    if session is not None and seconds is not None:
        # A search that ends early leaves the rest of its time.
        left = max(0.0, begun + seconds - time.monotonic())
        _measure(session, graph, result, min(PATIENCE, left + 0.2 * seconds + 0.5))
    what = module if module.calls else graph
    text = add_saving(what, record, text, **figures_of(found))
    text += tiling_hint(args, result.status == "infeasible", asked)
    if args.keep_trace:
        record["trace"] = trace_rows(result.trace)
    try:
        # Written inside the try block, and printed in any case: the result must not be lost.
        if args.output:
            if module.results_inside:
                raise UsageError(f"{args.output}: {module.name} has orders only, and no offsets")
            write_result(found, args.output, record)
        if args.certificate:
            note = record["certificate"] = _certify(args, found)
            among = f" among {result.restriction}" if result.restriction else ""
            text += (
                f"\n  certificate: {Proof(note['rung']).with_code}, "
                f"no order{'s' if module.calls else ''} below {note['bound']:,} bytes{among}"
            )
    finally:
        common.print_result(args, record, text)
    if _may_need_more(record):
        return common.NOTHING_FOUND
    return common.exit_code(result.status, result.stop_reason)


def _search(
    args: argparse.Namespace, module: Module, capacity: int | None, on_event: OnEvent
) -> Result | ModuleResult:
    """Plan a graph, or all computations of a module that has more than one."""
    from optsched.formats import read_plan
    from optsched.solver import module as modules
    from optsched.solver.pipeline import solve

    asked: dict[str, Any] = {
        "objective": args.objective,
        "capacity": capacity,
        "engine": args.engine,
        "limits": common.clock(args),
        "on_event": on_event,
    }
    if module.calls:
        return modules.solve_module(module, **asked)
    graph = module.graphs[module.entry]
    # The baseline is read before rules, which may refer to its sequence.
    baseline = read_plan(args.baseline, graph) if args.baseline else None
    return solve(
        graph,
        **asked,
        pools=common.pools(args),
        warm_start=read_plan(args.warm_start, graph) if args.warm_start else None,
        order_rules=common.reading(args).order_rules(graph, baseline.order if baseline else None),
        baseline=baseline,
        max_moved=args.max_moved,
        fewest_moves=args.fewest_moves,
        independent=args.independent,
    )


def _measure(session: Session, graph: Graph, result: Result, seconds: float) -> None:
    """Wait for what the model's runtime holds, without the plan and with it."""
    until = time.monotonic() + seconds
    if isinstance(session.held(seconds), int) and result.plan is not None:
        order = [graph.ops[v].name for v in result.plan.order]
        session.planned(order, max(0.0, until - time.monotonic()))


def _may_need_more(record: dict[str, Any]) -> bool:
    """Return True if the slab fits, and the runtime may take more while it prepares the model."""
    needed = record.get("within", {}).get("needed")
    return record["status"] != "infeasible" and needed is not None and needed > record["capacity"]


def _refuse_pairs(args: argparse.Namespace) -> None:
    """Refuse options that exclude or need each other; each message names both."""
    if args.pool and args.capacity:
        raise UsageError("--pool excludes --capacity: write --pool NAME=BYTES")
    if args.pool and args.fewest_moves:
        raise UsageError("--pool excludes --fewest-moves: spilled bytes come first")
    if args.certificate and args.max_moved is not None:
        raise UsageError("--certificate is about all orders: leave out --max-moved")
    if args.keep_trace and not (args.output or args.json):
        raise UsageError("--keep-trace stores the trace in the plan: give -o")


def _solve_unfused(args: argparse.Namespace) -> int:
    from optsched.cli.unfuse import refuse_others, solve_unfused

    if not args.unfuse:
        raise UsageError("--page draws the front of --unfuse: give --unfuse, too")
    refuse_others(args)
    return solve_unfused(args)


def _certify(args: argparse.Namespace, found: Result | ModuleResult) -> dict[str, Any]:
    """Write the certificate of the bounds on peaks; print a note if one proves less."""
    from optsched.api import certify
    from optsched.certificate import certify_module
    from optsched.formats import write_module_certificate
    from optsched.solver.result import Result

    limits = common.certificate_clock(args, found.entry.stop_reason)
    if isinstance(found, Result):
        assert found.question is not None
        written = certify(found.question.graph, args.certificate, result=found, limits=limits)
        made = {"": written}
    else:
        made = certify_module(found.module, found.orders, found.peak_bounds, limits=limits)
        certificates = {name: row.certificate for name, row in made.items()}
        write_module_certificate(certificates, args.certificate, found.module)
        written = made[found.module.entry]
    for name, row in made.items():
        if row.missing:
            of = f" of {name}" if name else ""
            common.show(f"optsched: certificate{of}: {row.missing}", sys.stderr)
    # That of several computations is as long as its longest.
    rung = max(row.rung for row in made.values())
    missing = next((row.missing for row in made.values() if row.missing), None)
    return {"rung": rung, "bound": written.certificate.bound, "missing": missing}


SOLVE = Command(
    "find an order and offsets of minimum memory for a graph, with proof",
    (
        GRAPH,
        option("-o", "--output", help="plan file to write (.gz to compress)"),
        OBJECTIVE,
        option("--capacity", metavar="BYTES", help="only decide if a plan fits in BYTES"),
        TAIL,
        option("--warm-start", metavar="PLAN", help="plan to start from"),
        option(
            "--certificate",
            metavar="FILE",
            help="write a proof of the bound on the peak; may take --time-limit seconds more, "
            "or none after Ctrl-C",
        ),
        *NEAR,
        flag(
            "--fewest-moves",
            "among the best plans, choose one that moves fewest ops of the baseline",
        ),
        *ORDER_RULES,
        flag(
            "--independent",
            "run engine cpsat or milp without our reductions and bounds, as a second opinion",
        ),
        flag("--keep-trace", "store the improvements of plan and bound over time in the plan"),
        flag(
            "--unfuse",
            "undo fusions of a captured graph where that lowers the peak; -o writes the groups",
        ),
        option("--page", metavar="FILE", help="write the front of --unfuse as an HTML page"),
        POOL,
        *SOLVER,
        *GRAPH_MODEL,
    ),
    _solve,
)
