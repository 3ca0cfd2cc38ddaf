"""Short commands about one graph or plan: info, explain, convert, apply, export; and warmup."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.options import (
    GRAPH,
    GRAPH_MODEL,
    LIMITS,
    ORDER_RULES,
    READING,
    Command,
    choice,
    number,
    option,
    percentage,
)
from optsched.cli.recompute import COST_OPTIONS, LOSS, explain_peak
from optsched.cli.saving import add_saving
from optsched.cli.tile import tiling_hint
from optsched.errors import FormatError, GraphError, OptschedError, UsageError
from optsched.runtime.limits import Objective
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.formats.apply import Applied
    from optsched.formats.format import Format
    from optsched.model.graph import Graph
    from optsched.model.logical import LogicalModule


def _info(args: argparse.Namespace) -> int:
    from optsched.formats import FORMATS, Content, sniff_file
    from optsched.reports.results import describe, info_text

    try:
        graph = common.read_graph(args, args.graph)
    except (FormatError, GraphError) as error:
        # Recognized only now: a large file takes long to parse, and nearly all are graphs.
        if sniff_file(args.graph).holds is Content.PACKING:
            return _info_of_packing(args)
        # A model with open dimensions still has facts to show.
        return _info_of_blocked(args, error)
    assert graph.origin is not None
    row = FORMATS[graph.origin.format]
    record = describe(graph)
    record["input_bytes_by_name"] = _input_bytes(args, row, graph)
    text = info_text(record)
    if schedules := _schedules(args.graph, row):
        from optsched.reports.module import schedule_text

        record["xla"] = schedules
        text += f"\n{schedule_text(schedules)}"
    bounds = (record["peak_bound"], record["peak_bound"])
    text = add_saving(graph, record, text, peak=None, slab=None, bounds=bounds)
    common.print_result(args, record, text)
    return common.OK


def _info_of_packing(args: argparse.Namespace) -> int:
    """Show the contents of a packing problem."""
    from optsched.compare.saving import packing_saving
    from optsched.formats import read_packing
    from optsched.reports.results import packing_facts, packing_info_text

    common.refuse_graph_options(args, args.graph)
    table = read_packing(args.graph)
    record = packing_facts(table)
    saved = packing_saving(table, None, record["bound"])
    record["saving"] = saved.to_dict()
    # Nothing was searched, so "no plan found" would be wrong.
    least = f"slab at least {record['bound']:,} bytes"
    first = saved if saved.before is not None else least
    common.print_result(args, record, f"{first}\n{packing_info_text(record)}")
    return common.OK


def _info_of_blocked(args: argparse.Namespace, error: OptschedError) -> int:
    """Tell what a model file says although it cannot be planned; raise `error` if nothing."""
    from optsched.formats import describe_file
    from optsched.formats.source import label_of
    from optsched.reports.results import blocked_text

    facts = describe_file(args.graph)
    if facts is None:
        raise error
    record = {**asdict(facts), "ops": dict(facts.ops), "blocked": str(error)}
    common.print_result(args, record, blocked_text(label_of(args.graph), facts, str(error)))
    return common.OK


def _schedules(path: str, row: Format) -> dict[str, Any]:
    """Return what XLA's schedulers make of a module of HLO text; nothing of any other file."""
    if row.name != "hlo":
        return {}
    from optsched.reports.module import schedule_record

    return schedule_record(_logical(path))


def _logical(path: str) -> LogicalModule:
    """Read a module of HLO text as XLA's memory schedulers see it."""
    from optsched.formats.hlo.logical import read_logical_module
    from optsched.formats.opening import open_source
    from optsched.formats.source import errors_named, label_of
    from optsched.formats.table import find_format

    source = open_source(path)
    with errors_named(label_of(path)):
        row = find_format(source)
        if row.name != "hlo":
            raise UsageError(
                f"{path}: xla-logical is for HLO text, this is {row.holds} ({row.name})"
            )
        return read_logical_module(source)


def _input_bytes(args: argparse.Namespace, row: Format, graph: Graph) -> dict[str, int]:
    """Return the bytes of freed inputs, as recorded and of the tensors, if the file has both."""
    from optsched.formats import InputBytes, read_graph
    from optsched.reports.results import counted_input_bytes

    # Reading takes long for a large file, and most formats have one number.
    if "input_bytes" not in row.options:
        return dict.fromkeys((name.value for name in InputBytes), counted_input_bytes(graph))
    found = {}
    for name in InputBytes:
        # Both readings, so that the difference is visible.
        try:
            graph = read_graph(args.graph, **common.reading(args).options | {"input_bytes": name})
            found[name.value] = counted_input_bytes(graph)
        except OptschedError:
            # The poorer form of Inductor's file does not hold the tensors' true bytes.
            continue
    return found


def _explain(args: argparse.Namespace) -> int:
    if args.peak is not None:
        return explain_peak(args)
    if unused := common.given(args, "cost", "costs", "loss"):
        raise UsageError(f"{unused[0]} is about repeats of ops: give --peak, too")
    from optsched.explanation import explain
    from optsched.model.question import restriction_words

    graph = common.read_graph(args, args.graph, ordered=False)
    rules = common.reading(args).order_rules(graph)
    found = explain(rules.apply(graph), limits=common.clock(args))
    record, text = found.to_dict(), str(found)
    among = restriction_words(rules)
    if among:
        record["among"] = among
        text = f"only {among}:\n{text}"
    figures = {"peak": found.peak, "slab": None, "bounds": (found.bound, found.bound)}
    objective = Objective.PEAK
    text = add_saving(graph, record, text, **figures, among=among, objective=objective)
    text += tiling_hint(args, found.peak == found.bound and not (among or found.interrupted))
    common.print_result(args, record, text)
    return common.INTERRUPTED if found.interrupted else common.OK


def _convert(args: argparse.Namespace) -> int:
    from optsched.formats import read_graph, read_module, write_graph, write_module

    common.protect([args.output], args.graph)
    common.check_ending(args.output, args.to, (".onnx",) if args.to == "onnx-fused" else (".json",))
    # Orders and memory models are not part of a format, so only reading options count.
    options = common.reading(args).options
    record: dict[str, Any]
    if args.to == "onnx-fused":
        from optsched.measure.onnxruntime import write_fused

        left = write_fused(args.graph, args.output)
        record = {"graph": args.output, "ops": left}
        text = f"{args.output}: {counted(left, 'op')}, fused by ONNX Runtime"
    elif args.to in ("optsched-module", "xla-logical"):
        as_xla = args.to == "xla-logical"
        module = _logical(args.graph) if as_xla else read_module(args.graph, **options)
        write_module(module, args.output)
        record = {"graph": module.name, "computations": len(module.graphs)}
        text = f"{args.output}: {counted(len(module.graphs), 'computation')}"
        text = add_saving(module, record, text, peak=None, slab=None)
    else:
        graph = read_graph(args.graph, **options)
        write_graph(graph, args.output, format=args.to)
        record = {"graph": graph.name, "ops": len(graph.ops), "buffers": len(graph.buffers)}
        ops, buffers = counted(len(graph.ops), "op"), counted(len(graph.buffers), "buffer")
        text = f"{args.output}: {ops}, {buffers}"
        text = add_saving(graph, record, text, peak=None, slab=None)
    common.print_result(args, record, text)
    return common.OK


def _apply(args: argparse.Namespace) -> int:
    from optsched.formats.apply import apply_plan
    from optsched.reports.arena import arena_code, arena_fields, arena_lines

    common.protect([args.output], args.graph, args.plan)
    done = apply_plan(args.graph, args.plan, args.output, **common.reading(args).options)
    ops, slab = len(done.graph.ops), done.checked.slab
    record = {
        "graph": done.graph.name,
        "format": done.format,
        "ops": ops,
        "moved": done.moved,
        "peak": done.checked.peak,
        "slab": slab,
        "memory_model": done.graph.model_name,
        "load": done.load,
    }
    record |= arena_fields(done.tails, slab)
    load = _measured(args, done, record)
    text = f"{args.output}: {done.moved} of {ops} ops moved, slab {slab:,} bytes"
    order = [done.graph.ops[v].name for v in done.order]
    figures = {"peak": done.checked.peak, "slab": slab, "order": order}
    text = add_saving(done.graph, record, text, **figures)
    advice = _unless_too_little(args.min_gain, load, record)
    # A file without the plan needs its own array.
    code = arena_code(record) if advice == load else []
    load = "\n".join(filter(None, [advice, *arena_lines(record), *code]))
    text += f"\n{load}" if load else ""
    common.print_result(args, record, text)
    return common.OK


def _measured(args: argparse.Namespace, done: Applied, record: dict[str, Any]) -> str:
    """Return how to load the file with its plan, for ONNX models as measured."""
    # A model written to standard output has no path from which a session could be measured.
    if done.format != "onnx" or args.output == "-":
        return done.load
    from optsched.measure.ort_settings import find_settings

    best = find_settings(done.graph, done.order, args.output)
    if best is None:
        return done.load
    record["load"] = best.load
    record["held"] = best.to_dict()
    return f"{best}\n{best.load}"


def _unless_too_little(least: float, load: str, record: dict[str, Any]) -> str:
    """Return how to load a file, or the advice to keep the model if the plan gains too little."""
    saving, held = record["saving"], record.get("held")
    before, after = (held["default"], held["held"]) if held else (saving["before"], saving["after"])
    if before is None or after is None or before - after >= max(1, before * least / 100):
        return load
    record["load"] = f"Keep your file: it needs {before:,} bytes, and {after:,} with the plan"
    return str(record["load"])


def _export(args: argparse.Namespace) -> int:
    from optsched.formats.export import export_plan

    to_stdout = args.output == "-"
    common.protect([args.output], args.graph, args.plan)
    layout = export_plan(
        args.plan,
        args.output,
        to=args.to,
        graph=args.graph,
        computation=args.computation,
        prefix=args.prefix,
        **common.reading(args).options,
    )
    if not to_stdout:
        record = {"graph": layout.graph, "form": args.to, "buffers": len(layout.buffers)}
        record["slab"] = sum(layout.slabs.values())
        text = f"{args.output}: {counted(len(layout.buffers), 'buffer')}"
        common.print_result(args, record, _add_export_saving(args, record, text))
    return common.OK


def _add_export_saving(args: argparse.Namespace, record: dict[str, Any], text: str) -> str:
    """Put the saving into a record and before its text, if the graph is given to compare with."""
    if args.graph is None:
        return text
    from optsched.formats.answers import Asked, open_answer
    from optsched.model.graph import Graph

    answer = open_answer(args.plan, Asked(args.graph, common.reading(args), adapts=True))
    what, figures = answer.planned, answer.record
    # Blocks of what is called have no bytes in a framework's own plan.
    if isinstance(what, Graph):
        of = {"peak": figures["peak"], "slab": figures["slab"], "order": answer.order}
        return add_saving(what, record, text, **of)
    return text


def _warmup(args: argparse.Namespace) -> int:
    from optsched.reports.progress import ProgressLine
    from optsched.solver.warmup import count_compiled, warm_up

    with ProgressLine("compiling: ", count=count_compiled) as line:

        def say(text: str) -> None:
            line.show_text(text)
            if not sys.stderr.isatty():
                print(f"compiling (once): {text}", file=sys.stderr, flush=True)

        warm_up(say)
    _, total = count_compiled()
    record = {"compiled": True, "kernels": total}
    text = f"nothing planned; {counted(total, 'kernel')} compiled, for which no command waits again"
    common.print_result(args, record, text)
    return common.OK


INFO = Command("show the contents of a graph", (GRAPH, *GRAPH_MODEL), _info)
EXPLAIN = Command(
    "explain why no order has a smaller peak",
    (
        GRAPH,
        option("--peak", metavar="BYTES", help="explain what this peak costs in extra compute"),
        *COST_OPTIONS,
        LOSS,
        *LIMITS,
        *ORDER_RULES,
        *GRAPH_MODEL,
    ),
    _explain,
)
CONVERT = Command(
    "rewrite a graph in the native format or as TorchInductor's simulator file",
    (
        GRAPH,
        option("-o", "--output", required=True, help="file to write (.gz to compress)"),
        choice(
            "--to",
            ("optsched-graph", "optsched-module", "xla-logical", "inductor", "onnx-fused"),
            "format to write: optsched-graph; optsched-module, all computations of the file; "
            "xla-logical, as XLA's memory schedulers count; inductor; onnx-fused, with the "
            "fusions of ONNX Runtime",
            metavar="FORMAT",
        ),
        *READING,
    ),
    _convert,
)
APPLY = Command(
    "write a plan into a copy of a model file, so that its runtime follows it",
    (
        option("graph", metavar="model", help="model file; it is not changed"),
        option("plan", help="plan file that solve wrote for this model"),
        option("-o", "--output", required=True, help="model file to write"),
        number(
            "--min-gain",
            percentage,
            "advise to keep the file if less is saved, in percent",
            1.0,
            "PERCENT",
        ),
        *READING,
    ),
    _apply,
)
EXPORT = Command(
    "write a plan as JSON, CSV, C header, MiniMalloc CSV or program",
    (
        option("plan", help="plan file"),
        option("graph", nargs="?", help="graph of the plan, for sizes and live ranges"),
        option(
            "--to",
            required=True,
            choices=("json", "csv", "c-header", "minimalloc", "program"),
            help="format to write",
        ),
        option("-o", "--output", default="-", help="file to write (default: standard output)"),
        option(
            "--computation",
            default="",
            metavar="NAME",
            help="computation of a module's plan (default: the entry)",
        ),
        option(
            "--prefix",
            default="",
            metavar="NAME",
            help="first word of the names in a C header (default: the graph's name)",
        ),
        *READING,
    ),
    _export,
)
WARMUP = Command("compile all kernels now, so that no command waits for it", (), _warmup)
