"""The command hunt: search for small instances on which a method is as bad as possible."""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from optsched.cli import common
from optsched.cli.options import READING, SEED, Command, choice, number, option, positive, seconds
from optsched.errors import UsageError
from optsched.reports.progress import ProgressLine
from optsched.runtime.text import decoded

if TYPE_CHECKING:
    from optsched.counterexamples import HuntProgress
    from optsched.model.graph import Graph
    from optsched.model.packing_problem import PackingProblem


def _hunt(args: argparse.Namespace) -> int:
    from optsched.api import hunt
    from optsched.reports.hunt import hunt_record, hunt_text, write_counterexample

    if args.output == "-":
        raise UsageError("hunt writes plans and a picture beside -o: give it a file's name")
    common.protect([args.output], args.source)
    if args.at_least is not None and args.source is None:
        raise UsageError("--at-least needs --from")
    with ProgressLine(f"{args.method}  ", seconds=args.time_limit) as line:

        def show(at: HuntProgress) -> None:
            best = "nothing yet" if at.best is None else f"{at.best.objective} {at.best.score:.4g}"
            line.show_text(
                f"{best}  {at.tried:,} tried, {at.tried / max(at.seconds, 1e-3):,.0f}/s  {at.phase}"
            )

        done = hunt(
            args.method,
            versus=args.versus,
            source=None if args.source is None else _read(args),
            objective=args.objective,
            max_ops=args.max_ops,
            max_bytes=args.max_bytes,
            max_tries=args.max_tries,
            at_least=None if args.at_least is None else _number(args.at_least),
            time_limit=args.time_limit,
            seed=args.seed,
            # The instance is named after its file, which is where people will look for it.
            name=decoded(Path(args.output.removesuffix(".gz")).stem),
            on_progress=show,
        )
    files = (
        {}
        if done.counterexample is None
        else write_counterexample(Path(args.output), done.counterexample)
    )
    common.print_result(args, hunt_record(done, files), hunt_text(done, files))
    if done.interrupted:
        return common.INTERRUPTED
    if done.counterexample is None:
        return common.NOTHING_FOUND
    # Unproved: the optimum is the best plan known, so the loss may be larger.
    return common.OK if done.counterexample.optimum.proved else common.UNPROVED


def _number(text: str) -> Fraction:
    try:
        # Exact: `1.2` as a float would be a little less than 6/5.
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"--at-least wants a number such as 1.2, got {text!r}") from None


def _read(args: argparse.Namespace) -> Graph | PackingProblem:
    from optsched.formats import Content, read_graph, read_packing, sniff_file

    if sniff_file(args.source).holds is Content.PACKING:
        return read_packing(args.source).problem
    return read_graph(args.source, **common.reading(args).options)


HUNT = Command(
    "find small instances on which a method is as bad as possible",
    (
        option("--method", required=True, help="ordering, packing method, or ordering+packing"),
        option("--versus", metavar="METHOD", help="method to compare with (default: the optimum)"),
        choice("--objective", ("ratio", "difference"), "measure of the loss"),
        number("--max-ops", positive, "most ops, or buffers for a packing method", 10),
        number("--max-bytes", positive, "most bytes of a buffer", 100),
        option(
            "--from", dest="source", metavar="FILE", help="shrink this graph or packing instead"
        ),
        option(
            "--at-least",
            metavar="X",
            help="with --from: loss to keep (default: the loss on FILE)",
        ),
        option("-o", "--output", required=True, help="file of the instance; plans go beside it"),
        number("--time-limit", seconds, "time limit in seconds; inf for none", 60.0, "S"),
        number(
            "--max-tries",
            positive,
            "most instances to try; with this limit alone, a seed determines the result",
        ),
        SEED,
        *READING,
    ),
    _hunt,
)
