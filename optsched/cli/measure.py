"""The command measure: bytes that a model's runtime holds, before and after a plan."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.options import MEMORY_MODEL, READING, Command, number, option, seconds
from optsched.errors import PlanError, UsageError

if TYPE_CHECKING:
    from optsched.measure import Measurement


def _measure(args: argparse.Namespace) -> int:
    from optsched.compare.saving import stock_plan
    from optsched.formats.apply import checked_plan
    from optsched.measure import RUNTIMES, Request, measure_model, runtime_of

    # The runtime opens the file in a process of its own.
    common.refuse_pipes([args.graph])
    runtime = runtime_of(args.graph, args.runtime)
    if RUNTIMES[runtime].compiles:
        return _measure_compiled(args, runtime)
    graph, plan = common.read_graph(args, args.graph), None
    options, written = common.reading(args).options, ""
    if args.plan is not None and graph.origin is not None and _is_model(args.plan):
        written = args.plan
    elif args.plan is not None:
        graph, plan, _ = checked_plan(graph, args.plan)
    own = stock_plan(graph) if RUNTIMES[runtime].plans else None
    slab = None if own is None else own.slab
    found = measure_model(Request(args.graph, graph, plan, options, written, slab))
    record = {**found.to_dict(), "memory_model": graph.model_name}
    return _print(args, found, record)


def _is_model(path: str) -> bool:
    """Return True if a file is a model of TFLite, which holds its plan itself."""
    from optsched.formats import sniff_file

    return sniff_file(path).name == "tflite"


def _measure_compiled(args: argparse.Namespace, compiler: str) -> int:
    from optsched.measure import measure_compiled

    if args.plan is not None:
        raise UsageError(
            f"{args.plan}: {compiler} compiles the ops of the file into others, which our plugin "
            "plans; leave out the plan"
        )
    if unused := common.given(args, "dim", "profile", "inplace"):
        raise UsageError(
            f"{', '.join(unused)}: {compiler} runs the program with its own inputs; leave it out"
        )
    found = measure_compiled(args.graph, compiler, args.time_limit)
    return _print(args, found, found.to_dict())


def _print(args: argparse.Namespace, found: Measurement, record: dict[str, Any]) -> int:
    common.print_result(args, record, str(found))
    # Different outputs mean a broken plan or runtime: no saving makes up for that.
    if found.same_outputs is False:
        raise PlanError(f"{args.graph}: the outputs with the plan differ from those without it")
    return common.OK if found.is_explained else common.UNPROVED


MEASURE = Command(
    "run a model in its runtime, before and after a plan, and compare held with planned bytes",
    (
        option("graph", metavar="model", help="model file: .onnx, .tflite, .pt2 or HLO text"),
        option(
            "plan",
            nargs="?",
            help="plan file that solve wrote for this model, or a .tflite file that apply or tile "
            "wrote; compilers are run with our plugin instead",
        ),
        option(
            "--runtime",
            metavar="NAME",
            help="runtime to use; for .pt2 files torch, that is torch.compile, or executorch "
            "(default: torch)",
        ),
        number(
            "--time-limit",
            seconds,
            "time limit of our plugin in compilers (.pt2 files, HLO text), in seconds",
            20.0,
            "S",
        ),
        *READING,
        *MEMORY_MODEL[:1],
    ),
    _measure,
)
