"""Plan one graph: an order and offsets, and what is proved of them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from optsched.cli import exits
from optsched.cli.inputs import capacity, limits, pools, protect, read_graph
from optsched.cli.options import (
    add_engine,
    add_graph,
    add_inplace,
    add_input_bytes,
    add_limits,
    add_pool,
)
from optsched.cli.output import print_result, progress, say
from optsched.errors import UsageError

if TYPE_CHECKING:
    from optsched.model.graph import Graph
    from optsched.solver.result import Result

HELP = "choose order and offsets of a graph"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_graph(parser)
    parser.add_argument("-o", "--output", help="write the plan here (.gz to compress)")
    parser.add_argument(
        "--objective",
        choices=("slab", "peak"),
        default="slab",
        help="what is to be minimal, and then the other; slab by default",
    )
    parser.add_argument("--capacity", metavar="BYTES", help="ask only whether it fits in BYTES")
    parser.add_argument("--warm-start", metavar="PLAN", help="start from this plan")
    parser.add_argument("--certificate", metavar="FILE", help="write why no order has less peak")
    parser.add_argument(
        "--keep-trace", action="store_true", help="keep in the plan how best and bound moved"
    )
    add_pool(parser)
    add_engine(parser)
    add_limits(parser)
    add_input_bytes(parser)
    add_inplace(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments ask for; return the exit code."""
    from optsched.formats import read_plan
    from optsched.reports.record import solve_record
    from optsched.reports.table import result_text

    slabs = pools(args)
    if slabs and args.capacity:
        raise UsageError("--pool has its own capacities, and goes with no --capacity")
    graph = read_graph(args, args.graph)
    protect([args.output, args.certificate], args.graph, args.warm_start)
    with progress() as show:
        options: dict[str, Any] = {
            "objective": args.objective,
            "engine": args.engine,
            "limits": limits(args),
            "warm_start": read_plan(args.warm_start, graph) if args.warm_start else None,
            "on_event": show,
        }
        if slabs:
            from optsched.reports.pools import pooled_record, pooled_text
            from optsched.solver.spill.solve import solve_in_pools

            found = solve_in_pools(graph, slabs, **options)
            status, result = found.status, found.result
            record, text = pooled_record(found), pooled_text(found)
        else:
            from optsched.solver.pipeline import solve

            result = solve(graph, capacity=capacity(args), **options)
            status, record, text = result.status, solve_record(graph, result), ""
    _write(args, graph, result, record, text or result_text(graph, result))
    return exits.exit_code(status, result.stop_reason)


def _write(
    args: argparse.Namespace, graph: Graph, result: Result, record: dict[str, Any], text: str
) -> None:
    """Write the files that were asked for, and print."""
    from optsched.formats import write_plan
    from optsched.reports.record import trace_rows

    if args.keep_trace:
        record["trace"] = trace_rows(result.trace)
    try:
        if args.output and result.plan is not None:
            write_plan(result.plan, args.output, graph, record)
        if args.certificate:
            note = _certify(args, graph, result)
            record["certificate"] = note
            text += f"\n  certificate: {note['rung']}, no order below {note['bound']:,} bytes"
    finally:
        # Where a disk is full, what was found is still told.
        print_result(args, record, text)


def _certify(args: argparse.Namespace, graph: Graph, result: Result) -> dict[str, Any]:
    """Write the certificate of the bound on the peak; what it falls short of is said."""
    from optsched.api import certify

    written = certify(graph, args.certificate, result=result, limits=limits(args))
    if written.missing:
        say(f"optsched: certificate: {written.missing}", sys.stderr)
    bound = written.certificate.bound
    return {"rung": written.rung, "bound": bound, "missing": written.missing}
