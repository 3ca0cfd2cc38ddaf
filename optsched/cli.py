"""The command line: solve, compare, check, explain, info, convert, pack."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.errors import OptschedError, PlanError, UsageError
from optsched.options import Command, make_parser

if TYPE_CHECKING:
    from optsched.compare import Comparison
    from optsched.formats.minimalloc import Packing
    from optsched.graph import Graph
    from optsched.pools import Pool
    from optsched.reserved import Region
    from optsched.result import Limits, Result, StopReason

EXIT_OK, EXIT_CHECK_FAILED, EXIT_BAD_INPUT, EXIT_UNPROVED = 0, 1, 2, 3
EXIT_DOES_NOT_FIT, EXIT_NOTHING_FOUND, EXIT_INTERRUPTED = 4, 5, 130

_REGION = re.compile(r"([^:@]+):([^:@]+)(?:@([0-9]{1,18})-([0-9]{1,18}))?")


def run() -> None:
    """Entry point of the installed command."""
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error a user can cause is one line."""
    args = make_parser(COMMANDS).parse_args(argv)
    if hasattr(signal, "SIGTERM"):
        # A polite kill ends a search as Ctrl-C does: with the best plan written.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        code = command(args)
        sys.stdout.flush()
    except OptschedError as error:
        return _fail(str(error), EXIT_BAD_INPUT)
    except BrokenPipeError:
        # The reader of our output went away; nothing is left to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as error:
        return _fail(f"{error.filename or ''}: {error.strerror or error}", EXIT_BAD_INPUT)
    except MemoryError:
        return _fail("out of memory", EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        return _fail("interrupted", EXIT_INTERRUPTED)
    return code


def _fail(message: str, code: int) -> int:
    print(f"optsched: error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _solve(args: argparse.Namespace) -> int:
    from optsched.formats import read_plan, write_plan
    from optsched.inplace import refuse_inplace
    from optsched.pipeline import solve
    from optsched.report.record import solve_record
    from optsched.report.table import result_text

    graph = _read_graph(args, args.graph)
    if args.certificate:
        refuse_inplace(graph, "certificates")
    _protect(args.output, args.graph, args.warm_start)
    _protect(args.certificate, args.graph, args.warm_start, args.output)
    warm_start = read_plan(args.warm_start, graph) if args.warm_start else None
    with _progress() as progress:
        result = solve(
            graph,
            objective=args.objective,
            capacity=_capacity(args),
            engine=args.engine,
            limits=_limits(args),
            warm_start=warm_start,
            on_event=progress,
        )
    record = solve_record(graph, result)
    if args.output and result.plan is not None:
        write_plan(args.output, graph, result.plan, record)
    text = result_text(graph, result)
    if args.certificate:
        note = _certify(args, graph, result)
        record["certificate"] = note
        text += f"\n  certificate: {note['rung']}, no order below {note['bound']:,} bytes"
    _print_result(args, record, text)
    return _exit_code(result.status, result.stop_reason)


def _certify(args: argparse.Namespace, graph: Graph, result: Result) -> dict[str, Any]:
    """Write the certificate of the bound on the peak; what it falls short of is said."""
    from heuristics import ORDERINGS
    from optsched.certificate import certify_peak
    from optsched.formats.certificate import write_certificate

    order = ORDERINGS["program"](graph, 0) if result.plan is None else result.plan.order
    written = certify_peak(graph, order, result.peak_bound, seconds=_limits(args).seconds)
    write_certificate(args.certificate, graph, written.certificate)
    if written.missing:
        print(f"optsched: certificate: {written.missing}", file=sys.stderr)
    bound = written.certificate.bound
    return {"rung": written.rung, "bound": bound, "missing": written.missing}


def _pack(args: argparse.Namespace) -> int:
    pools = [_pool(text) for text in args.pool]
    if pools and (args.capacity or args.reserve):
        raise UsageError("--pool has its own capacities, and goes with no --capacity or --reserve")
    if args.output and len(args.packing) > 1:
        raise UsageError("--output takes one file: give one packing at a time")
    answers = [_pack_file(args, path, pools) for path in args.packing]
    if args.json:
        records = [record for record, _, _ in answers]
        _print_json(records[0] if len(records) == 1 else {"results": records})
    else:
        print("\n".join(text for _, text, _ in answers))
    return max(code for _, _, code in answers)


def _pack_file(
    args: argparse.Namespace, path: str, pools: list[Pool]
) -> tuple[dict[str, Any], str, int]:
    """Return the record, the text and the exit code of one packing."""
    from optsched.formats import read_packing, write_packing
    from optsched.packer import pack
    from optsched.report.record import pack_record
    from optsched.report.table import packing_text

    _protect(args.output, path)
    packing = read_packing(path)
    if pools or any(packing.pools or ()):
        return _pack_pools(args, packing, pools)
    regions = [_region(text) for text in args.reserve]
    with _progress(f"{packing.problem.name}  ") as progress:
        result = pack(
            packing.problem,
            capacity=_capacity(args),
            reserved=regions,
            limits=_limits(args),
            on_event=progress,
        )
    if args.output and result.offsets is not None:
        write_packing(args.output, packing, result.offsets)
    record = pack_record(packing.problem, result)
    if regions:
        record["reserved"] = [str(region) for region in regions]
    code = _exit_code(result.status, result.stop_reason)
    return record, packing_text(packing.problem, result), code


def _pack_pools(
    args: argparse.Namespace, packing: Packing, pools: list[Pool]
) -> tuple[dict[str, Any], str, int]:
    from optsched.formats import write_packing
    from optsched.formats.minimalloc import with_pools
    from optsched.pools import Pool, pack_pools
    from optsched.report.pools import pools_record, pools_text

    homes = packing.pools or ("",) * len(packing.problem)
    if args.capacity or args.reserve:
        raise UsageError("the buffers name pools: --capacity and --reserve would be unclear")
    if not pools:
        pools = [Pool(name) for name in dict.fromkeys(homes) if name]
    with _progress() as progress:
        result = pack_pools(packing.problem, homes, pools, limits=_limits(args), on_event=progress)
    names, offsets = result.places(len(packing.problem))
    if args.output and result.slab is not None:
        write_packing(args.output, with_pools(packing, names), offsets)
    record = pools_record(packing.problem, result)
    code = _exit_code(result.status, result.stop_reason)
    return record, pools_text(packing.problem, result), code


def _compare(args: argparse.Namespace) -> int:
    from optsched.compare import compare_methods
    from optsched.report.record import comparison_record, versions

    paths = _graph_files(args.graph)
    methods = args.methods.split(",") if args.methods else None
    done: list[Comparison] = []
    interrupted = False
    for number, path in enumerate(paths, start=1):
        with _progress(f"[{number}/{len(paths)}] {path.name}  ") as progress:
            graph = _read_graph(args, path)
            comparison = compare_methods(
                graph,
                methods=methods,
                engine=args.engine,
                limits=_limits(args),
                on_event=progress,
            )
        done.append(comparison)
        if comparison.result.stop_reason == "interrupted":
            interrupted = True
            break
    if args.json:
        records = [comparison_record(c) for c in done]
        rows = [row for record in records for row in record.pop("rows")]
        _print_json({"rows": rows, "instances": records, "versions": versions()})
    else:
        _print_comparisons(done)
    if args.report:
        from optsched.report.html import write_report

        write_report(args.report, done)
        print(f"report: {args.report}", file=sys.stderr if args.json else sys.stdout)
    return EXIT_INTERRUPTED if interrupted else EXIT_OK


def _print_comparisons(done: Sequence[Comparison]) -> None:
    from rich.console import Console

    from optsched.report.table import gap_summary, gap_table

    # A pipe has no width: there the table takes what it needs.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(gap_table(done, console))
    console.print(gap_summary(done))


def _check(args: argparse.Namespace) -> int:
    from optsched.formats import read_packing, read_plan_claims, sniff_file
    from optsched.graph import IN_PLACE

    proved = None
    try:
        if args.plan is None:
            if sniff_file(args.graph) != "minimalloc":
                raise UsageError("check needs a graph and a plan, or one packing with offsets")
            return _check_packing(args, read_packing(args.graph))
        graph = _read_graph(args, args.graph)
        plan, claims = read_plan_claims(args.plan, graph)
        if claims.get("memory_model", "").endswith(IN_PLACE) and not args.inplace:
            raise UsageError(f"{args.plan}: an in-place plan: check it with --inplace")
        from optsched.check import check_plan

        checked = check_plan(graph, plan, peak=claims.get("peak"), slab=claims.get("slab"))
        if args.certificate is not None:
            proved = _check_bound(graph, args.certificate, checked.peak)
    except PlanError as error:
        if args.json:
            _print_json({"valid": False, "error": str(error)})
        return _fail(str(error), EXIT_CHECK_FAILED)
    record: dict[str, Any] = {"valid": True, "peak": checked.peak, "slab": checked.slab}
    text = f"valid: peak {checked.peak:,} bytes, slab {checked.slab:,} bytes"
    if proved is not None:
        bound, rung = proved
        record |= {"bound": bound, "bound_proof": rung}
        least = [f"the {what} is least" for what in ("peak", "slab") if record[what] == bound]
        rest = least or ["which leaves the peak of this plan open"]
        text += f"\nproved ({rung}): no order below {bound:,} bytes, {', '.join(rest)}"
    _print_result(args, record, text)
    return EXIT_OK


def _check_bound(graph: Graph, path: str, peak: int) -> tuple[int, str]:
    """Check a certificate; return the bound it proves and its rung."""
    from optsched.check_certificate import check_certificate
    from optsched.formats.certificate import read_certificate

    certificate = read_certificate(path, graph)
    try:
        rung = check_certificate(graph, certificate)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    if certificate.bound > peak:
        raise PlanError(f"{path}: bound {certificate.bound} is above the peak {peak} of an order")
    return certificate.bound, rung


def _check_packing(args: argparse.Namespace, packing: Any) -> int:
    from optsched.check import check_packing

    if packing.offsets is None:
        raise PlanError(f"{args.graph}: not every buffer has an offset")
    offsets = packing.offsets.tolist()
    if any(packing.pools or ()):
        from optsched.pools import check_pools

        slab = check_pools(packing.problem, packing.pools, offsets)
    else:
        slab = check_packing(packing.problem, offsets)
    _print_result(args, {"valid": True, "slab": slab}, f"valid: slab {slab:,} bytes")
    return EXIT_OK


def _explain(args: argparse.Namespace) -> int:
    from optsched.explain import explain
    from optsched.formats import read_graph
    from optsched.report.explain import explain_record, explain_text

    graph = read_graph(args.graph, input_bytes=args.input_bytes)
    record = explain_record(graph, explain(graph))
    _print_result(args, record, explain_text(record))
    return EXIT_OK


def _info(args: argparse.Namespace) -> int:
    from optsched.report.info import describe, info_text

    record = describe(_read_graph(args, args.graph))
    record["input_bytes_by_name"] = _input_bytes(args.graph)
    _print_result(args, record, info_text(record))
    return EXIT_OK


def _read_graph(args: argparse.Namespace, path: str | Path) -> Graph:
    """Read a graph in the memory model that the options ask for."""
    from optsched.formats import read_graph

    graph = read_graph(path, input_bytes=args.input_bytes)
    return graph.with_inplace() if args.inplace else graph


def _input_bytes(path: str) -> dict[str, int]:
    """Bytes of the freed inputs, as recorded and as the tensors have them, where a file says."""
    from optsched.formats import InputBytes, read_graph
    from optsched.report.info import counted_input_bytes

    found = {}
    for name in InputBytes:
        try:
            found[name.value] = counted_input_bytes(read_graph(path, input_bytes=name))
        except OptschedError:
            # The poorer form of Inductor's file does not hold the tensors' true bytes.
            continue
    return found


def _convert(args: argparse.Namespace) -> int:
    from optsched.formats import read_graph, write_graph

    _protect(args.output, args.graph)
    graph = read_graph(args.graph, input_bytes=args.input_bytes)
    write_graph(args.output, graph)
    record = {"instance": graph.name, "ops": len(graph.ops), "buffers": len(graph.buffers)}
    text = f"{args.output}: {len(graph.ops)} ops, {len(graph.buffers)} buffers"
    _print_result(args, record, text)
    return EXIT_OK


def _warmup(args: argparse.Namespace) -> int:
    from optsched.warmup import warm_up

    warm_up(lambda text: print(f"compiling (once): {text}", file=sys.stderr, flush=True))
    return EXIT_OK


class _progress:  # noqa: N801 - a context manager used like a function
    """Progress on standard error while the block runs; the line is wiped at its end."""

    def __init__(self, prefix: str = "") -> None:
        from optsched.report.progress import ProgressLine

        self.line = ProgressLine(prefix=prefix)

    def __enter__(self) -> Any:
        return self.line

    def __exit__(self, *_: object) -> None:
        self.line.clear()


def _print_result(args: argparse.Namespace, record: dict[str, Any], text: str) -> None:
    if args.json:
        _print_json(record)
    else:
        print(text)


def _print_json(record: dict[str, Any]) -> None:
    json.dump(record, sys.stdout, indent=2)
    sys.stdout.write("\n")


def _exit_code(status: str, stop_reason: StopReason) -> int:
    if stop_reason == "interrupted":
        return EXIT_INTERRUPTED
    if status == "infeasible":
        return EXIT_DOES_NOT_FIT
    if status == "unknown":
        return EXIT_NOTHING_FOUND
    return EXIT_OK if status == "optimal" or stop_reason == "decided" else EXIT_UNPROVED


def _limits(args: argparse.Namespace) -> Limits:
    from optsched.result import Limits

    seconds = None if args.time_limit == float("inf") else args.time_limit
    return Limits(seconds=seconds, workers=args.workers, seed=args.seed)


def _capacity(args: argparse.Namespace) -> int | None:
    from optsched.report.bytes import parse_bytes

    return None if args.capacity is None else parse_bytes(args.capacity)


def _pool(text: str) -> Pool:
    from optsched.pools import Pool
    from optsched.report.bytes import parse_bytes

    name, given, capacity = text.partition("=")
    if not name.strip():
        raise UsageError(f"--pool wants NAME or NAME=CAPACITY, got {text!r}")
    return Pool(name.strip(), parse_bytes(capacity) if given else None)


def _region(text: str) -> Region:
    from optsched.report.bytes import parse_bytes
    from optsched.reserved import Region

    found = _REGION.fullmatch(text)
    if found is None:
        raise UsageError(f"--reserve wants LOW:HIGH or LOW:HIGH@START-END, got {text!r}")
    low, high, start, end = found.groups()
    steps = (None, None) if start is None else (int(start), int(end))
    return Region(parse_bytes(low), parse_bytes(high), *steps)


def _protect(output: str | None, *inputs: str | None) -> None:
    for path in inputs:
        if output and path and os.path.exists(output) and os.path.samefile(output, path):
            raise UsageError(f"{output}: the output would overwrite an input")


def _graph_files(paths: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*.json*") if p.suffix in (".json", ".gz"))
            if not inside:
                raise UsageError(f"{path}: no .json or .json.gz file in this folder")
            found += inside
        else:
            found.append(path)
    return found


COMMANDS: dict[str, Command] = {
    "solve": _solve,
    "compare": _compare,
    "explain": _explain,
    "check": _check,
    "info": _info,
    "convert": _convert,
    "pack": _pack,
    "warmup": _warmup,
}
"""What each command of the parser does."""
