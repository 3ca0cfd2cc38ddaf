"""Compare methods with the proven bound, graph by graph."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from optsched.cli import exits
from optsched.cli.inputs import graph_files, limits, read_graph
from optsched.cli.options import add_engine, add_inplace, add_input_bytes, add_limits
from optsched.cli.output import print_json, progress

if TYPE_CHECKING:
    from optsched.compare import Comparison

HELP = "gap of each method to the proven bound"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("graph", nargs="+", help="graph files, or folders of them")
    parser.add_argument("--methods", help="comma-separated; all by default")
    parser.add_argument("--report", metavar="FILE", help="write an HTML report here")
    add_engine(parser)
    add_limits(parser)
    add_input_bytes(parser)
    add_inplace(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments ask for; return the exit code."""
    from optsched.compare import compare_methods
    from optsched.report.record import comparison_record, versions

    paths = graph_files(args.graph)
    methods = args.methods.split(",") if args.methods else None
    done: list[Comparison] = []
    interrupted = False
    for number, path in enumerate(paths, start=1):
        with progress(f"[{number}/{len(paths)}] {path.name}  ") as show:
            graph = read_graph(args, path)
            comparison = compare_methods(
                graph,
                methods=methods,
                engine=args.engine,
                limits=limits(args),
                on_event=show,
            )
        done.append(comparison)
        if comparison.result.stop_reason == "interrupted":
            interrupted = True
            break
    if args.json:
        records = [comparison_record(c) for c in done]
        rows = [row for record in records for row in record.pop("rows")]
        print_json({"rows": rows, "instances": records, "versions": versions()})
    else:
        _print_comparisons(done)
    if args.report:
        from optsched.report.html import write_report

        write_report(args.report, done)
        print(f"report: {args.report}", file=sys.stderr if args.json else sys.stdout)
    return exits.INTERRUPTED if interrupted else exits.OK


def _print_comparisons(done: Sequence[Comparison]) -> None:
    from rich.console import Console

    from optsched.report.table import gap_summary, gap_table

    # A pipe has no width: there the table takes what it needs.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(gap_table(done, console))
    console.print(gap_summary(done))
