"""The command pack: offsets for buffers whose live ranges are given."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optsched.cli import common
from optsched.cli.options import ALIGN, BELOW, LIMITS, POOL, Command, flag, option, repeated
from optsched.errors import UsageError
from optsched.reports.progress import ProgressLine

if TYPE_CHECKING:
    from optsched.formats.minimalloc import PackingTable
    from optsched.model.pools import Pool
    from optsched.model.reserved import Region
    from optsched.solver.packing_result import PackingResult

Answer = tuple[dict[str, Any], str, int]
"""Record, text and exit code of one packing."""
_REGION = re.compile(r"([^:@]+):([^:@]+)(?:@([0-9]{1,18})-([0-9]{1,18}))?")


def _pack(args: argparse.Namespace) -> int:
    slabs = common.pools(args)
    if slabs and (args.capacity or args.reserve):
        raise UsageError("--pool excludes --capacity and --reserve: write --pool NAME=BYTES")
    # A file of offsets is of one packing.
    if args.output and len(args.packing) > 1:
        raise UsageError("--output is for a single packing: give one packing at a time")
    answers = [_pack_file(args, path, slabs) for path in args.packing]
    if args.json:
        records = [record for record, _, _ in answers]
        common.print_json(args, records[0] if len(records) == 1 else {"results": records})
    else:
        common.show("\n".join(text for _, text, _ in answers))
    # The worst code: one failure among many files must be seen.
    return max(code for _, _, code in answers)


def _pack_file(args: argparse.Namespace, path: str, slabs: list[Pool]) -> Answer:
    from optsched.compare.allocator_advice import advise
    from optsched.compare.saving import packing_saving
    from optsched.formats import read_packing
    from optsched.formats.writing import packing_format
    from optsched.model.limits import limited_packing, parse_limits
    from optsched.model.memory_model import parse_alignment
    from optsched.model.reductions import Aligned
    from optsched.reports.results import packing_record, packing_text

    common.protect([args.output], path)
    packing = read_packing(path, pins=args.pins)
    if args.align is not None:
        # Sizes and offsets are rounded once for all methods.
        problem = Aligned(parse_alignment(args.align)).reduce(packing.problem)[0]
        packing = replace(packing, problem=problem)
    if args.below:
        limits = parse_limits(args.below)
        packing = replace(packing, problem=limited_packing(packing.problem, limits))
    if args.output:
        # What the file cannot hold is refused before the search.
        packing_format(packing, args.output)
    result = _answer(args, packing, slabs)
    record = packing_record(result)
    # Without pools, all that the file records were packed into the one slab.
    found = {part.pool.name: part.result.slab for part in result.packed}
    found = found if result.in_pools else dict.fromkeys(packing.reserved, result.slab)
    bound, among = None if result.in_pools else result.slab_bound, _scope(args, packing)
    saved = packing_saving(packing, result.slab, bound, among)
    record["saving"] = saved.to_dict()
    if among:
        record["among"] = among
    text = f"{saved}\n{packing_text(result, record)}"
    if packing.reserved:
        # The file is the record of an allocator's run, with the bytes that it had reserved.
        advice = {
            device: advise(packing.traces.get(device), count, found.get(device))
            for device, count in packing.reserved.items()
        }
        record["recorded"] = {device: one.to_dict() for device, one in advice.items()}
        text = "\n".join([text, *(line for d, one in advice.items() for line in one.lines(d))])
    return record, text, common.exit_code(result.status, result.stop_reason)


def _scope(args: argparse.Namespace, packing: PackingTable) -> str:
    """Return in words which packings the bounds are about; empty for all of the buffers."""
    from optsched.solver.packing_result import LEAVE_FREE

    rules = []
    if args.pins and (packing.problem.pin >= 0).any():
        rules.append("keep the offsets in the file")
    if args.reserve:
        rules.append(LEAVE_FREE)
    if args.below:
        rules.append(f"keep {' and '.join(args.below)} as upper limits")
    if args.align is not None:
        rules.append(f"round sizes and offsets up to multiples of {args.align}")
    return f"packings that {' and '.join(rules)}" if rules else ""


def _answer(args: argparse.Namespace, packing: PackingTable, slabs: list[Pool]) -> PackingResult:
    """Pack a file, and write the offsets."""
    from optsched.formats import write_packing
    from optsched.formats.minimalloc import with_pools
    from optsched.solver.pack import pack

    regions, capacity = [_region(text) for text in args.reserve], common.capacity(args)
    in_pools = bool(slabs) or any(packing.pools or ())
    if in_pools and (regions or capacity is not None):
        raise UsageError("--capacity and --reserve are for a single slab: give --pool NAME=BYTES")
    if capacity is not None:
        # The output states the capacity that was requested.
        packing = replace(packing, problem=replace(packing.problem, capacity=capacity))
    name, seconds = "" if in_pools else f"{packing.problem.name}  ", common.limits(args).seconds
    with ProgressLine(name, seconds=seconds) as show:
        limits = common.clock(args)
        result = pack(packing, pools=slabs, reserved=regions, limits=limits, on_event=show)
    if args.output and result.slab is not None:
        pools, offsets = result.places(len(packing.problem))
        write_packing(with_pools(packing, pools) if in_pools else packing, args.output, offsets)
    return result


def _region(text: str) -> Region:
    from optsched.model.reserved import Region
    from optsched.runtime.bytes import parse_bytes

    found = _REGION.fullmatch(text)
    if found is None:
        raise UsageError(f"--reserve wants LOW:HIGH or LOW:HIGH@START-END, got {text!r}")
    low, high, start, end = found.groups()
    steps = (None, None) if start is None else (int(start), int(end))
    return Region(parse_bytes(low), parse_bytes(high), *steps)


PACK = Command(
    "offsets for given live ranges (MiniMalloc CSV, PyTorch memory snapshot or profile)",
    (
        option("packing", nargs="+", help="CSV files, PyTorch memory snapshots or profiles"),
        option("-o", "--output", help="CSV file with offsets to write"),
        option("--capacity", metavar="BYTES", help="stop at the first packing within BYTES"),
        flag("--pins", "take the offsets in the file as fixed"),
        POOL,
        repeated(
            "--reserve",
            "LOW:HIGH[@START-END]",
            "keep these bytes free of buffers, in the steps START to END - 1 (default: always)",
        ),
        ALIGN,
        BELOW,
        *LIMITS,
    ),
    _pack,
)
