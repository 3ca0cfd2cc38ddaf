"""The command measure: bytes that a model's runtime holds, before and after a plan."""

from __future__ import annotations

import argparse

from optsched.cli import common
from optsched.cli.options import MEMORY_MODEL, READING, Command, option
from optsched.errors import PlanError


def _measure(args: argparse.Namespace) -> int:
    from optsched.formats.apply import checked_plan
    from optsched.measure import Request, measure_model

    graph, plan = common.read_graph(args, args.graph), None
    if args.plan is not None:
        graph, plan, _ = checked_plan(graph, args.plan)
    found = measure_model(Request(args.graph, graph, plan, common.reading(args).options))
    record = {**found.to_dict(), "memory_model": graph.model_name}
    common.print_result(args, record, str(found))
    if found.same_outputs is False:
        raise PlanError(f"{args.graph}: the outputs with the plan differ from those without it")
    return common.OK if found.is_explained else common.UNPROVED


MEASURE = Command(
    "run a model in its runtime, before and after a plan, and compare held with planned bytes",
    (
        option("graph", metavar="model", help="model file: .onnx or .tflite"),
        option("plan", nargs="?", help="plan file that solve wrote for this model"),
        *READING,
        *MEMORY_MODEL[:1],
    ),
    _measure,
)
