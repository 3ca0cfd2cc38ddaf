"""Plan repeats of ops, so that a training step fits a peak."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.options import GRAPH, LIMITS, READING, Command, number, option, positive, repeated
from optsched.cli.saving import add_saving
from optsched.errors import UsageError
from optsched.reports.terminal import console
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.collector import paused_collector
from optsched.runtime.limits import Objective
from optsched.runtime.text import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optsched.model.graph import Graph
    from optsched.solver.recompute.result import RecomputeResult

COSTS = ("kernel", "roofline", "flops", "bytes", "given")
GIB = 2**30
PACK_SHARE = 0.1
"""Part of the time for the offsets of the plan."""


def _recompute(args: argparse.Namespace) -> int:
    from optsched.reports.front import family_text, front_table, recompute_record, recompute_text
    from optsched.reports.tables import print_line, print_table

    if not args.peak and args.points is None:
        raise UsageError("give --peak BYTES, several of them, or --points N")
    common.protect([args.output, args.certificate, args.page], args.graph, args.costs)
    # A front has many plans, and one file holds one.
    if (args.output or args.certificate) and len(args.peak) != 1:
        raise UsageError("-o and --certificate are of one plan: give a single --peak")
    results = _plan(args, read_training_graph(args))
    records = [recompute_record(result) for result in results]
    record = records[0] if len(records) == 1 else {"front": records}
    saved = _add_saving(results, record)
    try:
        _write_files(args, results, saved)
    finally:
        # Printed even if a file could not be written, for example on a full disk.
        if args.json or len(results) == 1:
            common.print_result(args, record, f"{saved}\n{recompute_text(results[0])}")
        else:
            common.show_beside(args, saved)
            to = console(stderr=bool(common.printed_files(args)))
            print_table(to, front_table(results), "--json shows all columns")
            print_line(to, family_text(results[0]))
    return _exit_code(results)


def _write_files(args: argparse.Namespace, results: Sequence[RecomputeResult], saved: str) -> None:
    from optsched.formats.source import write_bytes
    from optsched.reports.front import front_page

    if args.page:
        write_bytes(args.page, front_page(results, saved).encode())
    if args.output and results[0].sequence is not None:
        _write_plan(args, results[0])
    if args.certificate:
        _write_certificate(args, results[0])


def _add_saving(results: Sequence[RecomputeResult], record: dict[str, Any]) -> str:
    """Put the saving of the smallest peak with a plan into a record; return it in one line."""
    planned = [x for x in results if x.peak is not None]
    # Of several plans the smallest one shows what is possible.
    best = min(planned, key=lambda x: x.peak or 0, default=results[0])
    line = add_saving(
        best.graph,
        record,
        "",
        peak=best.peak,
        slab=None,
        objective=Objective.PEAK,
    ).strip()
    if best.extra_share is not None and best.total:
        line += f"; {percent(best.extra_share, 2)} extra compute"
    return line


def read_training_graph(args: argparse.Namespace) -> Graph:
    """Read the graph without order rules and memory models that recompute does not have."""
    graph = common.reading(args).read_unordered(args.graph).without_inplace()
    common.keep_from_collector()
    return graph


def priced(args: argparse.Namespace, graph: Graph) -> Graph:
    """Return the graph with the costs that the options ask for."""
    from optsched.formats.costs import read_costs, with_costs

    if args.costs is not None and args.cost is not None:
        raise UsageError("give either --cost or --costs, not both")
    return with_costs(graph, args.cost) if args.costs is None else read_costs(args.costs, graph)


def _plan(args: argparse.Namespace, graph: Graph) -> Sequence[RecomputeResult]:
    from optsched.solver.recompute.front import plan_budgets
    from optsched.solver.recompute.solve import Planner

    clock = common.clock(args)
    with paused_collector():
        planner = Planner(priced(args, graph), args.loss)
    # Its tables live as long as the graph.
    common.keep_from_collector()
    peaks = [parse_bytes(text) for text in args.peak]
    if args.points is not None:
        top = planner.find_base(clock.share(0.1)).peak
        # No plan can need less than its largest op, so the front ends there.
        own = max(map(planner.problem.own_bytes, range(len(planner.problem.ops))), default=0)
        # Evenly spaced, the two ends included.
        peaks += [top - (top - own) * i // max(1, args.points - 1) for i in range(args.points)]
    return plan_budgets(planner, sorted(peaks, reverse=True), clock)


def _write_plan(args: argparse.Namespace, result: RecomputeResult) -> None:
    from optsched.formats.fields import json_bytes
    from optsched.formats.runs import result_document
    from optsched.formats.source import write_bytes

    # Offsets come last and need little time: the order is the hard part.
    seconds = 5.0 if args.time_limit == float("inf") else max(1.0, PACK_SHARE * args.time_limit)
    document = result_document(result, read_training_graph(args), seconds)
    write_bytes(args.output, json_bytes(document))


def _write_certificate(args: argparse.Namespace, result: RecomputeResult) -> None:
    from optsched.certificate.recompute import certify_recompute
    from optsched.formats.recompute import write_recompute

    write_recompute(certify_recompute(result), args.certificate, result.graph)


def _exit_code(results: Sequence[RecomputeResult]) -> int:
    """Return the worst code; of a front, a budget that is proved impossible is an answer."""
    asked = [x for x in results if len(results) == 1 or x.status != "infeasible"]
    return max((common.exit_code(x.status, x.stop_reason) for x in asked), default=common.OK)


def explain_peak(args: argparse.Namespace) -> int:
    """Say what makes a peak impossible, or what it costs and what the next bytes less cost."""
    from optsched.reports.front import recompute_record, recompute_text
    from optsched.solver.recompute.front import recompute

    peak = parse_bytes(args.peak)
    # The next step down is a tenth, or a GiB where peaks are counted in those.
    less = GIB if peak >= 10 * GIB else max(1, peak // 10)
    graph = read_training_graph(args)
    clock = common.clock(args)
    at, below = recompute(priced(args, graph), [peak, peak - less], loss=args.loss, limits=clock)
    text = recompute_text(at)
    if at.extra is not None:
        text += f"\n{less:,} bytes less cost "
        if below.bound is None:
            text = text.removesuffix("cost ") + f"are impossible: {below.blocker}"
        elif below.extra is None:
            text += f"at least {max(0, below.bound - at.extra):,} more; no plan was found"
        else:
            more, least = below.extra - at.extra, max(0, below.bound - at.extra)
            text += f"{more:,} more ({percent(more / max(1, at.total), 2)} of a step)"
            text += "" if more == least else f", at least {least:,}"
    record = {**recompute_record(at), "below": recompute_record(below)}
    common.print_result(args, record, f"{_add_saving([at], record)}\n{text}")
    return _exit_code([at])


COST_OPTIONS = (
    option(
        "--cost",
        choices=COSTS,
        default=None,
        help="cost of running an op again; kernel by default, or the costs that the graph states",
    ),
    option("--costs", metavar="FILE", help="measured costs by op instead (optsched-costs/1)"),
)
LOSS = repeated("--loss", "OP", "op that makes the loss, where no input is named tangents")
RECOMPUTE = Command(
    "find the least extra compute with which a training step fits a peak",
    (
        GRAPH,
        repeated("--peak", "BYTES", "most live bytes, such as 8GiB"),
        number("--points", positive, "plan N evenly spaced budgets as well: a front"),
        *COST_OPTIONS,
        LOSS,
        option("-o", "--output", help="write the plan here (.gz to compress)"),
        option("--certificate", metavar="FILE", help="write why no plan costs less"),
        option("--page", metavar="FILE", help="write the front as an HTML page"),
        *LIMITS,
        *READING,
    ),
    _recompute,
)
