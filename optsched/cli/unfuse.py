"""Cuts of fused nodes in captured graphs: `--unfuse` of solve and compare; the check of both."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.folders import graph_files
from optsched.errors import OptschedError, UsageError
from optsched.formats.fused import SPLIT_FORMAT
from optsched.formats.labels import distinct_labels
from optsched.formats.source import write_bytes
from optsched.model.saving import Saving, change
from optsched.reports.tables import Column, Table, as_csv, as_markdown, print_table
from optsched.reports.terminal import console
from optsched.runtime.facts import versions
from optsched.runtime.limits import Objective, StopReason
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from optsched.compare import Skipped
    from optsched.model.fused import FusedGraph
    from optsched.solver.fusion.front import Front
    from optsched.solver.fusion.result import FusionResult, Point

_TAKEN = {
    *("--graph", "--unfuse", "--output", "--certificate", "--page", "--csv", "--markdown"),
    *("--json", "--objective", "--time-limit", "--work", "--workers", "--seed"),
}
"""Arguments that a split has a use for."""
SEARCH_SHARE = 0.5
"""Part of the time for the search; the rest finds few cuts."""
ALL_FUSED, SPLITS = "all nodes fused", "splits of the fused nodes"
"""The plan that a split is compared with, and the plans that its bound is about, in words."""


def solve_unfused(args: argparse.Namespace) -> int:
    """Search the split of least peak of a captured graph, and the cheapest cuts for its peak."""
    args.objective = "peak"
    common.protect([args.output, args.certificate, args.page], args.graph)
    result, front = _search(args, args.graph)
    record = _record(result, front.points)
    text = _text(result, front.points)
    try:
        text += _write_files(args, result, front, record)
    finally:
        # Printed even if a file could not be written, for example on a full disk.
        common.print_result(args, record, text)
    return common.exit_code("optimal" if result.proved else "feasible", _reason(result, front))


def _write_files(
    args: argparse.Namespace, result: FusionResult, front: Front, record: dict[str, Any]
) -> str:
    """Write the files that the options ask for, and return a line about the certificate."""
    note = ""
    if args.certificate:
        record["certificate"], note = _certify(args, result, _reason(result, front))
    if args.output:
        written = {"format": SPLIT_FORMAT, **record}
        write_bytes(args.output, f"{json.dumps(written, indent=1)}\n".encode())
    if args.page:
        from optsched.reports.split_front import split_page

        saved = _saving(result, front.points)
        write_bytes(args.page, split_page(result, front.points, str(saved)).encode())
    return note


def compare_unfused(args: argparse.Namespace) -> int:
    """Print a table with the whole nodes beside the best split, one row per file."""
    # Not above: `check` imports this module, and runs without heuristics and solvers.
    from optsched.compare import Skipped

    files = graph_files(args.graph)
    common.protect([args.csv, args.markdown], *(path for path, _ in files))
    rows, records, interrupted = [], [], False
    saved: dict[str, Saving] = {}
    skipped: list[Skipped] = []
    for path, named in files:
        try:
            result, front = _search(args, path)
        except OptschedError as error:
            # The rows of other files are not lost.
            skipped.append(Skipped(path, str(error), bad=named))
            continue
        records.append({"path": path, **_record(result, front.points)})
        saved[path] = _saving(result, front.points)
        rows.append(_row(path, result, front.points))
        if interrupted := _reason(result, front) is StopReason.INTERRUPTED:
            break
    names, paths = ([row[key] for row in rows] for key in ("graph", "path"))
    for row, label in zip(rows, distinct_labels(names, paths), strict=True):
        row["graph"] = label
    try:
        _write_table(args, rows)
    finally:
        _show_table(args, rows, records, saved, skipped)
    if interrupted:
        return common.INTERRUPTED
    return common.BAD_INPUT if not rows or any(row.bad for row in skipped) else common.OK


def _write_table(args: argparse.Namespace, rows: Sequence[dict[str, Any]]) -> None:
    if args.csv:
        write_bytes(args.csv, as_csv(list(rows[0]) if rows else [], rows).encode())
    if args.markdown:
        write_bytes(args.markdown, f"{as_markdown(_table(rows))}\n".encode())


def _show_table(
    args: argparse.Namespace,
    rows: Sequence[dict[str, Any]],
    records: Sequence[dict[str, Any]],
    saved: Mapping[str, Saving],
    skipped: Sequence[Skipped],
) -> None:
    from optsched.reports.saving import print_headline, savings_record

    if args.json:
        passed = [asdict(row) for row in skipped]
        saving = savings_record(saved)
        common.print_json(args, {"graphs": records, "saving": saving, "skipped": passed})
    elif rows:
        to = console(stderr=bool(common.printed_files(args)))
        print_headline(saved, to, listed=False)
        print_table(to, _table(rows), "--csv has all")
    for row in skipped:
        common.show(f"optsched: {'error: ' if row.bad else 'passed over: '}{row}", sys.stderr)


def refuse_others(args: argparse.Namespace) -> None:
    """Refuse options that a search of splits does not use.

    Raise `UsageError` if one is given.
    """
    if getattr(args, "objective", None) == "slab":
        raise UsageError("--unfuse lowers the peak: it excludes --objective slab")
    if others := [name for name in common.changed(args) if name not in _TAKEN]:
        raise UsageError(f"--unfuse excludes {others[0]}")


def _saving(result: FusionResult, front: Sequence[Point]) -> Saving:
    return _saved_on(result.whole.peak, front[-1].peak, result.bound)


def _saved_on(before: int | None, after: int, bound: int | None) -> Saving:
    """Return the saving of a split against the whole nodes."""
    return Saving(Objective.PEAK, "peak", before, after, bound, ALL_FUSED, among=SPLITS)


def _search(args: argparse.Namespace, path: str | Path) -> tuple[FusionResult, Front]:
    from optsched.formats.fused import read_fused
    from optsched.solver.fusion.front import find_front
    from optsched.solver.fusion.search import search_fusion
    from optsched.solver.fusion.whole import against_least_whole

    fused = read_fused(path)
    common.keep_from_collector()
    clock = common.clock(args)
    result = search_fusion(fused, clock.share(SEARCH_SHARE))
    if result.stop_reason is not StopReason.INTERRUPTED:
        result = against_least_whole(result)
    return result, find_front(result, clock)


def _reason(result: FusionResult, front: Front) -> StopReason:
    """Return why the search ended; Ctrl-C while few cuts are sought counts as well."""
    interrupted = front.stop_reason is StopReason.INTERRUPTED
    return front.stop_reason if interrupted else result.stop_reason


def _certify(
    args: argparse.Namespace, result: FusionResult, stop_reason: StopReason
) -> tuple[dict[str, Any], str]:
    from optsched.certificate.fusion import certify_fusion
    from optsched.formats.fused import write_fusion_certificate
    from optsched.runtime.limits import Proof

    written = certify_fusion(result, common.certificate_clock(args, stop_reason))
    write_fusion_certificate(written.certificate, args.certificate, result.fused)
    bound = written.certificate.bound
    note = f"\n  certificate: {Proof(written.rung).with_code}, no split below {bound:,} bytes"
    if written.missing:
        note += f" ({written.missing})"
    return {"rung": written.rung, "bound": bound, "missing": written.missing}, note


def _record(result: FusionResult, front: Sequence[Point]) -> dict[str, Any]:
    from optsched.solver.fusion.front import knee

    return {
        "graph": result.fused.graph.name,
        "saving": _saving(result, front).to_dict(),
        "all_fused": _point(result.fused, result.whole),
        "best_split": _point(result.fused, front[-1]),
        "bound": result.bound,
        "proved": result.proved,
        "stop_reason": str(result.stop_reason),
        "branches": result.branches,
        "solves": result.solves,
        "seconds": result.seconds,
        "front": [_figures(point) for point in front],
        "knee": _figures(knee(front)),
        "whole": dict(result.fused.whole),
        "memory_model": result.fused.graph.model_name,
        "versions": versions(),
    }


def _figures(point: Point) -> dict[str, int]:
    return {"peak": point.peak, "kernels": point.kernels, "traffic": point.traffic}


def _point(fused: FusedGraph, point: Point) -> dict[str, Any]:
    names = [op.name for op in fused.graph.ops]
    return {**_figures(point), "groups": [[names[v] for v in group] for group in point.groups]}


def _text(result: FusionResult, front: Sequence[Point]) -> str:
    fused, whole, best = result.fused, result.whole, front[-1]
    nodes = counted(len(fused.nodes), "fused node")
    said = f"{fused.graph.name}: {counted(len(fused.graph.ops), 'part')}, {nodes}"
    if fused.whole:
        said += f", {len(fused.whole)} more left whole"
    proof = "no split needs less" if best.peak <= result.bound else f"bound {result.bound:,}"
    lines = [
        str(_saving(result, front)),
        said,
        f"  all fused:  peak {whole.peak:,} bytes, {counted(whole.kernels, 'kernel')}; in the best "
        "order known",
        f"  best split: peak {best.peak:,} bytes ({change(whole.peak, best.peak)}), {proof}",
    ]
    lines += [f"  {_price(result, point)}" for point in front[1:]]
    lines += [f"  {name} left whole: {why}" for name, why in fused.whole[:5]]
    return "\n".join(lines)


def _price(result: FusionResult, point: Point) -> str:
    cut = counted(len(point.cut_nodes(result.fused)), "node")
    return (
        f"cut {cut}: peak {point.peak:,}, {counted(point.kernels, 'kernel')}, "
        f"traffic {change(result.whole.traffic, point.traffic)}"
    )


def _row(path: str, result: FusionResult, front: Sequence[Point]) -> dict[str, Any]:
    """Return the figures of a file; the price is that of the cheapest cuts found for the peak."""
    whole, best = result.whole, front[-1]
    return {
        "path": path,
        "graph": result.fused.graph.name,
        "all_fused": whole.peak,
        "best_split": best.peak,
        "bound": result.bound,
        "proved": result.proved,
        "cut": len(best.cut_nodes(result.fused)),
        "kernels_fused": whole.kernels,
        "kernels": best.kernels,
        "traffic_fused": whole.traffic,
        "traffic": best.traffic,
        "seconds": f"{result.seconds:.6f}",
    }


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """Return a row of the printed table."""
    return {
        "graph": row["graph"],
        "all fused": f"{row['all_fused']:,}",
        "best split": f"{row['best_split']:,}",
        "bound": f"{row['bound']:,}",
        "change": change(row["all_fused"], row["best_split"]),
        "cut": f"{row['cut']:,}",
        "kernels": f"{row['kernels_fused']:,} -> {row['kernels']:,}",
        "traffic": change(row["traffic_fused"], row["traffic"]),
    }


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the table of files, one per line."""
    cells = [_cells(row) for row in rows]
    heads = list(cells[0]) if cells else ["graph"]
    columns = tuple(Column(head, "t" if head == "graph" else "n") for head in heads)
    return Table(columns, [list(row.values()) for row in cells])
