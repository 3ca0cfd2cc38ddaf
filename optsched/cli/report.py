"""The command report: plans of a graph, or of live ranges, as HTML, pictures or a trace."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from optsched.cli import common
from optsched.cli.options import GRAPH_MODEL, SOLVER, Command, flag, option
from optsched.errors import UsageError
from optsched.reports.progress import ProgressLine
from optsched.runtime.text import ending_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optsched.compare import Comparison
    from optsched.formats.answers import Answer
    from optsched.model.arrays import IntArray
    from optsched.model.graph import Graph
    from optsched.model.packing_problem import PackingProblem
    from optsched.model.plan import Plan
    from optsched.reports.report import Report
    from optsched.runtime.limits import Event
    from optsched.solver.packing_result import PackingResult
    from optsched.solver.result import Result

OUTPUTS = ("output", "png", "svg", "trace")
"""Options that name a file to write; the ending of the file is the kind of report."""


def _report(args: argparse.Namespace) -> int:
    from optsched.compare.saving import stock_plan
    from optsched.formats import Content, sniff_file
    from optsched.reports.report import make_report, report_saving
    from optsched.reports.write import write_report

    files = _outputs(args)
    holds = sniff_file(args.graph).holds
    # Positions and offsets alone show nothing: sizes are in the graph.
    if holds is Content.PLAN:
        raise UsageError(f"{args.graph}: a plan has no sizes: give its graph first")
    if holds is Content.PACKING:
        report = _packing_report(args)
    else:
        whole = common.read_graph(args, args.graph)
        answers = _answers(args, whole)
        graph = _shown_graph(args, whole, answers)
        plans = [_named_plan(args, graph, name, answers) for name in args.plan]
        result, comparison = _solve(args, graph, [plan for _, plan, _ in plans])
        # Without a plan given, the best one found is shown.
        if result.plan is not None and (args.best or not plans):
            plans.append(("best plan found" if plans else "optsched", result.plan, ()))
        report = make_report(graph, result, plans, comparison) if plans else None
        if report is not None:
            # The framework plans the graph itself, in which each op runs once.
            report = replace(report, saving=report_saving(report, whole, stock_plan(whole)))
    if report is None:
        return common.fail(f"{args.graph}: no plan was found in time", common.NOTHING_FOUND)
    write_report(report, files)
    views, result = report.views, report.result
    named = {"report" if kind == "html" else kind: path for kind, path in files.items()}
    record = {
        "graph": views[0].subject.name,
        "plans": [{"name": v.name, "peak": v.peak, "slab": v.slab} for v in views],
        "peak_bound": result.peak_bound,
        "slab_bound": result.slab_bound,
        "files": named,
        "memory_model": views[0].subject.memory_model,
    }
    if result.restriction:
        record["among"] = result.restriction
    text = "\n".join(f"{what}: {path}" for what, path in named.items())
    if report.saving is not None:
        record["saving"] = report.saving.to_dict()
        text = f"{report.saving}\n{text}"
    common.print_result(args, record, text)
    return common.INTERRUPTED if result.stop_reason == "interrupted" else common.OK


def _outputs(args: argparse.Namespace) -> dict[str, str]:
    """Return the files to write, by kind; raise UsageError if one cannot be written."""
    from optsched.reports.write import KINDS, require

    files: dict[str, str] = {}
    for name in OUTPUTS:
        path = getattr(args, name)
        if path:
            # Without a known ending, as on standard output, the option decides.
            asked = "html" if name == "output" else name
            kind = KINDS.get(ending_of(path), asked)
            if name != "output" and kind != asked:
                raise UsageError(f"{path}: --{name} does not write this kind of file; use -o")
            if kind in files:
                raise UsageError(f"{path}: {files[kind]} is written as {kind} already")
            files[kind] = path
    if not files:
        raise UsageError("nothing to write: name a file with -o, --png, --svg or --trace")
    common.protect(list(files.values()), args.graph, *args.plan)
    require(files)
    return files


def _answers(args: argparse.Namespace, graph: Graph) -> dict[str, Answer]:
    """Return the plan files among the plans to show, each checked."""
    from optsched.formats.answers import Asked, open_answer

    # A file of that name comes first, as a method may be called like one.
    files = [name for name in args.plan if Path(name).exists() or name == "-"]
    given = common.question_options(args)
    asked = Asked(graph, verb="show", given=given, file=args.graph)
    found = {name: open_answer(name, asked) for name in files}
    for name, answer in found.items():
        if "" not in answer.parts:
            raise UsageError(f"{name}: report shows plans of one graph, this is {answer.holds}")
    return found


def _shown_graph(args: argparse.Namespace, graph: Graph, answers: Mapping[str, Answer]) -> Graph:
    """Return the graph of the plans: with an op per run or band if one of them has such."""
    from optsched.formats import Content

    # Without stages a tiled graph has pieces and views of its own, too.
    own = [x for x, y in answers.items() if y.holds is Content.TILED or y.parts[""][0].variant]
    # Two graphs cannot be on one page.
    if own and len(args.plan) > 1:
        raise UsageError(f"{own[0]}: {answers[own[0]].holds} has a graph of its own: show it alone")
    # Methods do not keep the rows of a tensor together, as tiled plans must.
    if own and answers[own[0]].holds is Content.TILED and (args.best or args.methods):
        name = "--best" if args.best else "--methods"
        raise UsageError(f"{own[0]}: {Content.TILED}: no {name} for it; optsched tile finds others")
    return answers[own[0]].parts[""][0] if own else graph


def _named_plan(
    args: argparse.Namespace, graph: Graph, name: str, answers: Mapping[str, Answer]
) -> tuple[str, Plan, tuple[Event, ...]]:
    """Return the plan of a file or, if such a file does not exist, of a method of that name."""
    if name in answers:
        from optsched.reports.results import trace_events

        answer = answers[name]
        return name, answer.parts[""][1], trace_events(answer.claims.get("trace", ()))
    from optsched.compare.measure import MethodRunner
    from optsched.compare.methods import parse_methods

    try:
        (method,) = parse_methods([name])
    except (UsageError, ValueError) as error:
        raise UsageError(f"{name}: expected a plan file or the name of a method: {error}") from None
    runner = MethodRunner(graph, common.limits(args))
    return name, runner.plan_of(method), ()


def _solve(
    args: argparse.Namespace, graph: Graph, plans: list[Plan]
) -> tuple[Result, Comparison | None]:
    """Find the best plan, and the bound that all plans are compared with."""
    if args.methods:
        from optsched.compare import compare_methods

        names = args.methods.split(",")
        with ProgressLine(seconds=common.limits(args).seconds) as show:
            comparison = compare_methods(
                graph, methods=names, engine=args.engine, limits=common.limits(args), on_event=show
            )
        # Another solver of the list may have proved more than ours.
        peak, slab = comparison.peak_bound, comparison.slab_bound
        return replace(comparison.result, peak_bound=peak, slab_bound=slab), comparison
    from optsched.solver.pipeline import solve

    # A plan that spills does not fit the graph's own pools, so it cannot be a warm start.
    own = [plan for plan in plans if plan.placed(graph) == graph]
    with ProgressLine(seconds=common.limits(args).seconds) as show:
        result = solve(
            graph,
            engine=args.engine,
            limits=common.clock(args),
            warm_start=min(own, key=lambda plan: plan.slab(graph), default=None),
            on_event=show,
        )
    return result, None


def _packing_report(args: argparse.Namespace) -> Report | None:
    """Read packings of one set of live ranges, and pack these with a bound for comparison."""
    from optsched.compare.saving import packing_saving
    from optsched.formats import read_packing
    from optsched.reports.report import make_packing_report

    common.refuse_graph_options(args, args.graph)
    tables = {path: read_packing(path) for path in (args.graph, *args.plan)}
    problem, own_pools = tables[args.graph].problem, tables[args.graph].pools or ()
    packings: list[tuple[str, IntArray, Sequence[str]]] = []
    for path, table in tables.items():
        # The same live ranges in the same sequence, or the columns would be mixed up.
        if table.problem.names != problem.names or any(
            (getattr(table.problem, name) != getattr(problem, name)).any()
            for name in ("start", "end", "size")
        ):
            raise UsageError(f"{path}: these are not the live ranges of {args.graph}")
        if table.offsets is not None and (table.offsets >= 0).all():
            packings.append((path, table.offsets, table.pools or ()))
        elif path != args.graph:
            raise UsageError(f"{path}: not every buffer has an offset")
    results, offsets = _pack(args, problem, own_pools)
    if offsets is not None and (args.best or not packings):
        packings.append(("best packing found" if packings else "optsched", offsets, own_pools))
    if not packings:
        return None
    report = make_packing_report(problem, results, packings)
    best = min(view.slab for view in report.views)
    saved = packing_saving(tables[args.graph], best, report.result.slab_bound)
    return replace(report, saving=saved)


def _pack(
    args: argparse.Namespace, problem: PackingProblem, own_pools: Sequence[str]
) -> tuple[list[PackingResult], IntArray | None]:
    """Pack all pools; return the result of each, and all offsets if all pools have been packed."""
    from optsched.model.pools import Pool
    from optsched.solver.pack import pack

    with ProgressLine(seconds=common.limits(args).seconds) as show:
        if not any(own_pools):
            result = pack(problem, limits=common.clock(args), on_event=show)
            return [result], result.offsets
        slabs = [Pool(name) for name in dict.fromkeys(own_pools)]
        found = pack(
            problem, pools=slabs, own_pools=own_pools, limits=common.clock(args), on_event=show
        )
    return [part.result for part in found.packed], found.offsets


REPORT = Command(
    "show plans: packed slab, live bytes, buffers live at the peak, proof",
    (
        option("graph", help="graph file, or live ranges to pack (a MiniMalloc CSV)"),
        option(
            "plan",
            nargs="*",
            help="plans or methods to show side by side: plan files, tflm+tflm_greedy, further CSV "
            "files of live ranges (default: the best plan found)",
        ),
        option(
            "-o",
            "--output",
            metavar="FILE",
            help="file to write: .html, .png, .svg, .pdf, or .json for Perfetto",
        ),
        option("--png", metavar="FILE", help="picture to write, as PNG"),
        option("--svg", metavar="FILE", help="picture to write, as SVG"),
        option("--trace", metavar="FILE", help="trace for Perfetto to write"),
        flag("--best", "show the best plan found beside the given plans"),
        option(
            "--methods",
            metavar="LIST",
            help="add a table of these methods, separated by commas, or all",
        ),
        *SOLVER,
        *GRAPH_MODEL,
    ),
    _report,
)
