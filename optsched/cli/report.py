"""Show plans of a graph to people: an HTML file, pictures, a trace."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optsched.cli import exits
from optsched.cli.inputs import limits, protect, read_graph
from optsched.cli.options import add_engine, add_inplace, add_input_bytes, add_limits
from optsched.cli.output import print_result, progress
from optsched.errors import FormatError, PlanError, UsageError

if TYPE_CHECKING:
    from optsched.compare import Comparison
    from optsched.model.graph import Graph
    from optsched.model.plan import Plan
    from optsched.reports.page import Report
    from optsched.runtime.limits import Event
    from optsched.solver.result import Result

HELP = "show plans of a graph: packed slab, live bytes, who is live at the peak, proof"

OUTPUTS = ("output", "png", "svg", "trace")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("graph", help="graph file (found out by content; - for standard input)")
    parser.add_argument(
        "plan", nargs="*", help="plan files, shown side by side; none: the best plan found"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write one HTML file")
    parser.add_argument("--png", metavar="FILE", help="write a picture")
    parser.add_argument("--svg", metavar="FILE", help="write a picture made of lines")
    parser.add_argument("--trace", metavar="FILE", help="write a trace that Perfetto opens")
    parser.add_argument("--best", action="store_true", help="the best plan found beside the files")
    parser.add_argument(
        "--methods", metavar="LIST", help="a gap table of these, comma-separated, or all"
    )
    add_engine(parser)
    add_limits(parser)
    add_input_bytes(parser)
    add_inplace(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments ask for; return the exit code."""
    _check_outputs(args)
    graph = _read_graph(args)
    plans = [_read_plan(args, graph, path) for path in args.plan]
    result, comparison = _solve(args, graph, [plan for _, plan, _ in plans])
    if result.plan is not None and (args.best or not plans):
        plans.append(("best plan found" if plans else "optsched", result.plan, ()))
    if not plans:
        return exits.fail(f"{graph.name}: no plan was found in time", exits.NOTHING_FOUND)
    from optsched.reports.page import make_report

    report = make_report(graph, result, plans, comparison)
    files = _write(args, report)
    record = {
        "instance": graph.name,
        "plans": [{"name": v.name, "peak": v.peak, "slab": v.slab} for v in report.views],
        "peak_bound": result.peak_bound,
        "slab_bound": result.slab_bound,
        "files": files,
        "memory_model": graph.model_name,
    }
    print_result(args, record, "\n".join(f"{what}: {path}" for what, path in files.items()))
    return exits.INTERRUPTED if result.stop_reason == "interrupted" else exits.OK


def _check_outputs(args: argparse.Namespace) -> None:
    """Refuse what can not be written before anything is worked out."""
    outputs = [path for path in (getattr(args, name) for name in OUTPUTS) if path]
    if not outputs:
        raise UsageError("nothing to write: name a file with -o, --png, --svg or --trace")
    protect(outputs, args.graph, *args.plan)
    if args.output:
        from optsched.reports.figures import require_bokeh

        require_bokeh()
    if args.png or args.svg:
        from optsched.reports.static import require_matplotlib

        require_matplotlib()


def _read_graph(args: argparse.Namespace) -> Graph:
    try:
        return read_graph(args, args.graph)
    except FormatError:
        from optsched.formats import Content, sniff_file

        if args.graph != "-" and sniff_file(args.graph).holds is Content.PLAN:
            line = f"{args.graph}: a plan has no sizes: put its graph before it"
            raise UsageError(line) from None
        raise


def _read_plan(
    args: argparse.Namespace, graph: Graph, path: str
) -> tuple[str, Plan, tuple[Event, ...]]:
    """Read a plan, check it and its claims, and return its name and how it came about."""
    from optsched.check.claims import check_claims
    from optsched.formats import read_plan_claims
    from optsched.reports.record import trace_events

    plan, claims = read_plan_claims(path, graph)
    if claims["inplace"] and not args.inplace:
        raise UsageError(f"{path}: an in-place plan: show it with --inplace")
    try:
        check_claims(graph, plan, claims)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    return path, plan, trace_events(claims.get("trace", ()))


def _solve(
    args: argparse.Namespace, graph: Graph, plans: list[Plan]
) -> tuple[Result, Comparison | None]:
    """Find the best plan and the bound that all plans are measured by."""
    if args.methods:
        from optsched.compare import compare_methods

        names = args.methods.split(",")
        with progress() as show:
            comparison = compare_methods(
                graph, methods=names, engine=args.engine, limits=limits(args), on_event=show
            )
        # Another solver of the list may have proved more than ours.
        peak, slab = comparison.peak_bound, comparison.slab_bound
        return replace(comparison.result, peak_bound=peak, slab_bound=slab), comparison
    from optsched.solver.pipeline import solve

    # A plan that spills is no plan of the graph in its own pools.
    own = [plan for plan in plans if plan.placed(graph) == graph]
    with progress() as show:
        result = solve(
            graph,
            engine=args.engine,
            limits=limits(args),
            warm_start=min(own, key=lambda plan: plan.slab(graph), default=None),
            on_event=show,
        )
    return result, None


def _write(args: argparse.Namespace, report: Report) -> dict[str, Any]:
    files: dict[str, Any] = {}
    graph, views, bound = report.graph, report.views, report.result.peak_bound
    if args.output:
        from optsched.reports.page import write_page

        write_page(args.output, report)
        files["report"] = args.output
    for kind in ("png", "svg"):
        if path := getattr(args, kind):
            from optsched.reports.static import write_picture

            write_picture(path, kind, graph, views, bound)
            files[kind] = path
    if args.trace:
        from optsched.reports.chrome_trace import write_trace

        write_trace(args.trace, graph, views, bound)
        files["trace"] = args.trace
    return files
