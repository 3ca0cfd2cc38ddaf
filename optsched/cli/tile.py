"""The command tile: a model in row bands, so that it fits a smaller arena."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.options import LIMITS, Command, choice, number, option, positive, repeated
from optsched.errors import OptschedError, UsageError
from optsched.reports.terminal import console
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.text import percent

if TYPE_CHECKING:
    from optsched.formats.tiling import Tilable
    from optsched.solver.tiling.result import TilingResult


HINT_SECONDS, HINT_EXTRA = 4.0, 0.05
"""Time for a hint in the answer of another command, and the share of multiplications it adds."""


def _tile(args: argparse.Namespace) -> int:
    from optsched.formats.tiling import read_tilable
    from optsched.reports.tables import print_table
    from optsched.reports.tiling import front_table, tiling_line, tiling_record, tiling_text
    from optsched.solver.tiling.solve import tile

    common.protect([args.output, args.certificate, args.page], args.graph)
    if args.output:
        common.check_ending(args.output, "a tiled model", (".tflite", ".json"))
    asked = _question(args)
    model = read_tilable(args.graph).restricted(_names(args.keep_whole), args.align_rows)
    result = tile(
        model.rows,
        **asked,
        tail=model.tail(args.tail),
        bands=args.bands,
        objective=args.objective,
        limits=common.clock(args),
    )
    record = tiling_record(result, model.own_head)
    line = tiling_line(result, model.own_head)
    try:
        _write_files(args, model, result)
    finally:
        # Printed even if a file could not be written, for example on a full disk.
        common.print_result(args, record, f"{line}\n{tiling_text(result)}".strip())
        if args.points is not None and not args.json:
            to = console(stderr=bool(common.printed_files(args)))
            print_table(to, front_table(result), "--json shows all columns")
    return common.exit_code(result.status, result.stop_reason)


def tiling_hint(args: argparse.Namespace, wanted: bool, capacity: int | None = None) -> str:
    """Return in one line what tiling saves where no order needs less; empty if it saves nothing.

    With a capacity, the line tells if tiling fits it.
    """
    if args.json or not wanted:
        return ""
    from optsched.formats.tiling import read_tilable
    from optsched.runtime.limits import Limits
    from optsched.solver.status import Status
    from optsched.solver.tiling.solve import tile

    if not str(args.graph).removesuffix(".gz").endswith(".tflite"):
        return ""
    asked: dict[str, Any] = {"extra": HINT_EXTRA} if capacity is None else {"capacity": capacity}
    # A hint must not take longer than the answer, or fail it.
    with suppress(OptschedError):
        model = read_tilable(args.graph)
        limits = Limits(seconds=min(HINT_SECONDS, args.time_limit))
        tail = model.tail(getattr(args, "tail", None) or "32")
        found = tile(model.rows, **asked, tail=tail, limits=limits)
        if found.status is Status.INFEASIBLE:
            return f"\n  no {found.family} fits either, proved"
        if found.best is not None and found.best.arena < found.untiled.arena:
            share = f"{found.best.arena / found.untiled.arena:.2f} of the arena"
            more = percent(found.share(found.best.extra), 1)
            fits = "" if capacity is None else f", which fits {capacity:,} bytes,"
            line = f"no order needs less; optsched tile: {share}{fits} at {more} more"
            return f"\n  {line} multiplications"
    return ""


def _question(args: argparse.Namespace) -> dict[str, Any]:
    """Return the one question that the options ask: 5 % more multiplications by default."""
    given = {"capacity": args.capacity, "extra": args.extra, "points": args.points}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) > 1:
        raise UsageError(f"give --{asked[0]} or --{asked[1]}, not both")
    if args.bands < 2:
        raise UsageError(f"--bands: a stage has at least 2 bands, got {args.bands}")
    if args.capacity is not None:
        return {"capacity": parse_bytes(args.capacity)}
    return {"points": args.points} if args.points is not None else {"extra": _share(args.extra)}


def _share(text: str | None) -> float:
    """Return a share such as `5%` or `0.05`."""
    if text is None:
        return 0.05
    digits = text.strip().removesuffix("%")
    try:
        value = float(digits) / (100 if digits != text.strip() else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1000:
        raise UsageError(f"--extra: expected a share such as 5% or 0.05, got {text!r}")
    return value


def _names(rows: list[str]) -> list[str]:
    return [name.strip() for row in rows for name in row.split(",") if name.strip()]


def _write_files(args: argparse.Namespace, model: Tilable, result: TilingResult) -> None:
    from optsched.formats.fields import json_bytes
    from optsched.formats.source import write_bytes
    from optsched.formats.tiling import tiling_document
    from optsched.reports.tiling import tiling_page

    best = result.best
    if args.page:
        write_bytes(args.page, tiling_page(result, model.own_head).encode())
    if args.output and best is not None:
        if args.output.removesuffix(".gz").endswith(".json"):
            data = json_bytes(tiling_document(best.tiled, best.plan))
        else:
            data = model.write(best.tiled, best.plan)
        write_bytes(args.output, data)
    if args.certificate:
        _write_certificate(args, model, result)


def _write_certificate(args: argparse.Namespace, model: Tilable, result: TilingResult) -> None:
    from optsched.certificate.tiling import certify_tiling
    from optsched.formats.fields import json_bytes
    from optsched.formats.source import write_bytes
    from optsched.formats.tiling import certificate_document

    found = certify_tiling(model.rows, result.bands, common.clock(args))
    write_bytes(args.certificate, json_bytes(certificate_document(model.rows, found)))


TILE = Command(
    "run a model in row bands, so that it fits a smaller arena, bit for bit equal",
    (
        option("graph", help="model file (.tflite); - for standard input"),
        option("--capacity", metavar="BYTES", help="find the cheapest plan within an arena"),
        option("--extra", metavar="SHARE", help="smallest arena within more work (default: 5%%)"),
        number("--points", positive, "find N plans from the untiled one to the smallest: a front"),
        choice("--tail", ("32", "64", "none"), "pointers of the tail: bits, or leave it out"),
        choice("--objective", ("total", "head"), "minimize head and tail, or the head alone"),
        number("--bands", positive, "most bands of a stage", 48),
        repeated("--keep-whole", "OPS", "ops to run as they are, separated by commas"),
        number("--align-rows", positive, "bytes that divide the place of rows", 1),
        option("-o", "--output", help="write the tiled model (.tflite), or its plan (.json)"),
        option("--certificate", metavar="FILE", help="write why no tiling has a smaller head"),
        option("--page", metavar="FILE", help="write front and slab as an HTML page"),
        *LIMITS,
    ),
    _tile,
)
